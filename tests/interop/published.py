"""Models as Hugging Face's library makes them: random ones of each architecture, and tokenizers.

Published weights cannot be had everywhere these tests run, so the shapes here are small and odd:
shared heads, heads that do not fill the width, scaled positions, untied and tied heads, biases.
"""

from tokenizers import pre_tokenizers, processors, trainers

import torch
import transformers as hf

from tokens import untrained

END = "<|endoftext|>"
BEGIN = "<|begin_of_text|>"


def make_tokenizer(kind, texts, vocabulary):
    """One of gpt2, smollm2, llama3, qwen2, trained on the texts."""
    tokenizer = untrained(kind)
    special = [END, BEGIN] if kind == "llama3" else [END]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(special)  # behind all others, as published ones have them
    if kind == "llama3":
        begin = tokenizer.token_to_id(BEGIN)
        tokenizer.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(
                    single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN}:1 $B:1",
                    special_tokens=[(BEGIN, begin)],
                ),
            ]
        )
    return tokenizer


LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def make_models(vocabulary):
    """Random models by name, each with the kind of tokenizer that goes with it."""

    def shape(width=32, heads=4, shared=2, layers=2, hidden=48, context=64):
        return {
            "vocab_size": vocabulary,
            "hidden_size": width,
            "intermediate_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": shared,
            "max_position_embeddings": context,
            "initializer_range": 0.2,  # so that logits differ by more than rounding
            "bos_token_id": None,
            "eos_token_id": vocabulary - 1,
        }

    def gpt2(**more):
        return hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=4, n_positions=64,
                initializer_range=0.2, bos_token_id=None, eos_token_id=vocabulary - 1, **more,
            )
        )

    def llama(**more):
        return hf.LlamaForCausalLM(hf.LlamaConfig(**{**shape(), **more}))

    yield "gpt2", "gpt2", gpt2()
    yield "gpt2, narrow and untied", "gpt2", gpt2(n_inner=40, tie_word_embeddings=False,
                                                  activation_function="gelu")
    yield "llama", "llama3", llama()
    yield "llama, tied, biased", "smollm2", llama(tie_word_embeddings=True, attention_bias=True,
                                                  mlp_bias=True)
    yield "llama, 9 heads of 3 shared", "smollm2", llama(
        **shape(width=36, heads=9, shared=3, hidden=50), tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0})
    yield "llama 3's positions", "llama3", llama(
        rope_parameters={**LLAMA3_SCALING, "rope_theta": 500000.0})
    yield "llama, wide heads", "llama3", llama(head_dim=12)
    yield "qwen2", "qwen2", hf.Qwen2ForCausalLM(hf.Qwen2Config(**shape()))
    yield "qwen2, tied, one shared head", "qwen2", hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**shape(shared=1), tie_word_embeddings=True))
    yield "qwen3", "qwen2", hf.Qwen3ForCausalLM(hf.Qwen3Config(**shape(), head_dim=16))
    yield "qwen3, biased, tied", "qwen2", hf.Qwen3ForCausalLM(
        hf.Qwen3Config(**shape(hidden=33), head_dim=10, attention_bias=True,
                       tie_word_embeddings=True))


def randomise(model, seed):
    """Norms and biases away from the ones and zeros that they begin with."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


def save(model, tokenizer, folder, **options):
    model.save_pretrained(folder, **options)
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(folder)
