"""Tapestry's generation against that of Hugging Face's transformers, in turn on one machine: a
Markdown table.

    python3 -m venv ~/peers && ~/peers/bin/pip install torch transformers
    ~/peers/bin/python tests/bench/peers/generation.py

Models of random weights in the shapes of GPT-2 124M and SmolLM2-135M are saved by transformers and
imported by `tapestry import`. Both write, greedily and in float32 with cached keys and values, what
follows a prompt of 8 tokens: one text, and 8 of other prompts together. The time of 256 tokens is
that of 288 less the least of three times of 32, so that neither loading nor the prompt counts; each
is the time of a process for Tapestry, of `generate` in a process that has warmed up for
transformers. A ratio is the median over the rounds of the ratio within a round: above 1, Tapestry
takes less.

Both must write exactly so many tokens: nothing ends a text, and each token is a character of its
own, so that they can be counted, and compared. Where two logits are almost the same, a text may go
on otherwise; the last column has how many of the texts are the same to the end.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import transformers as hf

from measure import one_cpu_per_core, positive

SHORT, LONG = 32, 288
PROMPT = 8
FIRST = 0x20000  # the code point of token 0: from here on all are characters


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(bos_token_id=None, eos_token_id=None))


def smollm2():
    return hf.LlamaForCausalLM(
        hf.LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=8192,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


MODELS = {"GPT-2 124M": gpt2, "SmolLM2-135M": smollm2}


def tokenizer_json(vocabulary):
    """Of characters, as `tapestry export` writes it."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": "[\\s\\S]"},
            "behavior": "Isolated",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "WordLevel",
            "vocab": {chr(FIRST + token): token for token in range(vocabulary)},
            "unk_token": "<unk>",
        },
    }


def text_of(tokens):
    return "".join(chr(FIRST + token) for token in tokens)


def tokens_of(text):
    return [ord(character) - FIRST for character in text]


class Tapestry:
    def __init__(self, program, folder, work):
        self.program, self.run, self.work = program, work / "run", work
        self.call("import", folder, "--out", self.run)

    def call(self, *words):
        subprocess.run([self.program, *map(str, words)], check=True, stdout=subprocess.DEVNULL)

    def write(self, prompts, tokens):
        """The seconds that it took, and what follows each prompt."""
        given, out = self.work / "prompts.txt", self.work / "texts"
        given.write_text("".join(text_of(prompt) + "\n" for prompt in prompts))
        option = "--prompt-file" if len(prompts) == 1 else "--prompts"
        out.unlink(missing_ok=True)
        start = time.monotonic()
        self.call("sample", self.run, option, given, "--tokens", tokens, "--temperature", 0,
                  "--out", out)
        seconds = time.monotonic() - start
        texts = out.read_text(encoding="utf-8").split("\n")[:-1]
        if len(prompts) == 1:
            return seconds, [tokens_of(texts[0])[PROMPT:]]
        return seconds, [tokens_of(json.loads(line)["text"]) for line in texts]


class Transformers:
    def __init__(self, folder):
        self.model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def write(self, prompts, tokens):
        given = torch.tensor(prompts)
        start = time.monotonic()
        with torch.inference_mode():
            written = self.model.generate(
                given, attention_mask=torch.ones_like(given), do_sample=False, use_cache=True,
                min_new_tokens=tokens, max_new_tokens=tokens, eos_token_id=None, pad_token_id=0)
        return time.monotonic() - start, written[:, PROMPT:].tolist()


def write(contestant, prompts, tokens):
    """The seconds that it took, and the texts, each of so many tokens."""
    seconds, texts = contestant.write(prompts, tokens)
    counts = {len(text) for text in texts}
    if len(texts) != len(prompts) or counts != {tokens}:
        raise SystemExit(f"{len(texts)} texts of {counts} tokens, not {len(prompts)} of {tokens}")
    return seconds, texts


def seconds_of(contestant, prompts):
    """Of LONG - SHORT tokens of each text, and the longer texts."""
    short = min(write(contestant, prompts, SHORT)[0] for _ in range(3))
    long, texts = write(contestant, prompts, LONG)
    return long - short, texts


def measure(ours, theirs, prompts, rounds):
    """Rounds of (our seconds, theirs), and how many texts are the same."""
    seconds = []
    for _ in range(rounds):
        our_seconds, our_texts = seconds_of(ours, prompts)
        their_seconds, their_texts = seconds_of(theirs, prompts)
        seconds.append((our_seconds, their_seconds))
    return seconds, sum(a == b for a, b in zip(our_texts, their_texts))


def row(name, texts, seconds, same):
    tokens = texts * (LONG - SHORT)
    rates = [tokens / median(side) for side in zip(*seconds)]
    ratios = [theirs / ours for ours, theirs in seconds]
    return [
        name,
        str(texts),
        *(f"{rate:.1f}" for rate in rates),
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        f"{same} of {texts}",
    ]


COLUMNS = ["shape", "texts", "Tapestry, tokens/s", "transformers, tokens/s",
           "transformers' time / ours", "same texts"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    program = Path(__file__).resolve().parents[3] / "build/release/bin/tapestry"
    parser.add_argument("--tapestry", default=str(program), help="by default this tree's")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--texts", type=positive, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=positive, default=len(one_cpu_per_core()))
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    torch.set_num_threads(arguments.threads)
    hf.logging.set_verbosity_error()
    print(f"{arguments.threads} threads, torch {torch.__version__}, transformers {hf.__version__}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name, make in MODELS.items():
        torch.manual_seed(1)
        with tempfile.TemporaryDirectory() as work:
            work = Path(work)
            model, folder = make(), work / "model"
            model.save_pretrained(folder)
            vocabulary = model.config.vocab_size
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocabulary)))
            del model
            ours, theirs = Tapestry(arguments.tapestry, folder, work), Transformers(folder)
            theirs.write([[1] * PROMPT], 8)
            for texts in arguments.texts:
                prompts = torch.randint(0, vocabulary, (texts, PROMPT)).tolist()
                seconds, same = measure(ours, theirs, prompts, arguments.rounds)
                print(f"| {' | '.join(row(name, texts, seconds, same))} |", flush=True)


if __name__ == "__main__":
    main()
