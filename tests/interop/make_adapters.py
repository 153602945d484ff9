"""Writes tests/golden/adapters/: adapters as peft saves them, of the random models in
tests/golden/published, with the logits that peft computes with them. The C++ tests read them
without Python.

    ~/interop/bin/python tests/interop/make_adapters.py
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from adapters import hf, lora, with_adapter

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
ADAPTERS = {
    "gpt2": lora("gpt2", ["c_attn", "mlp.c_proj"], r=3, lora_alpha=12),
    "llama3": lora("llama", ["q_proj", "k_proj", "gate_proj", "down_proj"], r=2, lora_alpha=8,
                   use_rslora=True),
    "qwen3": lora("qwen3", ["v_proj", "o_proj"], r=4, lora_alpha=4),
}


def main():
    shutil.rmtree(GOLDEN / "adapters", ignore_errors=True)
    for seed, (name, settings) in enumerate(ADAPTERS.items()):
        folder = GOLDEN / "adapters" / name
        base = GOLDEN / "published" / name
        model = hf.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).eval()
        model = with_adapter(model, settings, seed)
        model.save_pretrained(folder)
        (folder / "README.md").unlink()
        config = json.loads((folder / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = None
        config["target_modules"].sort()
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
        tokens = load_file(base / "expected.safetensors")["tokens"]
        logits = model(tokens.long()).logits.detach()
        save_file({"logits": logits[:, -3:].contiguous()}, folder / "expected.safetensors")


main()
