"""Models of every kind in ONNX: what `onnx` says of them, and what onnxruntime computes by them beside Tapestry."""

import json
import os
import shutil
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file, save_file

from run import Row

REQUIREMENTS = ["onnx==1.23.2", "onnxruntime==1.32.0", "safetensors", "numpy"]
FILES = ["tinyshakespeare.txt", "ETTh1.csv"]

DIFFERENCE = 1e-4  # the largest allowed, of numbers up to 1, and else of their size

LLAMA = ["model.norm_kind=rms", "model.gated=true", "model.activation=silu", "model.positions=rotary",
         "model.bias=false"]
TEXT = ["model.layers=2", "model.width=96", "model.heads=4", "model.context=96", "train.batch_size=8"]
RUNS = {  # a name: a config, or the task of one, and what is set
    "gpt": ("language-model", [*TEXT]),
    "gpt, tanh GELU, window 7": ("language-model", [*TEXT, "model.activation=gelu_tanh", "model.window=7"]),
    "gpt, post-norm, sinusoidal, ReLU": ("language-model", [*TEXT, "model.norm=post", "model.positions=sinusoidal",
                                                            "model.activation=relu", "model.tied_embeddings=false"]),
    "llama, 4 heads of 2": ("language-model", [*TEXT, *LLAMA, "model.key_value_heads=2", "model.rotary_pairs=halves",
                                               "model.feed_forward=192"]),
    "llama 3's positions, neighbors": ("language-model", [*TEXT, *LLAMA, "model.rotary_scaling=llama3",
                                                           "model.rotary_original_context=32",
                                                           "model.tied_embeddings=false"]),
    "qwen 3": ("language-model", [*TEXT, *LLAMA, "model.query_key_norm=true", "model.head_width=26",
                                  "model.key_value_heads=1", "model.rotary_pairs=halves"]),
    "random features, gated": ("language-model", [*TEXT, "model.attention=random-features", "model.gate=true",
                                                  "model.features=32"]),
    "random features, positive": ("language-model", [*TEXT, "model.attention=random-features",
                                                     "model.feature_map=positive", "model.features=32"]),
    "no positions, gated GELU": ("language-model", [*TEXT, "model.positions=none", "model.gated=true"]),
    "recurrent": ("language-model", ["model.kind=recurrent", "model.layers=2", "model.width=96", "model.context=64"]),
    "recurrent, tied, no bias": ("language-model", ["model.kind=recurrent", "model.width=64", "model.context=64",
                                                    "model.bias=false", "model.tied_embeddings=true"]),
    "lstm": ("language-model", ["model.kind=lstm", "model.layers=2", "model.width=96", "model.context=64"]),
    "gru": ("language-model", ["model.kind=gru", "model.layers=2", "model.width=96", "model.context=64"]),
    "gru, no bias": ("language-model", ["model.kind=gru", "model.width=64", "model.context=64", "model.bias=false"]),
    "sort": ("sort", []),
    "reverse-rfa": ("reverse-rfa", []),
    "dates": ("dates", []),
    "dates, post-norm, random features": ("dates", ["model.norm=post", "model.attention=random-features",
                                                              "model.layers=2"]),
    "dates, window 5": ("dates", ["model.window=5", "model.positions=learned", "model.layers=2"]),
    "text classifier": ("match-reports", []),
    "text classifier, class token, rotary": ("match-reports", ["model.pooling=class", "model.positions=rotary"]),
    "text classifier, embeddings": ("match-reports", ["model.kind=embeddings"]),
    "text classifier, lstm": ("match-reports", ["model.kind=lstm"]),
    "text classifier, decoder": ("match-reports", ["model.kind=decoder"]),
    "vae": ("clothes-vae", []),
    "vae, convolutions, gaussian": ("clothes-vae", ["model.channels=[8, 16, 24]", "model.likelihood=gaussian",
                                                    "model.activation=gelu"]),
    "vae, shared sigma": ("clothes-vae", ["model.sigma=shared", "model.activation=silu"]),
    "autoencoder": ("clothes-autoencoder", []),
    "image transformer": ("clothes-vit", []),
    "image transformer, mean, rotary": ("clothes-vit", ["model.pooling=mean", "model.positions=rotary",
                                                        "model.norm_kind=rms"]),
    "LeNet-5": ("lenet", []),
    "residual network": ("clothes-cnn", []),
    "convolutions, average, stride": ("clothes-cnn", ["model.blocks=0", "model.pool=average", "model.kernel=4",
                                                      "model.activation=gelu"]),
    "residual network, stride": ("clothes-cnn", ["model.pool=none", "model.hidden=[32]"]),
    "forecaster": ("waves", []),
    "forecaster, linear, last": ("waves", ["model.kind=linear", "model.window_norm=last"]),
    "rows of a table": ("friedman", []),
    "rows of a table, scaled, one member": ("friedman", ["model.numbers=scaled", "model.members=1"]),
    "nodes, symmetric": ("karate", []),
    "nodes, attention": ("karate", ["model.layer=attention", "model.heads=4"]),
    "nodes, additive attention": ("karate", ["model.layer=gat", "model.heads=4", "model.output_heads=2"]),
    "nodes, GCNII": ("karate", ["model.layer=gcnii", "model.layers=8"]),
    "graphs, sum": ("graphs", []),
    "graphs, mean": ("graphs", ["model.pooling=mean", "model.normalization=mean"]),
    "graphs, max, attention": ("graphs", ["model.pooling=max", "model.layer=attention", "model.heads=2"]),
    **{f"memory {kind}": (f"memory-{kind}", []) for kind in
       ["sum", "forgetting", "forgetting-learnt", "recurrent", "gate", "sigmoid", "softmax", "query-key", "multi-head"]},
}


class Exported:
    """A run that was briefly trained, its models in ONNX, and what is said of them."""

    def __init__(self, place, number, config, settings):
        self.work = place.work / "onnx" / str(number)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.run, out = self.work / "run", self.work / "models"
        if config == "language-model":
            (self.work / "config.toml").write_text('task = "language-model"\n')
            config, settings = self.work / "config.toml", [f"data.path={place.data / 'tinyshakespeare.txt'}", *settings]
        steps = ["train.steps=60", "train.eval_every=60"]
        sets = [word for setting in [*steps, *settings] for word in ("--set", setting)]
        place.tapestry("train", config, "--quiet", "--out", self.run, *sets)
        start = time.time()
        place.tapestry("export", self.run, "--format", "onnx", "--out", out)
        self.seconds = time.time() - start
        self.files = sorted(out.iterdir()) if out.is_dir() else [out]
        self.bytes = sum(file.stat().st_size for file in self.files)
        self.tests = place.binary.with_name("tapestry-tests")
        self.models, self.sessions = {}, {}
        for file in self.files:
            model = onnx.load(file)
            onnx.checker.check_model(str(file), full_check=True)
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
            name = model.graph.name
            self.models[name] = model
            self.sessions[name] = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def compute(self, inputs):
        """By onnxruntime: what each model makes of the inputs, and of what the one before made."""
        known, outputs = dict(inputs), {}
        for name in sorted(self.sessions, reverse=True):  # the encoder first
            session = self.sessions[name]
            given = {each.name: known[each.name] for each in session.get_inputs() if each.name in known}
            if len(given) < len(session.get_inputs()):
                continue
            found = dict(zip([each.name for each in session.get_outputs()], session.run(None, given)))
            outputs.update(found)
            known.update({key: value for key, value in found.items() if key not in known})
        return outputs

    def ours(self, inputs):
        """By Tapestry's own forward(), as tapestry-tests writes it."""
        given, out = self.work / "inputs.safetensors", self.work / "outputs.safetensors"
        kept = {name: array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
                for name, array in inputs.items()}
        save_file({name: np.ascontiguousarray(array) for name, array in kept.items()}, given)
        out.unlink(missing_ok=True)
        subprocess.run([self.tests, "--test-case=interop: writes what a run's model computes"], check=True,
                       capture_output=True, env={**os.environ, "TAPESTRY_RUN": str(self.run),
                                                 "TAPESTRY_INPUTS": str(given), "TAPESTRY_OUTPUTS": str(out)})
        return load_file(out)

    def metadata(self):
        return {prop.key: prop.value for prop in next(iter(self.models.values())).metadata_props}

    def inputs(self, drawn, batch, share):
        """Drawn ones for all of its models: a batch of rows that are so long a share of what they may be."""
        made = {}
        for model in self.models.values():
            for value in model.graph.input:
                dims = [each.dim_value or each.dim_param for each in value.type.tensor_type.shape.dim]
                made.update(draw(value.name, dims, value.doc_string, drawn, batch, share, model))
        return made


def draw(name, dims, help_text, drawn, batch, share, model):
    def length(limit):
        return max(2, int(limit * share))

    if name in ("tokens", "source", "target"):
        limit = int(help_text.split("at most ")[1].split()[0])
        rows = next(init.dims[0] for init in model.graph.initializer if init.name.endswith("embedding.weight"))
        tokens = drawn.integers(4, rows, (batch, length(limit)))
        if name == "source":  # the first row is whole, of each other one the end is padding
            for row in range(1, batch):
                tokens[row, drawn.integers(1, tokens.shape[1] + 1):] = 0
        return {name: tokens}
    if name == "images":
        return {name: drawn.random((batch, *dims[1:]), dtype=np.float32)}
    if name == "z":
        return {name: drawn.standard_normal((batch, dims[1]), dtype=np.float32)}
    if name == "past":
        return {name: drawn.standard_normal((batch, *dims[1:])).cumsum(1).astype(np.float32)}
    if name == "numbers":  # of which one in ten is missing
        numbers = drawn.random((batch, dims[1]), dtype=np.float32).astype(np.float64)
        return {name: np.where(drawn.random(numbers.shape) < 0.1, np.nan, numbers)}
    if name == "symbols":
        rows = next(init.dims[0] for init in model.graph.initializer if init.name == "embedding.weight")
        return {name: drawn.integers(0, rows, (batch, length(33), 2))}
    if name == "features":
        nodes = length(34)
        counts = np.r_[nodes, drawn.integers(1, nodes + 1, batch - 1)]
        there = np.arange(nodes)[None] < counts[:, None]
        if not any(each.name == "node_mask" for each in model.graph.input):
            there[:] = True
        edges = (drawn.random((batch, nodes, nodes)) < 0.2) & there[:, :, None] & there[:, None]
        features = drawn.random((batch, nodes, dims[2])) * there[:, :, None]
        return {"features": features.astype(np.float32), "adjacency": edges.astype(np.float32), "node_mask": there}
    return {}  # what is drawn beside others, or made by the model before


def difference(a, b):
    assert a.shape == b.shape, (a.shape, b.shape)
    return float((np.abs(a - b) / np.maximum(1, np.abs(b))).max())


# --- beside what the command line says ---

def greedy(place, number):
    """64 characters, each the likeliest; and the loss over the text's last tenth, in windows side by side."""
    exported = Exported(place, number, "language-model", RUNS["gpt"][1])
    symbols = json.loads(exported.metadata()["vocabulary"])
    text = prompt = "ROMEO:\nI will"
    for _ in range(64):
        tokens = np.array([[symbols.index(symbol) for symbol in text]])
        text += symbols[exported.compute({"tokens": tokens})["logits"][0, -1].argmax()]
    ours = place.tapestry("sample", exported.run, "--prompt", prompt, "--tokens", 64, "--temperature", 0)
    yield Row("gpt: greedy characters, tapestry sample", 64, 64 * (ours.rstrip("\n") != text.rstrip("\n")))

    whole = (place.data / "tinyshakespeare.txt").read_text()
    held = np.array([symbols.index(symbol) for symbol in whole[len(whole) - len(whole) // 10:]])
    context, total = 96, 0.0
    for begin in range(0, len(held) - 1, context):
        window = held[begin:begin + context + 1]
        logits = exported.compute({"tokens": window[None, :-1]})["logits"][0].astype(np.float64)
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        total -= logits[np.arange(len(window) - 1), window[1:]].sum()
    loss = json.loads(place.tapestry("eval", exported.run, "--json"))["loss"]
    apart = abs(total / (len(held) - 1) - loss)
    yield Row("gpt: validation loss, tapestry eval", 1, int(apart > 1e-5), f"{loss:.6f}, by {apart:.1e}")


def translated(place, number):
    """Dates, token by token."""
    exported = Exported(place, number, "dates", ["train.steps=400"])
    symbols = json.loads(exported.metadata()["vocabulary"])
    dates = ["3 March 1998", "Tue 3 MAR 98", "the third of March, 1998", "1.2.2003"]
    differ = 0
    for date in dates:
        source = np.array([[symbols.index(symbol) for symbol in date]])
        target = [1]
        while target[-1] != 2 and len(target) < 40:
            logits = exported.compute({"source": source, "target": np.array([target])})["logits"]
            target.append(int(logits[0, -1].argmax()))
        written = "".join(symbols[token] for token in target[1:] if token > 2)
        differ += place.tapestry("sample", exported.run, "--prompt", date).strip() != written
    yield Row("dates: translations, tapestry sample", len(dates), differ)


def forecast(place, number):
    """From the numbers of the file itself."""
    file = place.data / "ETTh1.csv"
    exported = Exported(place, number, "etth1", [f"data.path={file}"])
    rows = [line.split(",") for line in file.read_text().splitlines()]
    first = next(i for i, row in enumerate(rows) if row[0].startswith("2018-01-01"))
    shape = exported.sessions["model"].get_inputs()[0].shape
    past = np.array([row[1:] for row in rows[first - shape[1]:first]], dtype=np.float32)
    theirs = exported.compute({"past": past[None]})["forecast"][0]
    out = exported.work / "forecast.csv"
    place.tapestry("sample", exported.run, "--prompt", "2018-01-01", "--out", out)
    lines = [line.split(",") for line in out.read_text().splitlines()[1:]]
    ours = np.array([row[2::2] for row in lines if row[2]], dtype=np.float64)
    apart = difference(theirs, ours)
    yield Row("etth1: a forecast in its own units, tapestry sample", ours.size, int(not apart <= DIFFERENCE),
              f"by {apart:.1e}")


def run(place):
    for number, compare in enumerate([greedy, translated, forecast]):
        yield from compare(place, f"said-{number}")
    drawn = np.random.default_rng(5)
    chosen = list(RUNS.items())[:: 4 if place.quick else 1]
    for number, (name, (config, settings)) in enumerate(chosen):
        exported = Exported(place, number, config, settings)
        largest, compared = 0.0, 0
        for batch, share in [(1, 1), (3, 0.6), (2, 0), (7, 0.3)]:
            inputs = exported.inputs(drawn, batch, share)
            theirs, ours = exported.compute(inputs), exported.ours(inputs)
            assert set(ours) <= set(theirs), (set(ours), set(theirs))
            for output, array in ours.items():
                largest = max(largest, difference(theirs[output], array))
                compared += array.size
        sizes = f"{exported.bytes / 1e6:.2f} MB, written in {exported.seconds:.2f} s"
        yield Row(name, compared, int(not largest <= DIFFERENCE), f"by {largest:.1e}; {sizes}")
