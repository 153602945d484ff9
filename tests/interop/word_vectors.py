"""Word vectors beside gensim's word2vec, on the captions of Multi30k with the same settings.

`--data` has to contain `train.en`, of which the training part is read.
"""

import re
import shutil
import time

import numpy as np
from gensim.models import KeyedVectors, Word2Vec

from run import Row

REQUIREMENTS = ["gensim==4.4.0"]
FILES = ["multi30k/train.en"]

VALIDATION, EPOCHS, BATCH, NEAREST, FREQUENT = 0.02, 20, 1024, 10, 1000


def run(place):
    text = (place.data / "multi30k/train.en").read_bytes()
    text = text[:int(len(text) * (1 - VALIDATION))].decode()
    lines = [re.findall(r"[^\W_]+", line.lower()) for line in text.splitlines()]
    theirs, their_speed = zip(*(trained_by_gensim(lines, seed) for seed in (1, 2)))
    words = theirs[0].index_to_key
    assert sorted(words) == sorted(theirs[1].index_to_key)
    total = sum(theirs[0].get_vecattr(word, "count") for word in words)
    ours, our_speed = zip(*(trained(place, seed, total) for seed in (1, 2)))
    assert sorted(words) == sorted(ours[0].index_to_key)
    yield Row("word-vectors: words of the vocabulary", len(words), 0)
    between = overlap(words, theirs[0], theirs[1])
    for seed, own in zip((1, 2), ours):
        found = np.mean([overlap(words, own, other) for other in theirs])
        yield Row(f"word-vectors: {NEAREST} nearest words, seed {seed}", FREQUENT,
                  int(found < between - 0.05),
                  f"overlap {found:.3f}, between gensim's seeds {between:.3f}")
    ratio = np.mean(our_speed) / np.mean(their_speed)
    yield Row("word-vectors: words a second", EPOCHS * total, 0, f"{ratio:.2f} times gensim's")


def trained_by_gensim(lines, seed):
    start = time.time()
    model = Word2Vec(lines, vector_size=100, window=5, negative=5, sample=1e-3, min_count=5, sg=1,
                     epochs=EPOCHS, alpha=0.025, min_alpha=1e-4, workers=2, seed=seed)
    return model.wv, 1 / (time.time() - start)


def trained(place, seed, total):
    folder, file = place.work / f"words-{seed}", place.work / f"words-{seed}.txt"
    shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)
    steps = EPOCHS * total // BATCH
    start = time.time()
    place.tapestry("train", "word-vectors", "--quiet", "--out", folder,
                   "--set", f"data.path={place.data / 'multi30k/train.en'}", "--set", f"seed={seed}",
                   "--set", f"train.steps={steps}", "--set", f"train.batch_size={BATCH}",
                   "--set", f"train.eval_every={steps}", "--threads", "2")
    speed = 1 / (time.time() - start)
    place.tapestry("export", folder, "--format", "word2vec", "--out", file)
    return KeyedVectors.load_word2vec_format(file), speed


def overlap(words, one, other):
    """The share of common words among the nearest ones of the most frequent words."""
    common = [len(a & b) for a, b in zip(nearest(words, one), nearest(words, other))]
    return np.mean(common) / NEAREST


def nearest(words, vectors):
    x = np.stack([vectors[word] for word in words])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    cosines = x[:FREQUENT] @ x.T
    np.fill_diagonal(cosines, -np.inf)
    return [set(row) for row in np.argsort(-cosines, axis=1)[:, :NEAREST]]
