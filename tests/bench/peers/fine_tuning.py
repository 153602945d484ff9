"""Tapestry's fine-tuning, by adapters (LoRA) and of all weights, against that of Hugging Face's
libraries, in turn on one machine: a Markdown table.

    python3 -m venv ~/peers && ~/peers/bin/pip install torch transformers peft
    ~/peers/bin/python tests/bench/peers/fine_tuning.py

A model of random weights in the shape of SmolLM2-135M is saved by transformers and imported by
`tapestry import`. Both train adapters of rank 8 of it, and all weights of it, on random tokens, in
float32: AdamW, the gradient clipped to 1, a batch of 4 rows of 512 tokens. Each is a process of its own, which loads
the model, and whose peak of resident memory is what the kernel counted; the time of a step is the
median after the first two. A ratio is the median over the rounds of the ratio within a round: of
speed above 1, of memory below 1, Tapestry takes less.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from generation import MODELS, Tapestry, hf, text_of, tokenizer_json
from measure import one_cpu_per_core, positive

BATCH, CONTEXT, STEPS, SKIPPED = 4, 512, 8, 2
RANK, ALPHA = 8, 16
TARGETS = {
    "query, value": (["q_proj", "v_proj"], ["query", "value"]),
    "all seven": (["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
                  ["query", "key", "value", "output", "gate", "up", "contract"]),
    "none: all weights": ([], []),
}


def peer(folder, targets):
    """Trains the adapters of `targets`, or without any all weights, and prints the seconds of each
    step."""
    import torch

    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if targets:
        import peft

        settings = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets,
                                   task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, settings)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    torch.manual_seed(0)
    seconds = []
    for _ in range(STEPS):
        tokens = torch.randint(0, model.config.vocab_size, (BATCH, CONTEXT))
        start = time.monotonic()
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        seconds.append(time.monotonic() - start)
    print(json.dumps(seconds))


def measured(words, **options):
    """What a process wrote, and the most memory that it had resident, in MB."""
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, **options)
    written = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{words}: status {process.returncode}")
    return written, usage.ru_maxrss / 1024


def tapestry_step(tapestry, targets, number):
    run = tapestry.work / f"tuned-{number}"
    listed = ",".join(f'"{target}"' for target in targets)
    adapters = {"model.lora.rank": RANK, "model.lora.alpha": ALPHA,
                "model.lora.targets": f"[{listed}]"}
    settings = {
        **(adapters if targets else {}), "data.path": tapestry.work / "text.txt",
        "model.context": CONTEXT,
        "train.batch_size": BATCH, "train.micro_batches": 1, "train.steps": STEPS,
        "train.log_every": 1, "train.eval_every": 0, "train.checkpoint_every": 0,
        "train.eval_batch_size": 1, "optim.learning_rate": 1e-3, "optim.clip_norm": 1.0,
        "data.validation_fraction": 0.1,
    }
    words = [tapestry.program, "train", tapestry.work / "text.toml", "--from", tapestry.run,
             "--out", run, "--quiet"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    _, memory = measured(words)
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    seconds = [BATCH * CONTEXT / line["tokens_per_s"] for line in lines if line["split"] == "train"]
    return median(seconds[SKIPPED:]), memory


def torch_step(folder, targets, cpus):
    environment = {**os.environ, "OMP_NUM_THREADS": str(len(cpus))}
    written, memory = measured([sys.executable, __file__, "--peer", folder, *targets],
                               env=environment, stderr=subprocess.DEVNULL)
    return median(json.loads(written.splitlines()[-1])[SKIPPED:]), memory


def main():
    root = Path(__file__).resolve().parents[3]
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--program", type=Path, default=root / "build/release/bin/tapestry")
    options.add_argument("--rounds", type=positive, default=3)
    options.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.peer:
        return peer(given.peer[0], given.peer[1:])
    cpus = one_cpu_per_core()
    os.sched_setaffinity(0, cpus)
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        folder = work / "model"
        model = MODELS["SmolLM2-135M"]()
        model.save_pretrained(folder)
        vocabulary = model.config.vocab_size
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocabulary)))
        del model
        random.seed(0)
        (work / "text.toml").write_text('task = "language-model"\n')
        (work / "text.txt").write_text(
            text_of([random.randrange(vocabulary) for _ in range(12 * CONTEXT)]), encoding="utf-8")
        tapestry = Tapestry(given.program.resolve(), folder, work)
        print("| adapters of | Tapestry ms a step | MB | peft ms a step | MB | times as fast | "
              "of its memory |\n|---|---|---|---|---|---|---|")
        number = 0
        for name, (theirs, ours) in TARGETS.items():
            rounds = []
            for _ in range(given.rounds):
                number += 1
                rounds.append((*tapestry_step(tapestry, ours, number),
                               *torch_step(folder, theirs, cpus)))
            a, a_memory, b, b_memory = (median(column) for column in zip(*rounds))
            speed = [one[2] / one[0] for one in rounds]
            memory = [one[1] / one[3] for one in rounds]
            print(f"| {name} | {1e3 * a:.0f} | {a_memory:.0f} | {1e3 * b:.0f} | {b_memory:.0f} | "
                  f"{median(speed):.2f} ({min(speed):.2f} to {max(speed):.2f}) | "
                  f"{median(memory):.2f} |", flush=True)


if __name__ == "__main__":
    main()
