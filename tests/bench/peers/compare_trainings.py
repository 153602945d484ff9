"""Whole trainings to a loss, Tapestry's against PyTorch's, in turn: a Markdown table.

    python3 tests/bench/peers/compare_trainings.py --peers ~/peers/bin/python --data ~/data

In --data lie tinyshakespeare.txt and cora/. Each round runs `tapestry-bench --time-to-loss` and
torch_trainings.py, eager and compiled, once each and one after the other. The seconds begin with
the process; data and evaluations count. torch_trainings.py says what is the same and what is not.
The clothes that Tapestry draws are written for PyTorch before, which does not count. The cache of
compiled code is empty for the first round and not for those after it: all rounds are printed.
compare.py says how a machine should be, and repeats a run that was disturbed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from compare import HERE, header, run
from measure import one_cpu_per_core, positive

TRAININGS = ["clothes-vae", "cora", "shakespeare-char"]
DATA = ["tinyshakespeare.txt", "cora"]
COLUMNS = [
    "training",
    "to a loss of",
    "Tapestry, s (steps)",
    "PyTorch eager",
    "PyTorch compiled",
    "PyTorch / Tapestry",
]


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trainings", nargs="*", help="all by default: " + ", ".join(TRAININGS))
    parser.add_argument("--peers", default=sys.executable, help="a Python that has torch")
    programs = HERE.parents[2] / "build/release/bin"
    parser.add_argument("--tapestry", default=str(programs / "tapestry"), help="for its version")
    parser.add_argument("--bench", default=str(programs / "tapestry-bench"), help="which trains")
    parser.add_argument(
        "--tests", default=str(programs / "tapestry-tests"), help="which writes the clothes"
    )
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--threads", type=positive, default=len(one_cpu_per_core()))
    parser.add_argument("--timeout", type=positive, default=1800, help="of one run, in seconds")
    arguments = parser.parse_args()
    arguments.trainings = arguments.trainings or TRAININGS
    for name in arguments.trainings:
        if name not in TRAININGS:
            parser.error(f"no training {name} ({', '.join(TRAININGS)})")
    for program in (arguments.tapestry, arguments.bench, arguments.tests, arguments.peers):
        if not shutil.which(program):
            parser.error(f"no program {program}")
    return arguments


def gather_data(arguments, folder):
    """What all trainings read, in one folder."""
    for name in DATA:
        (folder / name).symlink_to((arguments.data / name).resolve())
    write = [arguments.tests, "--test-case=images: clothes written as IDX*"]
    clothes = {"TAPESTRY_CLOTHES": str(folder / "clothes")}
    subprocess.run(write, env=os.environ | clothes, stdout=subprocess.DEVNULL, check=True)


def commands(name, arguments, folder):
    """What trains, by contestant."""
    common = [name, "--data", str(folder), "--threads", str(arguments.threads)]
    script = [arguments.peers, str(HERE / "torch_trainings.py"), *common, "--mode"]
    return {
        "tapestry": [arguments.bench, "--time-to-loss", "--json", *common],
        "eager": [*script, "eager"],
        "compile": [*script, "compile"],
    }


def shown(numbers):
    """Seconds and steps of one round; – where it failed."""
    if not numbers:
        return "–"
    missed = "" if numbers["reached"] else ", not reached"
    return f"{numbers['seconds']:.1f} ({numbers['steps']}{missed})"


def ratio(runs):
    """The faster of PyTorch's two by Tapestry, in each round: the median and the range."""
    ratios = []
    for tapestry, *peers in zip(runs["tapestry"], runs["eager"], runs["compile"]):
        peers = [peer["seconds"] for peer in peers if peer]
        if tapestry and peers:
            ratios.append(min(peers) / tapestry["seconds"])
    if not ratios:
        return "–"
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def row(name, arguments, folder, environment):
    runs = {"tapestry": [], "eager": [], "compile": []}
    for _ in range(arguments.rounds):
        for contestant, command in commands(name, arguments, folder).items():
            runs[contestant].append(run(command, arguments, environment))
    goals = [numbers["goal"] for rounds in runs.values() for numbers in rounds if numbers]
    columns = [", ".join(map(shown, rounds)) for rounds in runs.values()]
    return [f"`{name}`", str(goals[0] if goals else "–"), *columns, ratio(runs)]


def main():
    arguments = parse_arguments()
    header(arguments, bf16=True)
    print(f"\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        gather_data(arguments, Path(folder))
        environment = os.environ | {
            "OMP_NUM_THREADS": str(arguments.threads),
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "cache"),
        }
        for name in arguments.trainings:
            print(f"| {' | '.join(row(name, arguments, Path(folder), environment))} |", flush=True)


if __name__ == "__main__":
    main()
