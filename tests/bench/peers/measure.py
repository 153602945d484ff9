"""What the peers' benchmarks share: the workloads' shapes, the timing of steps, the command line.

The workloads are those of tests/bench/workloads.cpp, the rules of timing those of
train/measure/step_speed.cpp.
"""

import argparse
import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Transformer:
    """Training steps of a GPT-2 style transformer: cross-entropy, clipping to 1, AdamW."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    batch: int
    dropout: float = 0
    tanh_gelu: bool = False
    tied: bool = True  # the last layer has the weights of the embedding


@dataclass(frozen=True)
class EncoderDecoder:
    """Training steps of a translation transformer with sinusoidal positions and one embedding
    table; the last `padding` tokens of each source are masked. Clipping to 1, AdamW."""

    vocabulary: int
    source: int
    padding: int
    target: int
    layers: int
    heads: int
    width: int
    batch: int
    dropout: float


@dataclass(frozen=True)
class Forecaster:
    """Training steps of a patch transformer (Nie et al. 2022) with normalized windows: Adam."""

    series: int
    context: int
    horizon: int
    patch: int
    stride: int
    layers: int
    heads: int
    width: int
    hidden: int
    batch: int
    dropout: float


@dataclass(frozen=True)
class Table:
    """Full-batch training steps of a network with tanh: squared error, Adam."""

    widths: tuple
    rows: int


@dataclass(frozen=True)
class Vae:
    """Training steps of a variational autoencoder with Bernoulli pixels: Adam. Before the encoder
    and after the decoder stand convolutions, 3 x 3 of stride 2, where there are channels."""

    inputs: int
    hidden: int
    latent: int
    batch: int
    channels: tuple = ()
    activation: str = "relu"


@dataclass(frozen=True)
class LeNet:
    """Training steps of LeNet-5 on gray images of 28 x 28, with relu and max pooling: Adam."""

    batch: int
    classes: int = 10


@dataclass(frozen=True)
class Graph:
    """Training steps of two graph convolutions (Kipf & Welling 2016), dropout of half of what each
    reads, 5e-4 of decay on the first weights: Adam."""

    nodes: int
    edges: int
    features: int
    words: int  # features that are not zero, of all nodes
    hidden: int
    classes: int
    labeled: int


@dataclass(frozen=True)
class Attention:
    """One causal self-attention layer forward and backward, its input's gradient included."""

    width: int
    heads: int
    length: int


@dataclass(frozen=True)
class Recurrent:
    """Recurrent layers forward and backward, their input's gradient included."""

    kind: str  # of torch.nn
    layers: int
    width: int
    length: int
    batch: int


@dataclass(frozen=True)
class Generation:
    """The likeliest next token, `tokens` times, after a prompt of one, with cached keys."""

    model: Transformer  # its context holds the prompt and the tokens
    tokens: int


WORKLOADS = {
    "sort": Transformer(11, context=16, layers=2, heads=4, width=64, batch=64),
    "names": Transformer(27, 16, 4, 4, 64, batch=128, dropout=0.1, tanh_gelu=True),
    "dates": EncoderDecoder(72, 32, 8, 11, layers=2, heads=4, width=64, batch=64, dropout=0.1),
    "etth1": Forecaster(7, 96, 96, 16, 8, 3, heads=4, width=16, hidden=128, batch=128, dropout=0.3),
    "table": Table((4, 32, 16, 4), rows=10_000),
    "gpt-nano": Transformer(65, context=64, layers=4, heads=4, width=128, batch=12),
    "gpt-char": Transformer(65, context=256, layers=6, heads=6, width=384, batch=4),
    "gpt-char-16": Transformer(65, context=256, layers=6, heads=6, width=384, batch=16),
    "gpt2-124m": Transformer(50257, context=64, layers=12, heads=12, width=768, batch=4),
    "gpt2-124m-16": Transformer(50257, context=64, layers=12, heads=12, width=768, batch=16),
    "gpt2-124m-t1024": Transformer(50257, context=1024, layers=12, heads=12, width=768, batch=1),
    "gpt-v8192": Transformer(8192, 512, layers=4, heads=2, width=256, batch=4, tied=False),
    "vae": Vae(inputs=784, hidden=400, latent=20, batch=128),
    "conv-vae": Vae(784, 400, latent=3, batch=100, channels=(32, 64), activation="gelu"),
    "lenet": LeNet(batch=128),
    "gcn-cora": Graph(2708, 5278, 1433, words=49216, hidden=16, classes=7, labeled=140),
    "lstm": Recurrent("LSTM", layers=2, width=256, length=64, batch=32),
    "gru": Recurrent("GRU", layers=2, width=256, length=64, batch=32),
    "attention-256": Attention(width=512, heads=8, length=256),
    "attention-1024": Attention(width=512, heads=8, length=1024),
    "attention-4096": Attention(width=512, heads=8, length=4096),
    "attention-8192": Attention(width=512, heads=8, length=8192),
    "generate-char": Generation(Transformer(65, 257, 6, 6, 384, batch=1), tokens=256),
    "generate-gpt2": Generation(Transformer(50257, 257, 12, 12, 768, batch=1), tokens=256),
}

LEARNING_RATE = {Transformer: 1e-4, EncoderDecoder: 1e-3, Forecaster: 1e-3, Table: 1e-3, Vae: 1e-3}
LEARNING_RATE |= {LeNet: 1e-3, Graph: 1e-2}
WEIGHT_DECAY = 0.1  # the transformers', of the Linear weights only
GRAPH_DECAY = 5e-4  # of the first layer's weights, by their gradient


def process_age_s():
    """Since the process started, by the kernel's account (to 10 ms)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start_ticks = int(fields[22 - 3])  # the 22nd field: starttime; the first here is the 3rd
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    return now - start_ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(field):
    """VmRSS: resident now; VmHWM: at most since forget_peak_resident."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def forget_peak_resident():
    """Where the system does not allow it the peak is that since the process started."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def one_cpu_per_core():
    """Of the CPUs this process may use, the first of each physical core."""
    cores = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.exists() else cpu, cpu)
    return list(cores.values())


def time_steps(step, warm_up, least_steps, least_s=1.0):
    """Calls `step`, which must return when its work is done, and gives its times."""
    forget_peak_resident()
    for i in range(warm_up):
        step()
        if i == 0:
            first_step_s = process_age_s()
    times = []
    while len(times) < least_steps or sum(times) < least_s:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    times.sort()
    return {
        "step_s": times[len(times) // 2],
        "fastest_s": times[0],
        "slowest_s": times[-1],
        "peak_bytes": resident_bytes("VmHWM"),
        "first_step_s": first_step_s,
    }


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def parse_arguments(description, modes):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(WORKLOADS)
    parser.add_argument("workload", choices=WORKLOADS, metavar="WORKLOAD", help=names)
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--threads", type=positive, help="by default one a physical core")
    parser.add_argument(
        "--steps", type=positive, help="timed at least, for at least 1 s (10; 3 of generation)"
    )
    parser.add_argument("--warm-up", type=positive, help="steps before (3; 1 of generation)")
    arguments = parser.parse_args()
    generation = isinstance(WORKLOADS[arguments.workload], Generation)
    arguments.threads = arguments.threads or len(one_cpu_per_core())
    arguments.steps = arguments.steps or (3 if generation else 10)
    arguments.warm_up = arguments.warm_up or (1 if generation else 3)
    return arguments


def measure(arguments, version, make_step):
    """Times the step that `make_step` makes and prints the JSON line."""
    library_bytes = resident_bytes("VmRSS")
    step = make_step()
    result = {"name": arguments.workload, "mode": arguments.mode, "threads": arguments.threads}
    result |= time_steps(step, arguments.warm_up, arguments.steps)
    print(json.dumps(result | {"library_bytes": library_bytes, "version": version}))
