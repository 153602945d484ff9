#!/usr/bin/env python3
"""Holds Tapestry to the Python libraries that others use: see README.md beside it.

    tests/interop/run.py [MODULE...] [--data FOLDER] [--binary FILE] [--work FOLDER] [--quick]

A module is a file beside this one with REQUIREMENTS, what pip installs for it, and run(place), which
yields rows: what was compared, how often, and how many differed.
"""

import argparse
import ast
import dataclasses
import importlib
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODULES = ["tokens", "models", "adapters", "llamacpp", "onnx_models", "chat", "events",
           "word_vectors"]


@dataclasses.dataclass
class Place:
    """Where things are."""

    binary: pathlib.Path
    data: pathlib.Path | None
    work: pathlib.Path  # what is made, and kept between runs
    quick: bool

    def tapestry(self, *words):
        """The standard output of a command."""
        return subprocess.run([self.binary, *map(str, words)], check=True, cwd=self.work,
                              stdout=subprocess.PIPE).stdout.decode()

    def debian(self, package):
        """The folder that a package of Debian was unpacked into."""
        folder = self.work / "debian" / package
        if not folder.exists():
            archives = self.work / "archives"
            archives.mkdir(exist_ok=True)
            folder.parent.mkdir(exist_ok=True)
            subprocess.run(["apt-get", "download", package], check=True, cwd=archives,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run(["dpkg", "-x", *archives.glob(f"{package}_*.deb"), folder], check=True)
        return folder


@dataclasses.dataclass
class Row:
    what: str
    compared: int
    differ: int
    note: str = ""


def enter_venv(work, modules):
    """Runs this script again in a virtual environment that has what the modules need."""
    python = work / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    needed = sorted({each for module in modules for each in listed(module, "REQUIREMENTS")})
    subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True)
    if pathlib.Path(sys.prefix) != work / "venv":
        os.execv(python, [str(python), *sys.argv])


def listed(module, name):
    """A module's list, read from its text, for the module imports what is not installed yet."""
    for statement in ast.parse((HERE / f"{module}.py").read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == name:
            return ast.literal_eval(statement.value)
    return []


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("modules", nargs="*", default=MODULES)
    options.add_argument("--data", type=pathlib.Path,
                         help="a folder with tinyshakespeare.txt, ETTh1.csv and multi30k/train.en, "
                              "and with other texts for tokens: every file that is UTF-8")
    options.add_argument("--binary", type=pathlib.Path,
                         default=ROOT / "build/release/bin/tapestry")
    options.add_argument("--work", type=pathlib.Path, default=ROOT / "build/interop")
    options.add_argument("--quick", action="store_true", help="a hundredth of it")
    given = options.parse_args()
    for module in given.modules:
        for name in listed(module, "FILES"):
            if not given.data or not (given.data / name).exists():
                options.error(f"{module}: needs {name} in the folder --data")
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    enter_venv(work, given.modules)
    place = Place(given.binary.resolve(), given.data and given.data.resolve(),
                  work, given.quick)
    sys.path.insert(0, str(HERE))
    failed = False
    for module in given.modules:
        start = time.time()
        for row in importlib.import_module(module).run(place):
            failed = failed or row.differ > 0
            print(f"{time.time() - start:4.0f} s  {row.what:<58}{row.compared:>11,} compared{row.differ:>8,} differ  {row.note}",
                  flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    # The modules import Row from here, not from a second copy of this script.
    sys.modules["run"] = sys.modules["__main__"]
    main()
