"""Encoding and decoding, token for token, beside Hugging Face's `tokenizers`.

Published vocabularies are not at hand: ones of their size are trained by the library on Debian's
texts, with the settings that the published tokenizer.json files have.
"""

import bz2
import gzip
import itertools
import json
import pathlib
import random
import subprocess
import time

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from run import Row

REQUIREMENTS = ["tokenizers==0.23.3"]

# The version of Unicode up to which the library's tables are ours (15.0): of its patterns newer,
# of its normalization form C older.
COMMON_UNICODE, COMMON_UNICODE_OF_NFC = (15, 0), (9, 0)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SIZES = {"gpt2": 50257, "smollm2": 49152, "llama3": 40000, "qwen2": 40000}


def byte_level(cuts):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cuts)


def split(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


def untrained(kind):
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = {
        "gpt2": lambda: byte_level(True),
        "smollm2": lambda: pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
        "llama3": lambda: split(LLAMA3),
        "qwen2": lambda: split(QWEN2),
    }[kind]()
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def trained(kind, files, path):
    """Trains once, and keeps the file."""
    if not path.exists():
        tokenizer = untrained(kind)
        first = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] if kind in ("gpt2", "smollm2") else []
        # As SmolLM2's own: without the bytes that its texts lacked.
        alphabet = pre_tokenizers.ByteLevel.alphabet() if kind != "smollm2" else []
        tokenizer.train([str(file) for file in files], trainers.BpeTrainer(
            vocab_size=SIZES[kind], special_tokens=first, initial_alphabet=alphabet,
            show_progress=False))
        if kind == "llama3":
            tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
            begin = "<|begin_of_text|>"
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1",
                special_tokens=[(begin, tokenizer.token_to_id(begin))])
        if kind == "qwen2":
            tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
            tokenizer.add_tokens([AddedToken("<think>", normalized=False),
                                  AddedToken("</think>", normalized=False)])
        tokenizer.save(str(path))
    return Tokenizer.from_file(str(path))


# --- texts ---

def debian_texts(place):
    """Files of real text, made once: the King James Bible, a dictionary, the C++ library."""
    folder = place.work / "texts"
    folder.mkdir(exist_ok=True)
    bible, dictionary, headers = (folder / name for name in ("bible.txt", "gcide.txt", "headers.txt"))
    if not bible.exists():
        program = place.debian("bible-kjv") / "usr/bin/bible"
        data = place.debian("bible-kjv-text") / "usr/lib"
        bible.write_bytes(subprocess.run([program, "-p", data, "-f", "gen1:1-rev22:21"], check=True,
                                         stdout=subprocess.PIPE).stdout)
    if not dictionary.exists():
        packed = place.debian("dict-gcide") / "usr/share/dictd/gcide.dict.dz"
        dictionary.write_text(gzip.open(packed).read().decode("utf-8", "replace"), newline="")
    if not headers.exists():
        files = sorted(pathlib.Path("/usr/include/c++").rglob("*.h"))
        headers.write_bytes(b"".join(file.read_bytes() for file in files))
    return [bible, dictionary, headers]


def texts_of(place):
    """(name, text) of Debian's files and of those of --data."""
    files = debian_texts(place)
    if place.data:
        files += sorted(file for file in place.data.rglob("*") if file.is_file())
    for file in files:
        try:
            text = file.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        if text and not text.startswith("\ufeff"):
            yield file.name, text


def known_characters(version):
    """The code points that a version of Unicode knows."""
    known = set()
    for line in (UNICODE / "DerivedAge.txt").read_text().splitlines():
        fields = line.split("#")[0].split(";")
        if len(fields) == 2 and tuple(map(int, fields[1].split("."))) <= version:
            first, _, last = fields[0].strip().partition("..")
            known.update(range(int(first, 16), int(last or first, 16) + 1))
    return sorted(known - set(range(0xD800, 0xE000)))


SCRIPTS = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF),
           (0x900, 0xDFF), (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F),
           (0x2070, 0x218F), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
           (0xF900, 0xFAD9), (0x10000, 0x10FFF), (0x1D100, 0x1D7FF), (0x1F300, 0x1FAFF),
           (0x2F800, 0x2FA1D), (0, 0x10FFFF)]
PARTS = ["'s", "'S", "'\u017f", "'re", "'LL", "'t", "'", "\r\n", "\n", "\n\n", "\r", " ", "  ",
         "   ", "\t", "1", "12", "1234", "\u0663", "\u2167", "a", "the", " the", "The", "\u00e9",
         "e\u0301", "\U0001F600", "\U0001F469\u200d\U0001F4BB", "<|endoftext|>", "<|im_start|>",
         "<think>", "<|", "\u4e2d", "\ud55c", "\u1100\u1161", "\u11a8", "\u00a0", "\u3000",
         "\u200b", "...", "!?", "don't", "I'll", "x\u00b2", "\u0344", "\u212b", "A\u030a"]


def random_strings(count, version):
    drawn = random.Random(7)
    known = known_characters(version)
    pools = []
    for first, last in SCRIPTS:
        pools.append([chr(code) for code in known if first <= code <= last])
    for _ in range(count):
        text = ""
        for _ in range(drawn.randint(1, 12)):
            if drawn.random() < 0.6:
                text += drawn.choice(PARTS)
            else:
                text += "".join(drawn.choices(drawn.choice(pools), k=drawn.randint(1, 3)))
        yield text


# --- comparing ---

def batches(items, size=20000):
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch


def ours(place, command, lines, *words):
    """What tapestry tokenizer makes of lines of JSON."""
    given, made = place.work / "given.jsonl", place.work / "made.jsonl"
    given.write_text("".join(json.dumps(line) + "\n" for line in lines))
    place.tapestry("tokenizer", command, given, "--out", made, *words)
    with made.open() as file:
        return [json.loads(line) for line in file]


def compare(place, theirs, path, texts, size=20000):
    """How many texts differ in tokens, plain or with names found, or in what they decode to."""
    words = ["--tokenizer", path]
    differ = 0
    for batch in batches(texts, size):
        theirs.encode_special_tokens = True
        plain = [each.ids for each in theirs.encode_batch_fast(batch, add_special_tokens=False)]
        theirs.encode_special_tokens = False
        found = [each.ids for each in theirs.encode_batch_fast(batch)]
        decoded = theirs.decode_batch(plain)
        our_plain = ours(place, "encode", batch, "--json", *words)
        our_found = ours(place, "encode", batch, "--json", "--added", "--template", *words)
        our_decoded = ours(place, "decode", plain, "--json", *words)
        same = zip(plain, our_plain, found, our_found, decoded, our_decoded, strict=True)
        differ += sum(a != b or c != d or e != f for a, b, c, d, e, f in same)
    return differ


def parts_of(texts, characters=1 << 18):
    """So that the library, which takes 60 times a text's memory, can have them."""
    for text in texts:
        for begin in range(0, len(text), characters):
            yield text[begin:begin + characters]


def speed(place, path, file):
    """Megabytes a second of one command, with what it takes to load, read and write."""
    made, start = place.work / "made.jsonl", time.time()
    place.tapestry("tokenizer", "encode", file, "--tokenizer", path, "--out", made)
    return file.stat().st_size / 1e6 / (time.time() - start)


def compare_decoding(place, theirs, path, count):
    """Of tokens that are drawn, so that they are seldom UTF-8."""
    drawn, differ = random.Random(11), 0
    size = theirs.get_vocab_size()
    for batch in batches([[drawn.randrange(size) for _ in range(drawn.randint(0, 8))]
                          for _ in range(count)]):
        decoded = ours(place, "decode", batch, "--json", "--tokenizer", path)
        differ += sum(a != b for a, b in zip(theirs.decode_batch(batch), decoded, strict=True))
    return differ


def compare_normalization(place, path):
    """decode(encode(text)) is normalization form C: Unicode's own test."""
    lines = bz2.open(UNICODE / "NormalizationTest.txt.bz2", "rt").read().splitlines()
    cases = [[bytes.fromhex("".join(f"{int(code, 16):08x}" for code in field.split())).decode("utf-32-be")
              for field in line.split(";")[:3]]
             for line in lines if line and line[0] not in "#@"]
    given = [text for case in cases for text in case]
    wanted = [case[1] for case in cases for _ in case]
    tokens = ours(place, "encode", given, "--json", "--tokenizer", path)
    texts = ours(place, "decode", tokens, "--json", "--tokenizer", path)
    return len(given), sum(a != b for a, b in zip(texts, wanted, strict=True))


def compare_lower_case(place, path):
    """decode(encode(character)) is its lower case."""
    given = [chr(code) for code in known_characters(COMMON_UNICODE)]
    lower = normalizers.Lowercase()
    tokens = ours(place, "encode", given, "--json", "--tokenizer", path)
    texts = ours(place, "decode", tokens, "--json", "--tokenizer", path)
    wanted = [lower.normalize_str(character) for character in given]
    return len(given), sum(a != b for a, b in zip(texts, wanted, strict=True))


def run(place):
    global UNICODE
    UNICODE = place.debian("unicode-data") / "usr/share/unicode"
    less = 100 if place.quick else 1
    learned = debian_texts(place)
    folder = place.work / "tokenizers"
    folder.mkdir(exist_ok=True)
    for kind, size in SIZES.items():
        path = folder / f"{kind}.json"
        theirs = trained(kind, learned, path)
        name = f"{kind}, {theirs.get_vocab_size():,} tokens"
        texts = [text for _, text in texts_of(place)]
        parts = list(parts_of(texts))[::less]
        note = (f"{sum(map(len, texts)) / 1e6 / less:.0f} million characters; the dictionary at "
                f"{speed(place, path, learned[1]):.0f} MB/s, with loading and writing")
        yield Row(f"{name}: {len(texts)} files in parts", len(parts),
                  compare(place, theirs, path, parts, 16), note)
        lines = [line for text in texts for line in text.splitlines(True)][::10 * less]
        yield Row(f"{name}: lines of them", len(lines), compare(place, theirs, path, lines))
        count = 1_000_000 // less
        version = COMMON_UNICODE_OF_NFC if kind == "qwen2" else COMMON_UNICODE
        strings = random_strings(count, version)
        yield Row(f"{name}: random strings of Unicode {version[0]}.{version[1]}", count,
                  compare(place, theirs, path, strings))
        count = 100_000 // less
        yield Row(f"{name}: random tokens decoded", count,
                  compare_decoding(place, theirs, path, count))
        own = folder / f"own-{kind}.json"
        place.tapestry("tokenizer", "train", learned[0], "--vocabulary", 4000, "--pieces", kind,
                       "--special", "<|endoftext|>", "--out", own)
        lines = learned[0].read_text().splitlines(True)[::less]
        yield Row(f"{kind}, trained by tapestry: lines", len(lines),
                  compare(place, Tokenizer.from_file(str(own)), own, lines))
    compared, differ = compare_normalization(place, folder / "own-qwen2.json")
    yield Row("normalization form C: NormalizationTest.txt of Unicode 15.0", compared, differ)
    lower = folder / "own-lower-case.json"
    place.tapestry("tokenizer", "train", learned[0], "--vocabulary", 300, "--lower-case", "--out",
                   lower)
    yield Row("lower case: each character of Unicode 15.0", *compare_lower_case(place, lower))
