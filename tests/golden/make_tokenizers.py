"""Writes tests/golden/tokenizers/: small tokenizers of each kind, and what `tokenizers` makes by them.

    pip install tokenizers==0.23.3 && python tests/golden/make_tokenizers.py

NAME.json is a tokenizer.json as published ones of its kind are, with a small vocabulary. cases.json
has for each the tokens of some texts, as plain text (encode_special_tokens) and with special tokens
found by their names and the template added, and what they decode to. data/test_tokenizers.cpp holds
Tapestry to them.
"""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).parent / "tokenizers"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

LEARNT = [
    "The weaver throws the shuttle, and the threads that go over the others come back under them.",
    "It isn't the loom that weaves: she's the one who'll choose what they've asked for in 1804.",
    "A pattern of 24 cards, 12 threads and 3 colours; the 365th row is the first again.\n\n",
    "\tfor (int row = 0; row < 128; ++row) {\n\t\tthread(row);\n\t}\r\n",
    "Die Weberin wirft das Schiffchen, und die Fäden gehen über und unter den anderen hindurch.",
    "La tisserande lance la navette; l'été, elle travaille près de la fenêtre ouverte.",
    "Ткачиха бросает челнок, и нити идут то сверху, то снизу.",
    "織り手が杼を投げると、糸は上と下を通る。 베틀 위의 실.",
]

TEXTS = [
    "", " ", "  ", "the weaver's thread", "The THREAD'S end, they'LL say: I'VE 'd it; 're 'RE 'ſ",
    "12 threads, 1234567 rows and x2 or 3x; ١٢٣٤ Ⅷ ½ 1 2  34", "a  b   c \n d\n\ne\r\n\r\n f \t\n",
    "end of line  \n  \n\t next", "tabs\t\tand\u00a0spaces\u3000here\u2003 ", "!!!\n\n?? ...\r\nx ?!\n",
    "Fäden über été près, e\u0301te\u0301 A\u030a \u212b \u1e0b\u0323 \u0344", "Ткачиха бросает челнок.",
    "糸は上と下を通る。 베틀 \u1112\u1161\u11ab \uac00\u11a8", "नमस्ते ทอผ้า ሸማኔ", "👩\u200d🔬 🧶🧵 ☂\ufe0f",
    "<|endoftext|>the <think> of <|end_of_text|> a row</think><|im_end|><|begin_of_text|><|<|im_start|>",
    "for (int i = 0; i < 24; ++i) { thread(i, 'a'); }", "\x00\x01\x7f\u0085\u200b\ufeff\ufffd",
    "l'été d'un jour 'tis 'Tis it'll", "_under_ -dash- $1,804.50 50% #3 a@b.c",
]


def trained(model, pre_tokenizer, trainer_options, normalizer=None):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(show_progress=False, **trainer_options)
    tokenizer.train_from_iterator(LEARNT, trainer)
    return tokenizer


def byte_level(cuts):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cuts)


def split(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def gpt2():
    """No model.type, merges as strings, its one special token last and found in normalized text."""
    tokenizer = trained(models.BPE(), byte_level(True),
                        dict(vocab_size=330, initial_alphabet=ALPHABET))
    written = json.loads(tokenizer.to_str())
    model = written["model"]
    del model["type"]
    model["merges"] = [" ".join(merge) for merge in model["merges"]]
    model["vocab"]["<|endoftext|>"] = 330
    written["added_tokens"] = [dict(id=330, special=True, content="<|endoftext|>",
                                    single_word=False, lstrip=False, rstrip=False,
                                    normalized=True)]
    return written


def smollm2():
    """Special tokens first, and without the bytes that its texts lacked."""
    digits = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(True)])
    return trained(models.BPE(), digits, dict(
        vocab_size=200, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))


def llama3():
    """Pieces that are tokens are taken whole; special tokens after the vocabulary; a template."""
    tokenizer = trained(models.BPE(ignore_merges=True), split(LLAMA3),
                        dict(vocab_size=340, initial_alphabet=ALPHABET))
    written = json.loads(tokenizer.to_str())
    written["model"]["vocab"]["Ġshuttles"] = 340  # which no merge makes
    tokenizer = Tokenizer.from_str(json.dumps(written))
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = "<|begin_of_text|>"
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1",
                                      special_tokens=[(begin, tokenizer.token_to_id(begin))])])
    return tokenizer


def qwen2():
    """Text is composed, and some added tokens are not special."""
    tokenizer = trained(models.BPE(), split(QWEN2),
                        dict(vocab_size=340, initial_alphabet=ALPHABET), normalizers.NFC())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False),
                          AddedToken("</think>", normalized=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def roberta():
    """A text is given a space, and tokens are added before and after it."""
    tokenizer = trained(models.BPE(unk_token="<unk>"), pre_tokenizers.ByteLevel(),
                        dict(vocab_size=150, special_tokens=["<s>", "<pad>", "</s>", "<unk>"]),
                        normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> <s>:1 $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def characters():
    """What a vocabulary of characters leaves as."""
    symbols = sorted(set("".join(LEARNT[:4])))
    tokenizer = Tokenizer(models.WordLevel({s: i for i, s in enumerate(symbols)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def main():
    FOLDER.mkdir(exist_ok=True)
    cases = {"texts": TEXTS}
    for make in (gpt2, smollm2, llama3, qwen2, roberta, characters):
        made = make()
        written = made if isinstance(made, dict) else json.loads(made.to_str())
        path = FOLDER / f"{make.__name__}.json"
        path.write_text(json.dumps(written, ensure_ascii=False, separators=(",", ":")) + "\n")
        tokenizer = Tokenizer.from_file(str(path))
        texts = LEARNT[:4] if make is characters else TEXTS
        found = [tokenizer.encode(text) for text in texts]
        tokenizer.encode_special_tokens = True
        plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        cases[make.__name__] = {"plain": plain, "decoded": tokenizer.decode_batch(plain),
                                "found": [each.ids for each in found]}
    cases["character_texts"] = LEARNT[:4]
    (FOLDER / "cases.json").write_text(
        json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
