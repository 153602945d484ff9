"""Tapestry's workloads against PyTorch's and JAX's, or against another build of Tapestry, in turn on
one machine: a Markdown table.

    python3 -m venv ~/peers && ~/peers/bin/pip install torch jax
    python3 tests/bench/peers/compare.py --peers ~/peers/bin/python
    python3 tests/bench/peers/compare.py gpt-char vae --before other/build/release/bin/tapestry-bench

Each round runs `tapestry-bench`, torch_steps.py in each of its modes and jax_steps.py once, one
after the other, each in a process of its own, with the same number of threads. A step's time is
the median over the rounds of each run's median step. A ratio is the median over the rounds of the
ratio within a round, with the smallest and the largest: above 1, Tapestry takes less. PyTorch's
ratios are those of the faster of eager and compiled, in float32 as Tapestry is.

With --before two builds alternate, and every second round begins with the other one. A
change is faster if the smallest ratio of six rounds is above 1: without any difference, this
happens in 1 of 64 comparisons.

The machine should be idle: PyTorch's OpenMP barriers take many times longer when another process
holds one of the cores. A run in which other processes took more than a tenth of a CPU is repeated,
twice at most. With --busy N, N processes compute during each run instead, and none is repeated.
torch_steps.py and jax_steps.py say which of their choices favour the peers.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from measure import WORKLOADS, Attention, Generation, Transformer, Vae, one_cpu_per_core, positive

HERE = Path(__file__).resolve().parent
FLAGS_OF_INTEREST = ["avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "sve"]
BF16_FLAGS = {"avx512_bf16", "amx_bf16"}
DISTURBED_CPUS = 0.1  # of other processes
ATTEMPTS = 3


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help="all by default: " + ", ".join(WORKLOADS)
    )
    parser.add_argument("--peers", default=sys.executable, help="a Python that has torch and jax")
    programs = HERE.parents[2] / "build/release/bin"
    parser.add_argument("--tapestry", default=str(programs / "tapestry"), help="for its version")
    parser.add_argument("--bench", default=str(programs / "tapestry-bench"), help="which measures")
    parser.add_argument("--before", help="tapestry-bench of another build, instead of the peers")
    parser.add_argument("--rounds", type=positive, help="3, or 6 with --before")
    parser.add_argument("--busy", type=positive, default=0, help="processes that compute meanwhile")
    parser.add_argument("--threads", type=positive, default=len(one_cpu_per_core()))
    parser.add_argument("--timeout", type=positive, default=1800, help="of one run, in seconds")
    parser.add_argument("--json", metavar="FILE", help="write every run's numbers here")
    arguments = parser.parse_args()
    arguments.workloads = arguments.workloads or list(WORKLOADS)
    arguments.rounds = arguments.rounds or (6 if arguments.before else 3)
    for name in arguments.workloads:
        if name not in WORKLOADS:
            parser.error(f"no workload {name} ({', '.join(WORKLOADS)})")
    for program in (arguments.tapestry, arguments.bench, arguments.before or arguments.peers):
        if not shutil.which(program):
            parser.error(f"no program {program}")
    return arguments


def cpu():
    """The CPU's name and its flags, of those that matter here."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("flags", fields.get("Features", "")).split()
    name = fields.get("model name", platform.machine())
    return name, [flag for flag in FLAGS_OF_INTEREST if flag in flags]


def output(command):
    """What the command prints, or – if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else "–"


def busy_s():
    """What all processes have taken of the CPUs: user to steal, without idle and iowait."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def children_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_once(command, arguments, environment):
    """The object of the JSON line that the command prints, or None with a line why on stderr."""
    start, busy, children = time.monotonic(), busy_s(), children_s()
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=environment,
            timeout=arguments.timeout,
            check=True,
        )
        numbers = json.loads(result.stdout.splitlines()[-1])
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        reasons = [line for line in lines if "Error" in line] or lines or ["no message"]
        reason = f"status {error.returncode}: {reasons[-1].strip()}"
        print(f"{shlex.join(command)}: {reason}", file=sys.stderr)
        return None
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        print(f"{shlex.join(command)}: {error}", file=sys.stderr)
        return None
    others = busy_s() - busy - (children_s() - children)
    numbers["other_cpus"] = max(0.0, others / (time.monotonic() - start))
    return numbers


@contextlib.contextmanager
def busy_processes(count):
    """Processes that compute as long as the context lasts."""
    with contextlib.ExitStack() as processes:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            processes.callback(process.wait)
            processes.callback(process.kill)
        yield


def run_beside_busy(command, arguments, environment):
    """The same beside the processes of --busy."""
    with busy_processes(arguments.busy):
        return run_once(command, arguments, environment)


def run(command, arguments, environment):
    """The same of the least disturbed attempt."""
    attempts = []
    while len(attempts) < ATTEMPTS:
        numbers = run_once(command, arguments, environment)
        if not numbers:
            return None
        attempts.append(numbers)
        if numbers["other_cpus"] <= DISTURBED_CPUS:
            break
        taken = f"other processes took {numbers['other_cpus']:.2f} CPUs"
        print(f"{shlex.join(command)}: {taken}", file=sys.stderr)
    return min(attempts, key=lambda numbers: numbers["other_cpus"])


def commands(name, arguments, bf16):
    """What runs the workload, by contestant."""
    if arguments.before:
        return {
            "before": [arguments.before, name, "--json"],
            "tapestry": [arguments.bench, name, "--json"],
        }
    peer = [name, "--threads", str(arguments.threads)]
    torch_steps = [arguments.peers, str(HERE / "torch_steps.py"), *peer, "--mode"]
    modes = ["eager", "compile"]
    if bf16 and name in ("gpt-char", "gpt2-124m", "gpt2-124m-t1024"):
        modes += ["bf16", "bf16-compile"]
    contestants = {"tapestry": [arguments.bench, name, "--json"]}
    contestants |= {mode: [*torch_steps, mode] for mode in modes}
    shape = WORKLOADS[name]
    has_dropout = getattr(shape, "dropout", 0) > 0  # jax_steps.py has none
    if isinstance(shape, (Attention, Generation, Transformer, Vae)) and not has_dropout:
        contestants["jax"] = [arguments.peers, str(HERE / "jax_steps.py"), *peer]
    return contestants


def run_rounds(name, arguments, bf16, environment):
    """Every round's numbers by contestant; none of one that failed."""
    contestants = commands(name, arguments, bf16)
    runs = {contestant: [] for contestant in contestants}
    run_command = run_beside_busy if arguments.busy else run
    for number in range(arguments.rounds):
        order = list(contestants)
        for contestant in reversed(order) if arguments.before and number % 2 else order:
            numbers = run_command(contestants[contestant], arguments, environment)
            if numbers:
                runs[contestant].append(numbers)
            else:
                del contestants[contestant]
                runs[contestant] = []
    return runs


def middle(runs, contestant, field):
    return median(numbers[field] for numbers in runs[contestant])


def faster(runs, modes):
    """The one of the modes that takes the least time; None if all failed."""
    present = [mode for mode in modes if runs.get(mode)]
    return min(present, key=lambda mode: middle(runs, mode, "step_s"), default=None)


def milliseconds(runs, contestant):
    if not runs.get(contestant):
        return "–"
    step_ms = 1e3 * middle(runs, contestant, "step_s")
    return f"{step_ms:.2f}" if step_ms < 10 else f"{step_ms:,.1f}"


def megabytes(runs, contestant):
    if not runs.get(contestant):
        return "–"
    return f"{middle(runs, contestant, 'peak_bytes') / 1e6:,.0f}"


def time_ratio(runs, over, under):
    """`over` by `under`: the median of the rounds, the smallest and the largest."""
    if not runs.get(over) or not runs.get(under):
        return "–"
    ratios = [a["step_s"] / b["step_s"] for a, b in zip(runs[over], runs[under])]
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def memory_ratio(runs, over, under):
    if not runs.get(over) or not runs.get(under):
        return "–"
    return f"{middle(runs, over, 'peak_bytes') / middle(runs, under, 'peak_bytes'):.2f}"


COLUMNS = [
    "step, ms",
    "Tapestry",
    "PyTorch eager",
    "PyTorch compiled",
    "PyTorch bf16",
    "JAX",
    "PyTorch / Tapestry",
    "JAX / Tapestry",
    "MB: Tapestry",
    "MB: PyTorch",
    "MB: JAX",
    "MB: Tapestry / PyTorch",
]


COLUMNS_OF_BUILDS = ["step, ms", "before", "now", "before / now"]


def row_of_builds(name, runs):
    before, now = milliseconds(runs, "before"), milliseconds(runs, "tapestry")
    return [f"`{name}`", before, now, time_ratio(runs, "before", "tapestry")]


def row(name, runs):
    torch = faster(runs, ["eager", "compile"])
    return [
        f"`{name}`",
        milliseconds(runs, "tapestry"),
        milliseconds(runs, "eager"),
        milliseconds(runs, "compile"),
        milliseconds(runs, faster(runs, ["bf16", "bf16-compile"])),
        milliseconds(runs, "jax"),
        time_ratio(runs, torch, "tapestry"),
        time_ratio(runs, "jax", "tapestry"),
        megabytes(runs, "tapestry"),
        megabytes(runs, torch),
        megabytes(runs, "jax"),
        memory_ratio(runs, "tapestry", torch),
    ]


def first_steps(runs):
    """From the start of the process to the end of the first step."""
    times = []
    for contestant, numbers in runs.items():
        seconds = [f"{run['first_step_s']:.2f}" for run in numbers]
        times.append(f"{contestant} {', '.join(seconds) or '–'}")
    return "; ".join(times)


def print_machine(arguments):
    name, flags = cpu()
    print(f"- machine: {name}, {os.cpu_count()} CPUs, {arguments.threads} threads, ", end="")
    print(f"flags of interest: {' '.join(flags)}")


def header_of_builds(arguments):
    print_machine(arguments)
    programs = [str(Path(b).parent / "tapestry") for b in (arguments.before, arguments.bench)]
    print(f"- versions: {'; '.join(output([program, '--version']) for program in programs)}")


def header(arguments, bf16):
    print_machine(arguments)
    python = "import platform; print(platform.python_version())"
    version = "import {0}; print({0}.__version__)".format
    print(
        f"- versions: {output([arguments.tapestry, '--version'])}; "
        f"torch {output([arguments.peers, '-c', version('torch')])}; "
        f"jax {output([arguments.peers, '-c', version('jax')])}; "
        f"Python {output([arguments.peers, '-c', python])}"
    )
    print(f"- date: {datetime.date.today()}")
    print(f"- command: `{shlex.join(['python3', *sys.argv])}`")
    if not bf16:
        print("- PyTorch bf16: not measured, the CPU has neither avx512_bf16 nor amx_bf16")


def footer(results):
    """What stands below the table."""
    every_run = [
        (contestant, numbers)
        for runs in results.values()
        for contestant, rounds in runs.items()
        for numbers in rounds
    ]
    if any("eager" in runs for runs in results.values()):
        print("\nFirst step, s from the start of the process, by round; from the second on, compile")
        print("finds its cache:\n")
        for name, runs in results.items():
            print(f"- `{name}`: {first_steps(runs)}")
    libraries = {
        contestant: f"{numbers['library_bytes'] / 1e6:,.0f} MB"
        for contestant, numbers in every_run
        if "library_bytes" in numbers
    }
    if libraries:
        print("\nMemory is what is resident at most, libraries included. Once imported, PyTorch")
        print(f"holds {libraries.get('eager', '–')}, JAX {libraries.get('jax', '–')}.")
    others = [numbers["other_cpus"] for _, numbers in every_run]
    if others:
        print(f"\nOther processes took {median(others):.2f} CPUs, {max(others):.2f} at most.")


def main():
    arguments = parse_arguments()
    bf16 = bool(BF16_FLAGS & set(cpu()[1]))
    if arguments.before:
        header_of_builds(arguments)
        columns, row_of = COLUMNS_OF_BUILDS, row_of_builds
    else:
        header(arguments, bf16)
        columns, row_of = COLUMNS, row
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    results = {}
    with tempfile.TemporaryDirectory() as cache:  # of compiled code, empty for the first round
        environment = os.environ | {
            "OMP_NUM_THREADS": str(arguments.threads),
            "TORCHINDUCTOR_CACHE_DIR": cache,
        }
        for name in arguments.workloads:
            results[name] = run_rounds(name, arguments, bf16, environment)
            print(f"| {' | '.join(row_of(name, results[name]))} |", flush=True)
            if arguments.json:
                Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    footer(results)


if __name__ == "__main__":
    main()
