"""The same as ours.cpp, from Python."""
import sys

import numpy as np

import tapestry

model = tapestry.Model(sys.argv[1])
if model.task == "vae":
    image = np.zeros((1, model.channels, model.height, model.width), np.float32)
    image.ravel()[:image.size // 2] = 1
    codes = model.encode(image)
    print(f"{codes.means[0, 0]:.5f} {codes.log_variances[0, 0]:.5f}")
else:
    logits = model.logits(np.arange(1, 9))
    print(f"{logits[7, 0]:.5f} {logits[7, 1]:.5f}")
