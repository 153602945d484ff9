"""The events of runs, as the package tensorboard reads them, beside metrics.jsonl."""

import json
import shutil
import struct
import subprocess
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from run import Row

REQUIREMENTS = ["tensorboard==2.21.0"]


def run(place):
    for config in ["sort", "dates", "clothes-vae", "clothes-vit", "graphs"]:
        folder = train(place, config, "--set", "train.steps=200", "--set", "train.eval_every=50")
        yield compare(folder, config)
    yield compare(killed(place), "sort, killed twice and resumed")


def train(place, config, *more):
    folder = place.work / "events" / config
    shutil.rmtree(folder, ignore_errors=True)
    place.tapestry("train", config, "--set", "train.tensorboard=true", "--quiet", "--out", folder, *more)
    return folder


def killed(place):
    folder = place.work / "events" / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    command = [place.binary, "train", "sort", "--set", "train.tensorboard=true", "--quiet", "--out", folder]
    for more in [[], ["--resume"]]:
        process = subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL)
        while not (folder / "checkpoint.safetensors").exists():
            time.sleep(0.1)
        time.sleep(2)
        process.kill()
        process.wait()
    subprocess.run([*command, "--resume"], check=True, stdout=subprocess.DEVNULL)
    return folder


def compare(folder, what):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    wanted = {}
    with open(folder / "metrics.jsonl") as lines:
        for line in map(json.loads, lines):
            for name, value in line.items():
                if name not in ("step", "elapsed_s") and isinstance(value, (int, float)):
                    float32 = struct.unpack("f", struct.pack("f", value))[0]
                    wanted.setdefault(f"{name}/{line['split']}", []).append((line["step"], float32))
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags["scalars"]}
    differ = sum(found.get(tag) != wanted.get(tag) for tag in {*found, *wanted})
    for tag in tags["images"]:
        differ += not all(image.encoded_image_string.startswith(b"\x89PNG") for image in events.Images(tag))
    for tag in tags["histograms"]:
        differ += not all(sum(event.histogram_value.bucket) == event.histogram_value.num
                          for event in events.Histograms(tag))
    config = events.Tensors("config")[-1].tensor_proto.string_val[0].decode()
    differ += config != "".join("    " + line for line in (folder / "config.toml").read_text().splitlines(True)) + "    "
    figures = sum(map(len, wanted.values()))
    return Row(f"events: {what}", figures, differ,
               f"{len(tags['images'])} images, {len(tags['tensors'])} texts, {len(tags['histograms'])} histograms")
