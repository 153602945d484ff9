"""Shows how a training of `grokking` went, and what its embedding became.

    python3 tests/bench/grokking.py runs/grokking

The course has the first evaluation after the training split was memorized, the first one at which
99 % of the other sums are right, and some between them and at the end. The spectrum has the largest
shares of the frequencies k of the token embedding E (p, C), less its mean, in its squared norm:
|Σₙ E[n] exp(-2πikn/p)|², summed over the width, for k and p - k.
"""

import cmath
import json
import re
import struct
import subprocess
import sys
import tempfile
from math import pi
from pathlib import Path

MEMORIZED = 0.01  # training loss
PROGRAM = Path(__file__).resolve().parents[2] / "build/release/bin/tapestry"


def course(run):
    """Rows of the metrics at some evaluations."""
    if 'kind = "modular-addition"' not in (run / "config.toml").read_text():
        sys.exit(f"{run}: is no run of grokking")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    trained = {line["step"]: line["loss"] for line in lines if line["split"] == "train"}
    evaluations = [line for line in lines if line["split"] == "val" and line["step"] in trained]
    known = [i for i, one in enumerate(evaluations) if trained[one["step"]] < MEMORIZED]
    right = [i for i, one in enumerate(evaluations) if one["exact_match"] >= 0.99]
    if not known:
        sys.exit(f"{run}: no evaluation with a training loss below {MEMORIZED}; train longer")
    first, last = known[0], len(evaluations) - 1
    solved = right[0] if right else last
    shown = {first, solved, last, *(first + (solved - first) * part // 4 for part in (1, 2, 3))}
    return [
        {
            "table": "grokking",
            "measured": f"step {one['step']:,}",
            "figures": {
                "training loss": f"{trained[one['step']]:.1e}",
                "loss of the other sums": f"{one['loss']:.2f}",
                "exact_match of the other sums": f"{one['exact_match']:.3f}",
            },
        }
        for one in (evaluations[i] for i in sorted(shown))
    ]


def embedding(run):
    """The columns of the embedding's first p rows, those of the numbers."""
    p = int(re.search(r"^alphabet = (\d+)", (run / "config.toml").read_text(), re.M)[1])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        command = [PROGRAM, "export", run, "--format", "safetensors", "--out", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        data = file.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    entry = json.loads(data[8 : 8 + size])["token_embedding.weight"]
    width = entry["shape"][1]
    values = struct.unpack_from(f"<{p * width}f", data, 8 + size + entry["data_offsets"][0])
    return [values[column::width] for column in range(width)]


def spectrum(run, shown=6):
    """Rows of the largest shares, and of all others."""
    columns = embedding(run)
    p = len(columns[0])
    roots = [cmath.exp(-2j * pi * n / p) for n in range(p)]

    def power(k):
        sums = (sum(v * roots[k * n % p] for n, v in enumerate(column)) for column in columns)
        return sum(abs(one) ** 2 for one in sums)

    powers = {k: power(k) for k in range(1, (p + 1) // 2)}
    total = sum(powers.values())
    largest = sorted(powers, key=powers.get, reverse=True)[:shown]
    shares = {f"k = {k}": powers[k] / total for k in largest}
    shares[f"{len(powers) - shown} others"] = 1 - sum(shares.values())
    return [
        {"table": "spectrum", "measured": name, "figures": {"share": f"{share:.3f}"}}
        for name, share in shares.items()
    ]


def main():
    run = Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__))
    if not (run / "metrics.jsonl").exists():
        sys.exit(f"{run}: no run with metrics.jsonl")
    for row in [*course(run), *spectrum(run)]:
        figures = (f"{name} {figure}" for name, figure in row["figures"].items())
        print(row["measured"], *figures, sep="  ")


if __name__ == "__main__":
    main()
