"""Writes tests/golden/gguf/: files to be read and written alike, of llama.cpp's package `gguf`, and
those that its converter makes of tests/golden/published/.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0 torch transformers==5.23.0
    VENV/bin/python tests/golden/make_gguf.py [FOLDER]

FOLDER is llama.cpp's source, as llama-cpp-python 0.3.36 has it in vendor/llama.cpp.
"""

import importlib.machinery
import json
import pathlib
import sys
import types

import gguf
import numpy as np

GOLDEN = pathlib.Path(__file__).resolve().parent / "gguf"
ROWS, COLUMNS = 3, 64


def numbers():
    """The same that test_gguf.cpp makes: odd ones, halves to be rounded, and a block of zeros."""
    i = np.arange(ROWS * COLUMNS)
    x = (((i * 37) % 101 - 50) / 7).astype(np.float32)
    x[64:96] = 0
    x[96:102] = [127, 0.5, 1.5, 2.5, -0.5, -2.5]
    return x.reshape(ROWS, COLUMNS)


# The names of their pre-tokenizers, which the converter knows by hashes of the published ones.
PATTERNS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2"}


def convert(sources):
    """By llama.cpp's converter, which wants SentencePiece there and a field of older GPT-2."""
    absent = sys.modules["sentencepiece"] = types.ModuleType("sentencepiece")
    absent.__spec__ = importlib.machinery.ModuleSpec("sentencepiece", None)
    absent.SentencePieceProcessor = None
    sys.path.insert(0, sources)
    from conversion import base, gpt2, llama, qwen  # noqa: F401: they register themselves
    load = base.ModelBase.load_hparams

    def load_hparams(*words, **options):
        fields = load(*words, **options)
        return {"n_ctx": fields.get("n_positions"), **fields}

    base.ModelBase.load_hparams = staticmethod(load_hparams)
    for name, pattern in PATTERNS.items():
        folder = GOLDEN.parent / "published" / name
        base.TextModel.get_vocab_base_pre = lambda self, tokenizer, pattern=pattern: pattern
        architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
        kind = base.ModelBase.from_model_architecture(architecture, model_type=base.ModelType.TEXT)
        stored = (gguf.LlamaFileType.ALL_F32 if name == "llama3"
                  else gguf.LlamaFileType.MOSTLY_Q8_0)
        kind(dir_model=folder, ftype=stored, fname_out=GOLDEN / f"{name}.gguf").write()


def main():
    GOLDEN.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        convert(sys.argv[1])
    writer = gguf.GGUFWriter(GOLDEN / "kinds.gguf", "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_string("general.name", "Ünïcode")
    writer.add_array("tokenizer.ggml.tokens", ["a", "Ġ", "日"])
    writer.add_array("tokenizer.ggml.token_type", [1, 3, -5])
    x = numbers()
    writer.add_tensor("blk.0.ffn_norm.weight", x[0, :5].copy())
    writer.add_tensor("exact", x)
    writer.add_tensor("half", x.astype(np.float16))
    writer.add_tensor("blocks", gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0),
                      raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("brain", gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16),
                      raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    others = gguf.GGUFWriter(GOLDEN / "fields.gguf", "gpt2", endianess=gguf.GGUFEndian.LITTLE)
    others.add_custom_alignment(64)
    others.add_uint8("uint8", 200)
    others.add_int8("int8", -100)
    others.add_uint16("uint16", 60000)
    others.add_int16("int16", -30000)
    others.add_int32("int32", 7)
    others.add_uint64("uint64", 2**63)
    others.add_int64("int64", -2**40)
    others.add_float64("float64", 0.1)
    others.add_array("floats", [0.5, 0.1])
    others.add_array("flags", [True, False])
    others.add_tensor("first", np.arange(3, dtype=np.float32))
    others.add_tensor("second", np.arange(6, dtype=np.float32).reshape(2, 3))
    others.write_header_to_file()
    others.write_kv_data_to_file()
    others.write_tensors_to_file()
    others.close()


main()
