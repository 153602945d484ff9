"""Adapters (LoRA) in and out, beside the library `peft`.

Random adapters of random models are read, and adapters that Tapestry trained are written: alone,
and merged into the weights. The logits are compared.
"""

import peft
import torch
import transformers as hf

from models import CONFIGS, LOGITS, Interop
from published import make_models, make_tokenizer, randomise, save
from run import Row

REQUIREMENTS = ["torch==2.15.0", "transformers==5.23.0", "tokenizers==0.23.3", "numpy",
                "peft==0.21.2"]
FILES = ["tinyshakespeare.txt"]

# What Tapestry trains, by the architecture: its names of the maps.
TRAINED = {
    "gpt2": [["query", "value"], ["query_key_value", "output", "expand", "contract"]],
    "llama": [["query", "value"], ["query", "key", "value", "output", "gate", "up", "contract"],
              ["query_key_value", "expand"]],
    "llama, neighbors": [["query", "key"], ["query_key_value"]],
    "qwen2": [["query", "key", "value"]],
    "qwen3": [["key", "gate"]],
}
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TARGETS = {
    "gpt2": [["c_attn"], ["c_attn", "c_proj", "c_fc"]],
    "llama": [["q_proj", "v_proj"], ALL],
    "qwen2": [["k_proj", "up_proj"], ALL],
    "qwen3": [["q_proj", "k_proj"], ALL],
}


def lora(kind, targets, **more):
    return peft.LoraConfig(target_modules=targets, fan_in_fan_out=kind == "gpt2",
                           task_type="CAUSAL_LM", **more)


def with_adapter(model, settings, seed):
    """Both matrices random, so that something changes."""
    adapted = peft.get_peft_model(model, settings).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.2)
    return adapted


class Adapters(Interop):
    def furthest(self, run, model, tokens):
        with torch.no_grad():
            wanted = model(tokens).logits
        return (self.logits(run, tokens) - wanted).abs().max().item(), wanted.abs().max().item()

    def read(self):
        """Adapters of peft, applied to imported models."""
        vocabulary, differ, compared, largest = 384, 0, 0, 0.0
        for number, (name, kind, model) in enumerate(make_models(vocabulary)):
            architecture = name.split()[0].rstrip(",")
            base, run = self.work / f"base-{number}", self.work / f"run-{number}"
            randomise(model, number)
            save(model, make_tokenizer(kind, [self.text[:20000]], vocabulary), base)
            self.run("import", base, "--out", run)
            for targets in TARGETS[architecture]:
                for more in {"r": 4, "lora_alpha": 6}, {"r": 3, "lora_alpha": 6,
                                                        "use_rslora": True}:
                    model = hf.AutoModelForCausalLM.from_pretrained(base)
                    adapted = with_adapter(model, lora(architecture, targets, **more), compared)
                    folder = self.work / f"adapter-{compared}"
                    adapted.save_pretrained(folder)
                    both = self.work / f"both-{compared}"
                    self.run("import", folder, "--base", run, "--out", both)
                    tokens = torch.randint(0, vocabulary, (3, 40))
                    apart, size = self.furthest(both, adapted, tokens)
                    largest = max(largest, apart / size)
                    differ += apart > LOGITS * size
                    compared += 1
        return Row("logits with adapters of peft, imported", compared, differ,
                   f"at most {largest:.0e} of the largest apart")

    def written(self):
        """Adapters that Tapestry trained."""
        differ, compared, largest = 0, 0, 0.0
        for number, (name, choices) in enumerate(TRAINED.items()):
            base, folder = self.work / f"trained-{number}", self.work / f"hf-{number}"
            self.train(base, CONFIGS[name], 60)
            self.run("export", base, "--out", folder)
            for choice, targets in enumerate(choices):
                tuned, adapter, merged = (self.work / f"{part}-{number}-{choice}"
                                          for part in ("tuned", "peft", "merged"))
                listed = ",".join(f'"{target}"' for target in targets)
                self.train(tuned, ["model.lora.rank=4", "model.lora.dropout=0.1",
                                   f"model.lora.targets=[{listed}]",
                                   "optim.learning_rate=0.02"], 40, "--from", base)
                self.run("export", tuned, "--format", "peft", "--out", adapter)
                self.run("export", tuned, "--merge", "--out", merged)
                tokens = torch.randint(0, 300, (3, 40))
                model = hf.AutoModelForCausalLM.from_pretrained(folder)
                plain, _ = self.furthest(tuned, model.eval(), tokens)
                assert plain > 0.1, f"{name}: the adapters changed nothing: {plain}"
                for loaded in (peft.PeftModel.from_pretrained(model, adapter),
                               hf.AutoModelForCausalLM.from_pretrained(merged)):
                    apart, size = self.furthest(tuned, loaded.eval(), tokens)
                    largest = max(largest, apart / size)
                    differ += apart > LOGITS * size
                    compared += 1
        return Row("logits of trained adapters, in peft and merged", compared, differ,
                   f"at most {largest:.0e} of the largest apart")

    def train(self, run, settings, steps, *words):
        config = self.work / "text.toml"
        config.write_text('task = "language-model"\n')
        sets = [f"data.path={self.data / 'tinyshakespeare.txt'}", "data.tokenizer=train",
                "data.vocabulary=300", "model.layers=2", "model.heads=4", "model.width=64",
                "model.context=64", "train.batch_size=8", "optim.learning_rate=0.003",
                f"train.steps={steps}", "train.eval_every=0", *settings]
        if words:
            sets = [each for each in sets if not each.startswith(("model.layers", "model.heads",
                                                                  "model.width", "model.context",
                                                                  "data.token", "data.vocab"))]
        self.run("train", config, "--out", run, "--quiet", *words,
                 *(word for each in sets for word in ("--set", each)))


def run(place):
    adapters = Adapters(place)
    yield adapters.read()
    yield adapters.written()
