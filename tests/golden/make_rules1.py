"""Writes tests/golden/rules1/: data, and runs on them by the program of commit 2860413, which knew
no data.rules. expected.json has what it measured after 6 steps and, resumed, after 12.

    python3 tests/golden/make_rules1.py TAPESTRY LEVEL...

TAPESTRY is that program. The levels are instruction levels that it was built with; the first one
trains the 6 steps, and each of them the others.
"""

import ctypes
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent / "rules1"
DATA = pathlib.Path("/tmp/rules1")  # the path that the runs store
TRAIN = """
[train]
steps = {}
batch_size = 8
eval_every = 3
"""
WIDTH = "[model]\nlayers = 1\nheads = 2\nwidth = 8\nfeed_forward = 8\ndropout = 0.1\n"
CONFIGS = {
    "names": ("names.txt", 'task = "language-model"\n[data]\nkind = "names"\nheld_back = 9\n'
              + WIDTH + "context = 10\n"),
    "texts": ("texts.tsv", 'task = "text-classification"\n[data]\ntokenizer = ""\n'
              + WIDTH + "context = 24\n"),
    "conversations": ("chat.jsonl", 'task = "language-model"\n[data]\nkind = "conversations"\n'
                      'tokenizer = "train"\nvocabulary = 280\ntemplate = "chatml"\n'
                      + WIDTH.replace('width = 8', 'width = 4') + 'context = 48\n[optim]\nname = "sgd"\n'),
    "pictures": ("pictures", 'task = "image-classification"\n[data]\nimage_size = 8\n'
                 'validation_fraction = 0.2\nflip = true\nshift = 1\n' + WIDTH + "patch = 4\n"),
    "nodes": ("nodes", 'task = "graph"\n[data]\nkind = "csv"\n'
              "[model]\nlayers = 2\nwidth = 8\ndropout = 0.1\n"),
    "series": ("series.csv", 'task = "forecast"\n[data]\nkind = "csv"\nsplit = "fractions"\n'
               'missing = "interpolate"\ngaps = true\n' + WIDTH
               + "context = 12\nhorizon = 4\npatch = 4\nstride = 4\n"),
    "panel": ("panel.csv", 'task = "forecast"\n[data]\nkind = "csv"\nsplit = "fractions"\n'
              'series_column = "shop"\nmissing = "previous"\ngaps = true\n' + WIDTH
              + "context = 12\nhorizon = 4\npatch = 4\nstride = 4\n"),
}


def gray_png(width, height, pixel):
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body
                + struct.pack(">I", zlib.crc32(kind + body)))

    rows = b"".join(b"\0" + bytes(pixel(x, y) for x in range(width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def gray_jpeg(width, height, pixel):
    turbo, gray, only_luminance = ctypes.CDLL("libturbojpeg.so.0"), 6, 3
    turbo.tjInitCompress.restype = ctypes.c_void_p
    pixels = bytes(pixel(x, y) for y in range(height) for x in range(width))
    data, size = ctypes.c_void_p(), ctypes.c_ulong()
    status = turbo.tjCompress2(ctypes.c_void_p(turbo.tjInitCompress()), pixels, width, 0, height, gray,
                               ctypes.byref(data), ctypes.byref(size), only_luminance, 60, 0)
    assert status == 0
    return ctypes.string_at(data, size.value)


def write(name, content):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_data():
    syllables = ["ba", "ke", "lo", "mi", "nu", "ra"]
    names = [syllables[i % 6] + syllables[i * 5 % 7 % 6] + syllables[i // 6 % 6] for i in [*range(70), *range(20)]]
    write("names.txt", "\n".join(names) + "\n")

    rows = [f"{['good', 'bad'][i % 2]}\t{['a fine', 'a poor'][i % 2]} meal {i % 37}" for i in range(80)]
    rows[10], rows[50] = "so-so\tan average meal", "so-so\tnot much of a meal"
    write("texts.tsv", "\n".join(rows) + "\n")

    write("chat.jsonl", "".join(json.dumps({"messages": [
        {"role": "user", "content": f"What is {i} and {i % 5}?"},
        {"role": "assistant", "content": f"{i + i % 5}", **({"weight": 0} if i % 9 == 4 else {})}]})
        + "\n" for i in range(40)))

    for i in range(24):
        side = 8 + i % 3
        write(f"pictures/{['bars', 'rows'][i % 2]}/{i}.png", gray_png(
            side, side, lambda x, y: (40 if (x, y)[i % 2] % 2 else 200) + i))
    for i in range(6):  # larger than what is read of them
        write(f"pictures/tiles/{i}.jpg", gray_jpeg(
            48, 36, lambda x, y: (x // 6 + y // 9 * 2 + i) % 4 * 70))

    nodes = [f"n{i},{['', '?', str(i % 7 / 2), str(i % 7 / 2), '1.5'][i % 5]},"
             f"{['red', 'blue', '', 'green'][i % 4]},{['left', 'right', ''][0 if i < 22 else 1 if i < 42 else 2]}"
             for i in range(46)]
    write("nodes/nodes.csv", "id,size,color,label\n" + "\n".join(nodes) + "\nn46,1,red,middle\n"
          "n47,2,red,middle\n")
    edges = [f"n{i},n{(i * 7 + 3) % 48}" for i in range(48)] + [f"n{i},n{(i + 1) % 22}" for i in range(22)]
    write("nodes/edges.csv", "source,target\n" + "\n".join(edges) + "\n")

    def hour(i):
        return f"2024-01-{1 + i // 24:02} {i % 24:02}:00:00"

    wide = [f"{hour(i)},{'' if i % 11 == 4 else i % 12 / 4},{'NA' if i % 17 in (5, 6) else i * i % 23}"
            for i in range(160) if i % 53 != 50]
    write("series.csv", "time,load,heat\n" + "\n".join(wide) + "\n")
    long = [f"{hour(i)},{shop},{'' if (i + s) % 13 == 3 else (i * (s + 2)) % 9}"
            for i in range(90) for s, shop in enumerate(["east", "west"]) if (i + 7 * s) % 31 != 20]
    write("panel.csv", "time,shop,sold\n" + "\n".join(long) + "\n")


def main():
    tapestry, levels = sys.argv[1], sys.argv[2:]
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_data()
    shutil.rmtree(DATA, ignore_errors=True)
    shutil.copytree(FOLDER, DATA)

    def call(*words, level=levels[0]):
        done = subprocess.run([tapestry, *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, "TAPESTRY_LEVEL": level})
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    expected = {}
    for name, (data, config) in CONFIGS.items():
        with tempfile.TemporaryDirectory() as folder:
            def train(steps, run, *more, level=levels[0]):
                toml = pathlib.Path(folder) / f"{steps}.toml"
                toml.write_text(config + TRAIN.format(steps))
                call("train", toml, "--quiet", "--out", run, "--set", f"data.path={DATA / data}",
                     *more, level=level)
                lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
                return {line["split"]: line for line in lines if line["step"] == steps}

            run = f"{folder}/run"
            train(6, run)
            measured = {"data": data, "loss": json.loads(call("eval", run, "--json"))["loss"]}
            shutil.copy(f"{run}/checkpoint.safetensors", FOLDER / f"{name}.safetensors")
            measured["bits"] = {}
            for level in levels:
                again = f"{folder}/{level}"
                os.mkdir(again)
                shutil.copy(f"{run}/checkpoint.safetensors", again)
                shutil.copy(f"{run}/config.toml", again)
                last = train(12, again, "--resume", level=level)
                measured["bits"]["x86-64-" + level] = last["val"]["parameters_xxh3"]
                if level == levels[0]:
                    measured["resumed"] = {split: last[split]["loss"]
                                           for split in ("val", "test") if split in last}
            expected[name] = measured
    write("expected.json", json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
