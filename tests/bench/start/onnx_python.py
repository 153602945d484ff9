"""The same as ours.cpp, of an ONNX model and from Python."""
import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], options)
if "vae" in sys.argv[1]:
    image = np.zeros((1, 784), np.float32)
    image[0, :392] = 1
    means, log_variances = session.run(None, {"images": image})
    print(f"{means[0, 0]:.5f} {log_variances[0, 0]:.5f}")
else:
    (logits,) = session.run(None, {"tokens": np.arange(1, 9)[None]})
    print(f"{logits[0, 7, 0]:.5f} {logits[0, 7, 1]:.5f}")
