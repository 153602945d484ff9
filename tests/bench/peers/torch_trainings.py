"""The trainings of `tapestry-bench --time-to-loss` in PyTorch, one a process: prints one JSON line.

    ~/peers/bin/python torch_trainings.py shakespeare-char --data ~/data --mode eager

Recipe, data, evaluation (the whole validation split, as often) and goal are those of the configs
in train/configs/. The seconds begin with the process and end with the evaluation that reaches the
goal, or with the last. In --data lie tinyshakespeare.txt, cora/ and clothes/, which holds the
clothes that Tapestry draws for itself, as IDX files: their reading counts here, their drawing
there. The initial values and the order of the batches are PyTorch's own, so that it may take an
evaluation more or less; the steps are printed.

Modes: eager; compile, by which the model is compiled for training alone: evaluations, which are a
small part, run eagerly and need no compilation of their own.

Where there is a choice it is PyTorch's fastest, as in torch_steps.py: text and labels are encoded
and cut by tensors, and papers are split by Python's own str.split.
"""

import argparse
import gzip
import itertools
import json
import math
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from measure import WORKLOADS, Graph, Vae, one_cpu_per_core, positive, process_age_s
from torch_steps import Autoencoder, Gpt, GraphNetwork, compiled, coordinates, normalized
from torch_vit import split


class Shakespeare:
    """shakespeare-char: the likeliest next character, 12 windows of 64 a step, at random places."""

    shape = WORKLOADS["gpt-nano"]
    goal, steps, every = 1.90, 2000, 500
    warm_up, fastest, slowest = 100, 1e-3, 1e-4

    def __init__(self, folder):
        torch.manual_seed(1337)
        text = (folder / "tinyshakespeare.txt").read_text(encoding="utf-8")
        codes = torch.frombuffer(bytearray(text.encode("utf-32-le")), dtype=torch.int32)
        tokens = codes.unique(return_inverse=True)[1]
        held_back = len(tokens) // 10
        self.train, self.validation = tokens[:-held_back], tokens[-held_back:]
        self.model = Gpt(self.shape)
        for name, parameter in self.model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
        for block in self.model.blocks:
            for linear in (block.attention.output, block.contract):
                linear.weight.data /= math.sqrt(2 * self.shape.layers)
        decayed = [m.weight for m in self.model.modules() if isinstance(m, nn.Linear)]
        others = [p for p in self.model.parameters() if all(p is not d for d in decayed)]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=True)
        self.window = torch.arange(self.shape.context + 1)

    def learning_rate(self, step):
        if step < self.warm_up:
            return self.fastest * (step + 1) / (self.warm_up + 1)
        progress = (step - self.warm_up) / (self.steps - 1 - self.warm_up)
        left = 0.5 * (1 + math.cos(math.pi * progress))
        return self.slowest + (self.fastest - self.slowest) * left

    def batch(self, step):
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        first = torch.randint(len(self.train) - self.shape.context, (self.shape.batch, 1))
        windows = self.train[first + self.window]
        return windows[:, :-1], windows[:, 1:].contiguous()

    def loss(self, forward, batch):
        return forward(*batch)

    def clip(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)

    def evaluate(self):
        total, T = 0.0, self.shape.context
        predicted = len(self.validation) - 1
        whole = predicted // T * T
        inputs, targets = self.validation[:whole], self.validation[1 : whole + 1]
        pieces = list(zip(inputs.view(-1, T).split(64), targets.view(-1, T).split(64)))
        if predicted > whole:
            pieces.append((self.validation[None, whole:-1], self.validation[None, whole + 1 :]))
        for tokens, following in pieces:
            total += self.model(tokens, following).item() * tokens.numel()
        return total / predicted


class Clothes:
    """clothes-vae: 100 images a step, each once an epoch."""

    shape = Vae(inputs=784, hidden=400, latent=3, batch=100, activation="gelu")
    goal, steps, every = 241.5, 3000, 250

    def __init__(self, folder):
        torch.manual_seed(1)
        splits = [split(folder / "clothes", name)[0].flatten(1) for name in ("train", "t10k")]
        self.train, self.validation = splits
        self.model = Autoencoder(self.shape)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.order = iter(())

    def batch(self, step):
        chosen = next(self.order, None)
        if chosen is None:
            self.order = iter(torch.randperm(len(self.train)).split(self.shape.batch))
            chosen = next(self.order)
        return self.train[chosen]

    def loss(self, forward, batch):
        return forward(batch)

    def clip(self):
        pass

    def evaluate(self):
        pieces = self.validation.split(64)
        return sum(self.model(piece).item() * len(piece) for piece in pieces) / len(self.validation)


class Cora:
    """cora: one batch, the 140 labeled papers of the whole graph."""

    goal, steps, every = 0.82, 200, 50
    training, validation = slice(0, 140), slice(140, 640)

    def __init__(self, folder):
        torch.manual_seed(1)
        lines = [line.split() for line in self.read(folder / "cora", "content")]
        place = {line[0]: i for i, line in enumerate(lines)}
        names = {name: i for i, name in enumerate(sorted({line[-1] for line in lines}))}
        self.labels = torch.tensor([names[line[-1]] for line in lines])
        words = [[j for j, word in enumerate(line[1:-1]) if word != "0"] for line in lines]
        rows = torch.tensor([i for i, found in enumerate(words) for _ in found])
        columns = torch.tensor(list(itertools.chain.from_iterable(words)))
        shares = torch.tensor([1 / len(found) for found in words for _ in found])
        features = len(lines[0]) - 2
        self.features = coordinates(rows, columns, shares, (len(lines), features))
        cited = [line.split() for line in self.read(folder / "cora", "cites")]
        ends = [sorted(place[name] for name in both) for both in cited]
        pairs = {(first, last) for first, last in ends if first != last}
        self.graph = normalized(torch.tensor(sorted(pairs)).t(), len(lines))
        self.model = GraphNetwork(
            Graph(len(lines), len(pairs), features, len(rows), 16, len(names), labeled=140)
        )
        self.optimizer = self.model.optimizer()

    @staticmethod
    def read(folder, ending):
        path = next(folder.glob(f"*.{ending}*"))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return data.decode().splitlines()

    def batch(self, step):
        return self.graph, self.features

    def loss(self, forward, batch):
        return F.cross_entropy(forward(*batch)[self.training], self.labels[self.training])

    def clip(self):
        pass

    def evaluate(self):
        logits = self.model(self.graph, self.features)[self.validation]
        return F.cross_entropy(logits, self.labels[self.validation]).item()


TRAININGS = {"clothes-vae": Clothes, "cora": Cora, "shakespeare-char": Shakespeare}


def evaluate(training):
    training.model.eval()
    with torch.inference_mode():
        loss = training.evaluate()
    training.model.train()
    return loss


def train(training, mode, best_file):
    """Steps, evaluations and the loss of the last; the best model so far is kept in a file."""
    forward = compiled(training.model, mode)
    evaluations, best = 0, math.inf
    for step in range(1, training.steps + 1):
        batch = training.batch(step - 1)
        training.optimizer.zero_grad(set_to_none=True)
        training.loss(forward, batch).backward()
        training.clip()
        training.optimizer.step()
        if step % training.every == 0 or step == training.steps:
            loss = evaluate(training)
            evaluations += 1
            if loss <= training.goal:
                break
            if loss < best:
                best = loss
                torch.save(training.model.state_dict(), best_file)
    return {"loss": loss, "steps": step, "evaluations": evaluations}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("training", choices=TRAININGS)
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder of the data")
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--threads", type=positive, default=len(one_cpu_per_core()))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        training = TRAININGS[arguments.training](arguments.data)
        reached = train(training, arguments.mode, Path(folder) / "best.pt")
        seconds = process_age_s()
    result = {"name": arguments.training, "mode": arguments.mode, "threads": arguments.threads}
    result |= {"goal": training.goal, "reached": reached["loss"] <= training.goal}
    result |= {**reached, "seconds": seconds}
    print(json.dumps(result | {"version": f"torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
