"""Prepares Multi30k as published models read it, and scores translations on tokens and on raw text.

    python -m venv ~/peers && ~/peers/bin/pip install sacremoses sacrebleu
    ~/peers/bin/python multi30k_tokens.py prepare multi30k multi30k-tokens
    tapestry train multi30k-en-de --set data.path=multi30k-tokens
    tapestry predict runs/multi30k-en-de multi30k-tokens/test_2016_flickr.en --out predicted.jsonl
    ~/peers/bin/python multi30k_tokens.py score predicted.jsonl multi30k/test_2016_flickr.de

`prepare` writes each file NAME.de and NAME.en of a folder in lower case, with normalized punctuation
and tokens as Moses divides them (task1-tokenize.sh of multi30k/dataset), one space between two.
`score` prints two BLEUs in lower case: of the tokens, as multi-bleu.perl computes it, and of the text
that the tokens make, beside the raw references, with the tokens of 13a.
"""

import argparse
import json
import sys
from pathlib import Path

from sacrebleu import corpus_bleu
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer


def tokens_of(lines, language):
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [
        tokenizer.tokenize(normalizer.normalize(line.lower()), escape=False, return_str=True)
        for line in lines
    ]


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def prepare(source, target):
    files = sorted(file for file in source.iterdir() if file.suffix in (".de", ".en"))
    if not files:
        sys.exit(f"{source}: no files NAME.de and NAME.en")
    target.mkdir(parents=True, exist_ok=True)
    for file in files:
        lines = tokens_of(lines_of(file), file.suffix[1:])
        (target / file.name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def score(predicted, references):
    language, raw = references.suffix[1:], lines_of(references)
    given = [json.loads(line)["prediction"] or "" for line in lines_of(predicted)]
    if len(given) != len(raw):
        sys.exit(f"{predicted}: {len(given)} predictions; expected the {len(raw)} of {references}")
    on_tokens = corpus_bleu(
        given, [tokens_of(raw, language)], tokenize="none", smooth_method="none", force=True
    )
    detokenizer = MosesDetokenizer(language)
    texts = [detokenizer.detokenize(line.split()) for line in given]
    print(f"BLEU of the tokens: {on_tokens.score:.2f}")
    print(f"BLEU of the texts (13a): {corpus_bleu(texts, [raw], lowercase=True).score:.2f}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, paths in (("prepare", ("source", "target")), ("score", ("predicted", "references"))):
        command = commands.add_parser(name)
        for path in paths:
            command.add_argument(path, type=Path)
    arguments = vars(parser.parse_args())
    {"prepare": prepare, "score": score}[arguments.pop("command")](**arguments)


if __name__ == "__main__":
    main()
