"""A session in the current folder: trains three models, looks at their metrics, and uses them."""
import numpy as np

import tapestry


def report(line):  # receives each line of metrics; a return value of False ends the training
    if line.get("split") == "val":
        print(f"step {line['step']}: validation loss {line['loss']:.4f}")


# A language model of a text file. train() writes a run's folder, as `tapestry train` does.
with open("notes.txt", "w", encoding="utf-8") as file:
    file.write("the cat sat on the mat, and the dog sat on the log.\n" * 100)
small = {"model.layers": 1, "model.width": 32, "model.context": 32, "optim.learning_rate": 5e-3}
run = tapestry.train("shakespeare-char", {**small, "data.path": "notes.txt", "train.steps": 300,
                                          "train.eval_every": 100}, report, run="runs/notes")
losses = tapestry.metric_columns(tapestry.read_metrics(run), "val")
print("best step:", losses["step"][np.argmin(losses["loss"])])
writer = tapestry.Model(run)
print("the cat" + writer.generate("the cat", tokens=30, temperature=0))
following = writer.logits(writer.tokenize("the d"))[-1]  # (V,): logits of the next token
print("after 'the d':", writer.detokenize([following.argmax()]))

# A forecaster of arrays, without files.
time = np.arange(2000)
load = np.sin(time / 8) + 0.1 * np.random.default_rng(1).standard_normal(2000)
forecaster = tapestry.train_in_memory(
    "waves", {"data.kind": "csv", "model.context": 48, "model.horizon": 8, "train.steps": 300},
    series={"load": load, "hour": time % 24})
forecast = forecaster.forecast(np.stack([load, time % 24], axis=1)[-48:])  # (horizon, K)
print(forecaster.targets, forecast.shape, forecast[:3, 0])

# Latent codes of images, and the image halfway between two.
squares = np.zeros((400, 28, 28), dtype=np.float32)
for i, square in enumerate(squares):
    square[i % 16:i % 16 + 8, i // 16 % 16:i // 16 % 16 + 8] = 1
autoencoder = tapestry.train_in_memory("clothes-vae", {"train.steps": 100}, images=squares)
codes = autoencoder.encode(squares)
halfway = autoencoder.decode((codes.means[:1] + codes.means[1:2]) / 2)
print("codes", codes.means.shape, "image", halfway.shape)
