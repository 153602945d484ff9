"""Language models in and out, beside Hugging Face's `transformers`.

Random models of each architecture are imported and exported again, and models that Tapestry trained
a little are exported: the logits, the tokens that are written and the loss are compared.
"""

import json
import os
import subprocess

import numpy as np
import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.numpy import load_file, save_file

from published import make_models, make_tokenizer, randomise, save
from run import Row

REQUIREMENTS = ["torch==2.15.0", "transformers==5.23.0", "tokenizers==0.23.3", "numpy"]
FILES = ["tinyshakespeare.txt"]

hf.utils.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()

LOGITS = 1e-4  # the largest difference allowed, float32
LOSS = 1e-6
TOKENS = 64

CONFIGS = {
    "gpt2": ["model.activation=gelu_tanh"],
    "llama": ["model.norm_kind=rms", "model.gated=true", "model.activation=silu",
              "model.positions=rotary", "model.rotary_pairs=halves", "model.bias=false",
              "model.key_value_heads=2", "model.feed_forward=192"],
    "llama, neighbors": ["model.norm_kind=rms", "model.gated=true", "model.activation=silu",
                          "model.positions=rotary", "model.bias=false",
                          "model.tied_embeddings=false", "model.feed_forward=192"],
    "qwen2": ["model.norm_kind=rms", "model.gated=true", "model.activation=silu",
              "model.positions=rotary", "model.rotary_pairs=halves", "model.bias=false",
              "model.attention_bias=inputs", "model.feed_forward=192"],
    "qwen3": ["model.norm_kind=rms", "model.gated=true", "model.activation=silu",
              "model.positions=rotary", "model.rotary_pairs=halves", "model.bias=false",
              "model.query_key_norm=true", "model.head_width=24", "model.key_value_heads=1",
              "model.feed_forward=192"],
    "gpt2, characters": ["model.activation=gelu_tanh"],
}


class Interop:
    def __init__(self, place):
        self.place, self.work = place, place.work / "models"
        self.work.mkdir(exist_ok=True)
        subprocess.run(["rm", "-rf", *self.work.iterdir()], check=True)
        self.text = (place.data / "tinyshakespeare.txt").read_text()
        self.data = place.data

    def run(self, *words):
        return self.place.tapestry(*words)

    def logits(self, run, tokens):
        """Of a run, as tapestry-tests writes them."""
        given, out = self.work / "tokens.safetensors", self.work / "logits.safetensors"
        save_file({"tokens": np.asarray(tokens, dtype=np.int32)}, given)
        out.unlink(missing_ok=True)
        subprocess.run([self.place.binary.with_name("tapestry-tests"), "--test-case=interop: writes a run's logits"], check=True,
                       capture_output=True, env={**os.environ, "TAPESTRY_RUN": str(run),
                                                 "TAPESTRY_TOKENS": str(given),
                                                 "TAPESTRY_LOGITS": str(out)})
        return torch.from_numpy(load_file(out)["logits"])

    def imported_and_exported(self):
        """Random models: in, out and in PyTorch again."""
        vocabulary = 384
        for number, (name, kind, model) in enumerate(make_models(vocabulary)):
            folder, run, back = (self.work / f"{part}-{number}" for part in ("hf", "run", "out"))
            tokenizer = make_tokenizer(kind, [self.text[:20000]], vocabulary)
            randomise(model, number)
            save(model, tokenizer, folder, max_shard_size="20KB" if number % 2 else "5GB")
            self.run("import", folder, "--out", run)
            tokens = torch.randint(0, vocabulary, (3, 40))
            wanted = model(tokens).logits.detach()
            imported = (self.logits(run, tokens.numpy()) - wanted).abs().max().item()
            self.run("export", run, "--out", back)
            again = hf.AutoModelForCausalLM.from_pretrained(back, dtype=torch.float32).eval()
            assert type(again) is type(model), type(again)
            exported = (again(tokens).logits.detach() - wanted).abs().max().item()
            wanted_tokens, tokens_again = (
                hf.AutoTokenizer.from_pretrained(each)(self.text[:5000]).input_ids
                for each in (folder, back))
            yield Row(f"{name}: logits after import, and after export", 2,
                      (imported > LOGITS) + (exported > LOGITS),
                      f"by {imported:.1e} and {exported:.1e}")
            yield Row(f"{name}: tokens of the exported tokenizer", len(wanted_tokens),
                      sum(a != b for a, b in zip(wanted_tokens, tokens_again))
                      + abs(len(wanted_tokens) - len(tokens_again)))

    def halves(self):
        """Weights of two bytes, read as they are and written rounded."""
        vocabulary = 384
        for dtype in (torch.float16, torch.bfloat16):
            name, kind, model = list(make_models(vocabulary))[2]
            model = randomise(model, 7).to(dtype)
            folder, run, back = (self.work / f"{part}-{dtype}" for part in ("hf", "run", "out"))
            save(model, make_tokenizer(kind, [self.text[:20000]], vocabulary), folder)
            self.run("import", folder, "--out", run)
            tokens = torch.randint(0, vocabulary, (2, 40))
            wide = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            wanted = wide(tokens).logits.detach()
            difference = (self.logits(run, tokens.numpy()) - wanted).abs().max().item()
            self.run("export", run, "--dtype", "bfloat16", "--out", back)
            again = hf.AutoModelForCausalLM.from_pretrained(back).state_dict()
            weights = model.state_dict().items()
            yield Row(f"{name} in {dtype}: logits", 1, difference > LOGITS, f"by {difference:.1e}")
            yield Row(f"{name} in {dtype}: tensors exported in bfloat16", len(weights),
                      sum(not torch.equal(again[key].to(torch.bfloat16), value.to(torch.bfloat16))
                          for key, value in weights))

    def train(self, run, name, keys):
        config = self.work / "model.toml"
        config.write_text('task = "language-model"\n')
        settings = ["model.layers=2", "model.width=96", "model.heads=4", "model.context=96",
                    "train.steps=300", "train.batch_size=16", "optim.learning_rate=2e-3",
                    f"data.path={self.data / 'tinyshakespeare.txt'}", *keys]
        if "characters" not in name:
            settings += ["data.tokenizer=train", "data.vocabulary=512"]
        sets = [word for setting in settings for word in ("--set", setting)]
        self.run("train", config, "--out", run, "--quiet", *sets)

    def trained(self):
        """Models that learned a little: the same greedy tokens, and the same loss."""
        for number, (name, keys) in enumerate(CONFIGS.items()):
            run, out = self.work / f"trained-{number}", self.work / f"trained-out-{number}"
            self.train(run, name, keys)
            self.run("export", run, "--out", out)
            model = hf.AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
            tokenizer = hf.AutoTokenizer.from_pretrained(out)
            prompt = "ROMEO:\nI will"
            ids = tokenizer(prompt, return_tensors="pt").input_ids
            written = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                     max_new_tokens=TOKENS, pad_token_id=0, eos_token_id=None)
            theirs = tokenizer.decode(written[0], skip_special_tokens=True,
                                      clean_up_tokenization_spaces=False)
            ours = self.run("sample", run, "--prompt", prompt, "--tokens", TOKENS,
                            "--temperature", 0)
            loss = json.loads(self.run("eval", run, "--json"))["loss"]
            difference = abs(self.loss(model, tokenizer) - loss)
            same = ours.rstrip("\n") == theirs.rstrip("\n")
            yield Row(f"{name}, trained: greedy tokens", TOKENS, 0 if same else TOKENS)
            yield Row(f"{name}, trained: validation loss", 1, difference > LOSS,
                      f"{loss:.6f}, by {difference:.1e}")

    def loss(self, model, tokenizer):
        """In nats a token over the text's last tenth, in windows side by side."""
        ids = tokenizer(self.text[len(self.text) - len(self.text) // 10:]).input_ids
        ids = torch.tensor(ids + [tokenizer.eos_token_id] * (tokenizer.eos_token_id is not None))
        total, count, context = 0.0, 0, model.config.max_position_embeddings
        model = model.double()
        with torch.no_grad():
            for begin in range(0, len(ids) - 1, context):
                window = ids[begin:begin + context + 1]
                logits = model(window[None, :-1]).logits[0]
                total += F.cross_entropy(logits, window[1:], reduction="sum").item()
                count += len(window) - 1
        return total / count


def run(place):
    interop = Interop(place)
    yield from interop.imported_and_exported()
    yield from interop.halves()
    yield from interop.trained()
