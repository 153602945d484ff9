"""Prints what a model computes, as numbers of nine digits, which tell all floats apart:
show_numbers.py RUN TEXT [DATA]. tests/example_c/numbers.c prints the same from C."""

import sys

import numpy as np

import tapestry


def show(what, values):
    print(" ".join([f"{what}:"] + [v if isinstance(v, str) else f"{v:.9g}" for v in values]))


def show_example(example):
    print(f"{example.place}:", *example.cells, "->", *example.prediction, end=f"{example.flaw}\n")
    shown.append(example)
    return len(shown) < 3


def square(model):
    image = np.zeros((1, model.channels, model.height, model.width), dtype=np.float32)
    image[0, 0, model.height // 4:model.height * 3 // 4, model.width // 4:model.width * 3 // 4] = 1
    return image


def show_task(model, text):
    if model.task == "language-model":
        tokens = model.tokenize(text)
        show("tokens", tokens)
        again = model.detokenize(tokens)
        print(f"text: {again}, {len(again.encode())} bytes")
        show("logits", model.logits(tokens).ravel())
        show("next", model.generate_tokens(tokens, tokens=20, temperature=0.8))
        print("generated:", model.generate(text, tokens=20, temperature=0.8))
    if model.task == "vae":
        codes = model.encode(square(model))
        show("means", codes.means.ravel())
        show("log variances", [] if codes.log_variances is None else codes.log_variances.ravel())
        show("decoded", model.decode(codes.means).ravel())
        show("reconstructed", model.reconstruct(square(model)).ravel())
    if model.task == "image-classification":
        show("classes", model.class_names)
        show("probabilities", model.classify(square(model)).ravel())
        show("picture", model.read_pictures([text]).ravel())
    if model.task == "text-classification":
        show("probabilities", model.classify_texts([text, text]).ravel())
        model.predict([[text], [text]], show_example)
    if model.task == "forecast":
        window = 0.25 * (np.arange(model.context * len(model.series)) % 7)
        show("series", model.series)
        show("targets", model.targets)
        show("forecast", model.forecast(window.reshape(model.context, -1)).ravel())
    if model.task == "translation":
        print("translation:", model.translate(text))


tapestry.set_num_threads(1)
trained = tapestry.Model(sys.argv[1])
shown = []
show("columns", trained.prediction_columns)
show("fields", trained.example_fields)
show_task(trained, sys.argv[2])
shown = []
if len(sys.argv) > 3:
    trained.predict(sys.argv[3], show_example)
