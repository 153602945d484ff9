"""The model and the training of `tapestry train clothes-vit` in PyTorch, on a folder of IDX files.

    python torch_vit.py fashion-mnist-mini --seeds 10

A tenth of the training images is held back, the same as by Tapestry, and chooses the best of five
models by its loss. Prints that one's accuracy on the test images, and the last one's, for each
seed, their means and deviations. `tapestry train clothes-vit --set data.path=fashion-mnist-mini
--seeds 10` prints the best's of Tapestry, and with `--set train.eval_every=0` the last's.
"""

import argparse
import gzip
import math
import pathlib
import statistics

import torch
import torch.nn.functional as F
from torch import nn

PATCH, SIDE, CLASSES = 4, 28, 10
WIDTH, HEADS, HIDDEN, LAYERS, DROPOUT = 64, 4, 128, 3, 0.1
STEPS, BATCH, WARMUP, FASTEST, SLOWEST = 1000, 64, 50, 1e-3, 1e-5
EVAL_EVERY, HELD_BACK = 200, 0.1


def read(folder, name, header):
    path = pathlib.Path(folder) / name
    raw = path.read_bytes() if path.exists() else gzip.open(f"{path}.gz").read()
    return torch.frombuffer(bytearray(raw[header:]), dtype=torch.uint8)


def split(folder, name):
    images = read(folder, f"{name}-images-idx3-ubyte", 16).view(-1, SIDE, SIDE).float() / 255
    return images, read(folder, f"{name}-labels-idx1-ubyte", 8).long()


def mix(number):  # as in data/validation_split.cpp
    for factor in 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53:
        number = (number ^ number >> 33) * factor % 2**64
    return number ^ number >> 33


def hold_back(images, labels):
    order = sorted(range(len(images)), key=mix)
    count = round(HELD_BACK * len(images))
    held, left = order[:count], sorted(order[count:])
    return (images[left], labels[left]), (images[held], labels[held])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def attend(self, x):
        B, T, C = x.shape
        q, k, v = self.query_key_value(x).view(B, T, 3, HEADS, C // HEADS).permute(2, 0, 3, 1, 4)
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.dropout(self.attend(self.attention_norm(x)))
        return x + self.dropout(self.contract(F.gelu(self.expand(self.feed_forward_norm(x)))))


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        tokens = (SIDE // PATCH) ** 2 + 1
        self.projection = nn.Linear(PATCH * PATCH, WIDTH)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(0.02 * torch.randn(1, tokens, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, images):
        squares = images.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).flatten(3).flatten(1, 2)
        x = self.projection(squares)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(self.dropout(x)))[:, 0])


def learning_rate(step):
    if step < WARMUP:
        return FASTEST * (step + 1) / (WARMUP + 1)
    share = (step - WARMUP) / (STEPS - WARMUP)
    return SLOWEST + (FASTEST - SLOWEST) * (1 + math.cos(math.pi * share)) / 2


def measured(model, images, labels):
    model.eval()
    with torch.no_grad():
        logits = model(images)
    model.train()
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    return F.cross_entropy(logits, labels).item(), accuracy


def accuracies_of(seed, train, validation, test):
    torch.manual_seed(seed)
    reached = []  # validation loss and test accuracy
    model = VisionTransformer()
    decayed = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": others, "weight_decay": 0}], weight_decay=0.01
    )
    order = torch.randperm(len(train[0]))
    for step in range(STEPS):
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(train[0]))])
        chosen, order = order[:BATCH], order[BATCH:]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.zero_grad()
        F.cross_entropy(model(train[0][chosen]), train[1][chosen]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % EVAL_EVERY == 0:
            reached.append((measured(model, *validation)[0], measured(model, *test)[1]))
    return min(reached)[1], reached[-1][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    train, validation = hold_back(*split(arguments.folder, "train"))
    test = split(arguments.folder, "t10k")
    reached = []
    for seed in range(1, arguments.seeds + 1):
        reached.append(accuracies_of(seed, train, validation, test))
        print(f"seed {seed}: best {reached[-1][0]:.4f}, last {reached[-1][1]:.4f}", flush=True)
    for name, accuracies in zip(("best", "last"), zip(*reached)):
        deviation = statistics.stdev(accuracies) if len(accuracies) > 1 else 0
        print(f"mean of the {name} {statistics.mean(accuracies):.4f} ± {deviation:.4f}")


if __name__ == "__main__":
    main()
