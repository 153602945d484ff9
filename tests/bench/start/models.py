"""models.py GPT_RUN VAE_RUN: writes gpt.onnx and vae.onnx, by PyTorch, of runs of shakespeare-char and clothes-vae."""
import json
import math
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn


class Weights(nn.Module):
    """The parameters of a run's best model, by their names."""

    def __init__(self, run):
        super().__init__()
        with open(f"{run}/best.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        for name, entry in header.items():
            if name != "__metadata__" and not name.startswith("optimizer."):
                begin, end = entry["data_offsets"]
                values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
                self.register_buffer(name.replace(".", "_"), values.reshape(entry["shape"]))

    def linear(self, x, name):
        return F.linear(x, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))

    def norm(self, x, name):
        weight = getattr(self, f"{name}_weight")
        return F.layer_norm(x, weight.shape, weight, getattr(self, f"{name}_bias"))


class Gpt(Weights):
    def forward(self, tokens):
        T = tokens.shape[1]
        x = self.token_embedding_weight[tokens] + self.position_embedding_weight[:T]
        later = torch.triu(torch.full((64, 64), -1e9), 1)[:T, :T]
        for block in (f"blocks_{i}" for i in range(4)):
            y = self.linear(self.norm(x, f"{block}_attention_norm"), f"{block}_attention_query_key_value")
            q, k, v = (part.reshape(1, -1, 4, 32).transpose(1, 2) for part in y.split(128, -1))
            y = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(32) + later, -1) @ v
            x = x + self.linear(y.transpose(1, 2).reshape(x.shape), f"{block}_attention_output")
            y = self.linear(self.norm(x, f"{block}_feed_forward_norm"), f"{block}_feed_forward_expand")
            x = x + self.linear(F.gelu(y), f"{block}_feed_forward_contract")
        return self.norm(x, "final_norm") @ self.token_embedding_weight.T


class Encoder(Weights):
    def forward(self, images):
        hidden = F.gelu(self.linear(images, "encoder_0"))
        return self.linear(hidden, "mean"), 2 * self.linear(hidden, "log_sigma")


def write(model, example, file, names, dynamic):
    torch.onnx.export(model.eval(), (example,), file, opset_version=17, dynamo=False, dynamic_axes=dynamic,
                      input_names=names[:1], output_names=names[1:])


write(Gpt(sys.argv[1]), torch.zeros(1, 8, dtype=torch.int64), "gpt.onnx", ["tokens", "logits"],
      {"tokens": {1: "T"}})
write(Encoder(sys.argv[2]), torch.zeros(1, 784), "vae.onnx", ["images", "means", "log_variances"], {"images": {0: "B"}})
