"""GGUF files, beside llama.cpp and its package `gguf`.

Random models of each architecture, and models that Tapestry trained a little, are exported:
llama.cpp's logits, the tokens that it writes and those that it cuts texts into are compared with
ours, in float32, float16 and q8_0, and what comes in again with what went out.
"""

import subprocess
import unicodedata

import gguf
import llama_cpp
import numpy as np

import tokens
from models import CONFIGS, Interop, TOKENS
from published import make_models, make_tokenizer, randomise, save
from run import Row

REQUIREMENTS = ["llama-cpp-python==0.3.36", "gguf==0.19.0", "torch==2.15.0", "transformers==5.23.0",
                "tokenizers==0.23.3", "numpy"]

# The largest differences of logits allowed, as shares of the logits' deviation. llama.cpp takes
# GPT-2's gelu from a table in float16, and with q8_0 rounds what the weights are multiplied by too.
LOGITS = {"float32": 1e-4, "float32, gelu": 3e-3, "float16": 1e-2, "q8_0": 0.2}
REFUSED = {"gpt2, narrow and untied": "model.activation",
           "qwen3, biased, tied": "model.attention_bias"}


class LlamaCpp:
    """A model as llama.cpp runs it, with a cache in float32."""

    def __init__(self, path, context):
        self.model = llama_cpp.Llama(
            str(path), n_ctx=context, n_batch=context, n_threads=2, logits_all=True, verbose=False,
            flash_attn=False, use_mmap=False, type_k=llama_cpp.GGML_TYPE_F32,
            type_v=llama_cpp.GGML_TYPE_F32)

    def logits(self, rows):
        """(B, T, V) of tokens (B, T)."""
        made = []
        for row in rows:
            self.model.reset()
            self.model.eval([int(token) for token in row])
            made.append(self.model.scores[:len(row)].copy())
        return np.stack(made)

    def tokenize(self, text, special=False):
        return self.model.tokenize(text.encode(), add_bos=special, special=special)

    def greedy(self, prompt, count):
        """The tokens of the prompt, and those that it writes behind them."""
        given = self.tokenize(prompt, special=True)
        self.model.reset()
        self.model.eval(given)
        written = []
        while len(written) < count:
            token = int(self.model.scores[self.model.n_tokens - 1].argmax())
            if llama_cpp.llama_vocab_is_eog(self.model._model.vocab, token):
                break
            written.append(token)
            self.model.eval([token])
        return given, written

    def text(self, written):
        return self.model._model.detokenize(written).decode("utf-8", "replace")


def difference(ours, theirs):
    """The largest, as a share of the deviation of ours."""
    return float(np.abs(ours - theirs).max() / ours.std())


class Files(Interop):
    def __init__(self, place):
        super().__init__(place)
        self.strings = list(self.text[:40000].splitlines(True)) + self.random_strings()

    def random_strings(self):
        tokens.UNICODE = self.place.debian("unicode-data") / "usr/share/unicode"
        count = 200 if self.place.quick else 20000
        return list(tokens.random_strings(count, tokens.COMMON_UNICODE_OF_NFC))

    def exported(self, run, name, dtype="float32"):
        path = self.work / f"{name}-{dtype}.gguf"
        self.run("export", run, "--format", "gguf", "--dtype", dtype, "--out", path)
        return path

    def our_logits(self, run, given):
        return self.logits(run, given).numpy()

    def read_by_package(self, path):
        """How many of its tensors llama.cpp's own package finds elsewhere than we say they are."""
        reader = gguf.GGUFReader(path)
        names = [tensor.name for tensor in reader.tensors]
        assert len(set(names)) == len(names) and reader.get_field("tokenizer.ggml.tokens")
        wrong = 0
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            again = gguf.quants.quantize(values, tensor.tensor_type)
            wrong += not np.array_equal(again.view(np.uint8), tensor.data.view(np.uint8))
            wrong += list(values.shape) != [int(extent) for extent in reversed(tensor.shape)]
        return len(names), wrong

    def stored_as_package(self, exact, stored):
        """How many tensors the package would have stored otherwise, of the same numbers."""
        wrong, numbers = 0, {each.name: each.data for each in gguf.GGUFReader(exact).tensors}
        for tensor in gguf.GGUFReader(stored).tensors:
            wanted = gguf.quants.quantize(numbers[tensor.name], tensor.tensor_type)
            wrong += not np.array_equal(wanted.view(np.uint8), tensor.data.view(np.uint8))
        return wrong

    def differing_tokens(self, model, tokenizer, composes):
        texts = self.strings
        if composes:
            texts = [unicodedata.normalize("NFC", text) for text in texts]
        words = ["--json", "--tokenizer", tokenizer]
        plain = tokens.ours(self.place, "encode", texts, *words)
        found = tokens.ours(self.place, "encode", texts, *words, "--added", "--template")
        return len(texts), sum(model.tokenize(text) != a or model.tokenize(text, True) != b
                               for text, a, b in zip(texts, plain, found, strict=True))

    def random_models(self):
        vocabulary = 384
        for number, (name, kind, model) in enumerate(make_models(vocabulary)):
            folder, run, back = (self.work / f"{part}-{number}" for part in ("hf", "run", "back"))
            randomise(model, number)
            save(model, make_tokenizer(kind, [self.text[:20000]], vocabulary), folder)
            self.run("import", folder, "--out", run)
            if name in REFUSED:
                out = self.work / "refused.gguf"
                done = subprocess.run([self.place.binary, "export", run, "--format", "gguf", "--out", out],
                                      capture_output=True, text=True)
                refused = done.returncode == 2 and REFUSED[name] in done.stderr and not out.exists()
                yield Row(f"{name}: refused by {REFUSED[name]}", 1, not refused)
                continue
            path = self.exported(run, f"random-{number}")
            given = np.random.default_rng(number).integers(0, vocabulary, (3, 40))
            ours = self.our_logits(run, given)
            theirs = LlamaCpp(path, 64)
            apart = difference(ours, theirs.logits(given))
            limit = LOGITS["float32, gelu" if kind == "gpt2" else "float32"]
            yield Row(f"{name}: logits", given.size, given.size * (apart > limit), f"by {apart:.1e}")
            yield Row(f"{name}: tensors as the package reads them", *self.read_by_package(path))
            self.run("import", path, "--out", back)
            yield Row(f"{name}: logits after import", given.size,
                      int((self.our_logits(back, given) != ours).any(-1).sum()))
            yield Row(f"{name}: tokens of texts",
                      *self.differing_tokens(theirs, folder / "tokenizer.json", kind == "qwen2"))

    def greedy_row(self, name, run, model, prompt):
        """Each token that llama.cpp writes has to be the likeliest one here, after the same text;
        those of `tapestry sample` have to be the same up to two that are equally likely."""
        given, written = model.greedy(prompt, TOKENS)
        ours = self.our_logits(run, [given + written[:-1]])[0, len(given) - 1:]
        behind = ours.max(-1) - ours[np.arange(len(written)), written]
        limit = LOGITS["float32, gelu" if "gpt2" in name else "float32"] * ours.std()
        sampled = self.run("sample", run, "--prompt", prompt, "--tokens", TOKENS,
                           "--temperature", 0)
        same = sampled.rstrip("\n") == (prompt + model.text(written)).rstrip("\n")
        differ = int((behind > limit).sum()) + (not same and not behind.any())
        note = "" if same else (f"the same {int(behind.argmax())}, then two that are "
                                f"{behind.max():.1e} apart")
        return Row(f"{name}, trained: greedy tokens", len(written), differ, note)

    def trained(self):
        for number, (name, keys) in enumerate(CONFIGS.items()):
            run = self.work / f"trained-{number}"
            self.train(run, name, keys)
            given = np.random.default_rng(number).integers(0, 60, (3, 80))
            ours = self.our_logits(run, given)
            files = {dtype: self.exported(run, f"trained-{number}", dtype)
                     for dtype in ("float32", "float16", "q8_0")}
            exact = LlamaCpp(files["float32"], 96)
            prompt = "ROMEO:\nI will"
            yield self.greedy_row(name, run, exact, prompt)
            for dtype, path in files.items():
                apart = difference(ours, LlamaCpp(path, 96).logits(given))
                gelu = ", gelu" if dtype == "float32" and "gpt2" in name else ""
                # Neighbors come in as halves, whose products are summed in another order.
                changed = LOGITS[dtype] if dtype != "float32" or "neighbors" in name else 0
                yield Row(f"{name}, trained, {dtype}: logits", given.size,
                          given.size * (apart > LOGITS[dtype + gelu]),
                          f"by {apart:.1e}, {path.stat().st_size:,} bytes")
                back = self.work / f"trained-{number}-{dtype}"
                self.run("import", path, "--out", back)
                again = difference(ours, self.our_logits(back, given))
                yield Row(f"{name}, trained, {dtype}: logits after import", given.size,
                          given.size * (again > changed),
                          f"by {again:.1e}")
                if dtype != "float32":
                    yield Row(f"{name}, trained, {dtype}: tensors as the package stores them",
                              len(gguf.GGUFReader(path).tensors),
                              self.stored_as_package(files["float32"], path))


def run(place):
    llama_cpp.llama_log_set(SILENT, None)
    files = Files(place)
    yield from files.random_models()
    yield from files.trained()


SILENT = llama_cpp.llama_log_callback(lambda level, text, data: None)
