"""Writes tests/golden/published/: small random models as Hugging Face's library saves them, with
the logits that it computes. The C++ tests import them without Python.

    ~/interop/bin/python tests/interop/make_published.py
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from published import END, LLAMA3_SCALING, hf, make_tokenizer, randomise, save

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "published"
VOCABULARY = 264
TEXTS = ["the cat and the hat and the rat; 1234 times in 2026, isn't it? Ünïcode \u00e9\u4e2d"]


def shape(**more):
    return {
        "vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 20,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 32, "initializer_range": 0.2, "bos_token_id": None,
        "eos_token_id": VOCABULARY - 1, **more,
    }


def models():
    yield "gpt2", torch.float32, "5GB", hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=4, n_positions=32, n_inner=20,
        initializer_range=0.2, bos_token_id=None, eos_token_id=VOCABULARY - 1))
    yield "llama3", torch.bfloat16, "12KB", hf.LlamaForCausalLM(hf.LlamaConfig(
        **shape(), rope_parameters={**LLAMA3_SCALING, "rope_theta": 500000.0}))
    yield "qwen2", torch.float16, "5GB", hf.Qwen2ForCausalLM(hf.Qwen2Config(
        **shape(), tie_word_embeddings=True))
    yield "qwen3", torch.bfloat16, "5GB", hf.Qwen3ForCausalLM(hf.Qwen3Config(
        **shape(), head_dim=6, tie_word_embeddings=True))


def main():
    shutil.rmtree(GOLDEN, ignore_errors=True)
    for seed, (name, dtype, shard, model) in enumerate(models()):
        torch.manual_seed(seed)
        folder = GOLDEN / name
        kind = {"qwen3": "qwen2"}.get(name, name)
        tokenizer = make_tokenizer(kind, TEXTS, VOCABULARY)
        model = randomise(model, seed).to(dtype)
        save(model, tokenizer, folder, max_shard_size=shard)
        text = (folder / "tokenizer.json").read_text()
        (folder / "tokenizer.json").write_text(
            json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")))
        model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        tokens = torch.randint(0, VOCABULARY, (2, 12))
        logits = model(tokens).logits.detach()
        greedy = model.generate(tokens[:1], attention_mask=torch.ones_like(tokens[:1]),
                                do_sample=False, max_new_tokens=16, pad_token_id=0,
                                eos_token_id=None)[0, 12:]
        save_file({"tokens": tokens.int(), "logits": logits[:, -3:].contiguous(),
                   "greedy": greedy.int()}, folder / "expected.safetensors")
    total = sum(file.stat().st_size for file in GOLDEN.rglob("*"))
    print(f"{GOLDEN}: {total} bytes")


main()
