"""Repeats a training of `microgpt` in PyTorch, from the same weights and on the same names in the same order.

    tapestry train microgpt --set data.path=names.txt --out begun --set train.steps=1 \\
      --set optim.learning_rate=1e-30 --set optim.final_learning_rate=0
    tapestry export begun --format safetensors --out begun.safetensors
    tapestry train microgpt --set data.path=names.txt --out microgpt
    ~/peers/bin/python torch_microgpt.py names.txt begun.safetensors microgpt

Prints, for Tapestry and for PyTorch in float64, the largest difference between the loss of a step and that of PyTorch
in float32, in parts of the run; the mean of the last losses; and the time of a step.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

SEED, HELD_BACK, CONTEXT, HEADS, STEPS = 1, 1000, 16, 4, 1000
FASTEST, SLOWEST, BETAS, EPSILON = 1e-2, 1e-5, (0.85, 0.99), 1e-5


class Random:
    """Philox4x32-10 of Salmon et al. 2011, as autograd/random.hpp has it."""

    DATA_STREAM = 1

    def __init__(self, seed, step=0):
        self.key = (seed & 0xFFFFFFFF, seed >> 32)
        self.lane = (self.DATA_STREAM << 24 | step >> 32, step & 0xFFFFFFFF)
        self.next, self.words = 0, []

    def bits(self):
        if not self.words:
            x, (a, b) = (self.next & 0xFFFFFFFF, self.next >> 32, *self.lane), self.key
            for _ in range(10):
                one, other = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
                x = (other >> 32 ^ x[1] ^ a, other & 0xFFFFFFFF, one >> 32 ^ x[3] ^ b, one & 0xFFFFFFFF)
                a, b = (a + 0x9E3779B9) & 0xFFFFFFFF, (b + 0xBB67AE85) & 0xFFFFFFFF
            self.words, self.next = list(x), self.next + 1
        return self.words.pop(0)

    def below(self, bound):
        upper = self.bits()
        return int(((upper << 32 | self.bits()) >> 11) * 2.0**-53 * bound)


def training_names(path):
    """The names of the training split, in the order in which the data set has them."""
    names = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    drawn, random = min(HELD_BACK, len(names) // 10), Random(SEED)
    for i in range(drawn):
        j = i + random.below(len(names) - i)
        names[i], names[j] = names[j], names[i]
    return names[drawn:], "\n" + "".join(sorted(set("".join(names))))


def epoch(size):
    """The order of the first epoch (Fisher-Yates)."""
    order, random = list(range(size)), Random(SEED, 1 << 48)
    for left in range(size, 1, -1):
        j = random.below(left)
        order[left - 1], order[j] = order[j], order[left - 1]
    return order


def rms_norm(x, gain):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * gain


def logits(w, tokens):
    block = "blocks.0."
    T = len(tokens)
    x = w["token_embedding.weight"][tokens] + w["position_embedding.weight"][:T]
    mixed = rms_norm(x, w[block + "attention_norm.weight"]) @ w[block + "attention.query_key_value.weight"].T
    q, k, v = (part.view(T, HEADS, -1).transpose(0, 1) for part in mixed.chunk(3, -1))
    attended = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    x = x + attended.transpose(0, 1).reshape(T, -1) @ w[block + "attention.output.weight"].T
    hidden = rms_norm(x, w[block + "feed_forward_norm.weight"]) @ w[block + "feed_forward.expand.weight"].T
    x = x + F.relu(hidden) @ w[block + "feed_forward.contract.weight"].T
    return rms_norm(x, w["final_norm.weight"]) @ w["head.weight"].T


def train(names, symbols, weights):
    """The losses and the seconds of the steps."""
    weights = {name: w.clone().requires_grad_() for name, w in weights.items()}
    optimizer = torch.optim.Adam(weights.values(), lr=FASTEST, betas=BETAS, fused=True)
    losses, times = [], []
    order = epoch(len(names))
    for step in range(STEPS):
        tokens = torch.tensor([symbols.index(letter) for letter in "\n" + names[order[step]] + "\n"])
        begun = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = FASTEST + (SLOWEST - FASTEST) * step / (STEPS - 1)
        loss = F.cross_entropy(logits(weights, tokens[:-1]), tokens[1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - begun)
    return losses, times


def show(name, losses, others, step_s):
    off = [abs(loss - other) for loss, other in zip(losses, others)]
    largest = ", ".join(f"{max(off[:last]):.1e} to step {last}" for last in (1, 10, 100, STEPS))
    print(f"{name}: {largest}; mean of the last 100: {sum(losses[-100:]) / 100:.3f}; "
          f"median step: {1e6 * statistics.median(step_s):.0f} µs")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("run", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names, symbols = training_names(arguments.names)
    weights = load_file(arguments.weights)
    lines = [json.loads(line) for line in (arguments.run / "metrics.jsonl").read_text().splitlines()]
    recorded = [line for line in lines if line["split"] == "train"]
    assert len(recorded) == STEPS, "the run has other steps; expected train.log_every = 1"
    losses, step_s = train(names, symbols, weights)
    doubles, double_s = train(names, symbols, {name: w.double() for name, w in weights.items()})
    own_s = [after["elapsed_s"] - line["elapsed_s"] for line, after in zip(recorded, recorded[1:])]
    show("Tapestry", [line["loss"] for line in recorded], losses, own_s)
    show("PyTorch in float64", doubles, losses, double_s)
    show("PyTorch", losses, losses, step_s)


main()
