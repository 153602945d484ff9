#!/usr/bin/env python3
"""Makes the golden values Tapestry's tests compare with: outputs and gradients from PyTorch.

    /usr/bin/python3 tests/golden/make_golden.py

rewrites the *.safetensors files beside this script. The committed files were made with Debian 12's
python3-torch 1.13.1+dfsg-4 (torch.__version__ 1.13.0a0) and Python 3.11.2 on x86-64, but
convolutional_classifier, gru, lstm, muon and schedule_free.safetensors with PyTorch 2.15.0 from
PyPI; another version may change the last bits.

Floating tensors are F64, indices and masks I32. Inputs and parameters are rounded to float32
values first, so a float32 test starts from the same numbers. Every function below seeds its own
generator by a name. `g` is the gradient from above: `dx` is the gradient of sum(y * g) by `x`,
`gradient.NAME` that by a module's parameter NAME. Every gradient is compared with finite
differences before it is written.
"""

import json
import math
import pathlib
import struct
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.stateless import functional_call

TYPES = {torch.float64: "F64", torch.int32: "I32"}


def write(name, tensors):
    """The safetensors format: header length, JSON header padded with spaces, data."""
    header, data = {}, b""
    # The wider type first, so that every tensor is aligned to its elements.
    for key, tensor in sorted(tensors.items(), key=lambda item: item[1].dtype != torch.float64):
        assert torch.isfinite(tensor).all(), f"{name}: {key} is not finite"
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[key] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                       "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(__file__).with_name(f"{name}.safetensors")
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(name, *(f"{key} {v['dtype']}{v['shape']}" for key, v in header.items()), sep="\n    ")


def generator(name):
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def normal(random, *shape, scale=1.0, shift=0.0):
    values = torch.randn(shape, generator=random, dtype=torch.float64) * scale + shift
    return values.float().double()


def make_parameters(random, shapes):
    """Weights of the given shapes, by layer name, and biases but for embeddings and the head."""
    p = {}
    for name, shape in shapes.items():
        p[name + ".weight"] = normal(random, *shape, scale=0.4, shift=float(name.endswith("norm")))
        if "embedding" not in name and name != "head":
            p[name + ".bias"] = normal(random, shape[0], scale=0.4)
    return p


def affine(parameters, x, name):
    return F.linear(x, parameters[name + ".weight"], parameters[name + ".bias"])


def gradients(function, inputs):
    """The gradient of the scalar function(inputs) by each input, checked by finite differences."""
    leaves = {key: value.clone().requires_grad_() for key, value in inputs.items()}
    result = dict(zip(leaves, torch.autograd.grad(function(leaves), list(leaves.values()))))
    random, step = generator("directions"), 1e-5
    for key, gradient in result.items():
        assert gradient.abs().max() > 0, f"the gradient by {key} is zero"
        direction = normal(random, *gradient.shape)
        above, below = (function({**inputs, key: inputs[key] + sign * step * direction}).item()
                        for sign in (1, -1))
        numeric, analytic = (above - below) / (2 * step), (gradient * direction).sum().item()
        assert math.isclose(numeric, analytic, rel_tol=1e-6, abs_tol=1e-7), (key, numeric, analytic)
    return {("gradient." if "." in key or "_bias" in key else "d") + key: value
            for key, value in result.items()}


def write_operation(name, function, inputs, **extra):
    """Writes inputs, g, y = function(inputs) and the gradients of sum(y * g)."""
    y = function(inputs)
    g = normal(generator(name), *y.shape)
    write(name, {**inputs, **extra, "g": g, "y": y,
                 **gradients(lambda t: (function(t) * g).sum(), inputs)})


def layers():
    r = generator("layers")
    write_operation("linear", lambda t: F.linear(t["x"], t["weight"], t["bias"]), {
        "x": normal(r, 2, 3, 5), "weight": normal(r, 4, 5), "bias": normal(r, 4)})
    write_operation("layer_norm", lambda t: F.layer_norm(t["x"], (8,), t["weight"], t["bias"]), {
        "x": normal(r, 2, 3, 8, scale=2, shift=0.5),
        "weight": normal(r, 8, scale=0.5, shift=1), "bias": normal(r, 8)})
    x = normal(r, 3, 7)
    # Overflows exp, underflows it, and spreads widely within a row.
    x = torch.stack([x[0] + 1000, x[1] - 1000, x[2] * 20]).float().double()
    write_operation("softmax", lambda t: F.softmax(t["x"], -1), {"x": x})
    write_operation("log_softmax", lambda t: F.log_softmax(t["x"], -1), {"x": x})
    x = torch.linspace(-6, 6, 64).double()
    write_operation("gelu_erf", lambda t: F.gelu(t["x"]), {"x": x})
    write_operation("gelu_tanh", lambda t: F.gelu(t["x"], approximate="tanh"), {"x": x})


def convolutions():
    r = generator("convolutions")
    # Odd and even sizes, of which the stride leaves a rest.
    write_operation("convolution2d", lambda t: F.conv2d(
        t["x"], t["weight"], stride=2, padding=1), {
        "x": normal(r, 2, 3, 7, 6), "weight": normal(r, 4, 3, 3, 3)})
    write_operation("convolution2d_plain", lambda t: F.conv2d(t["x"], t["weight"]), {
        "x": normal(r, 2, 2, 4, 5), "weight": normal(r, 3, 2, 2, 2)})
    write_operation("transposed_convolution2d", lambda t: F.conv_transpose2d(
        t["x"], t["weight"], stride=2, padding=1, output_padding=(0, 1)), {
        "x": normal(r, 2, 4, 4, 3), "weight": normal(r, 4, 3, 3, 3)})
    write_operation("transposed_convolution2d_plain", lambda t: F.conv_transpose2d(
        t["x"], t["weight"], stride=3), {
        "x": normal(r, 2, 2, 3, 2), "weight": normal(r, 2, 3, 2, 2)})


def cross_entropy():
    logits = normal(generator("cross_entropy"), 6, 5, scale=2)
    targets = torch.tensor([3, 0, -1, 4, 1, 1])
    tensors = {"logits": logits, "targets": targets.int()}
    for suffix, smoothing in (("", 0.0), ("_smoothed", 0.1)):
        def loss(t):
            return F.cross_entropy(t["logits"], targets, ignore_index=-1, label_smoothing=smoothing)
        tensors["loss" + suffix] = loss(tensors)
        tensors["dlogits" + suffix] = gradients(loss, {"logits": logits})["dlogits"]
    write("cross_entropy", tensors)


def causal_mask(length):
    return torch.full((length, length), -math.inf, dtype=torch.float64).triu(1)


def attend(q, k, v, mask=0):
    """softmax(q k^T / sqrt(D) + mask) v over (B, H, T, D)."""
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v


def attention():
    r = generator("attention")
    inputs = {"q": normal(r, 2, 3, 4, 8), "k": normal(r, 2, 3, 6, 8), "v": normal(r, 2, 3, 6, 8)}
    square = {key: normal(r, 2, 3, 5, 8) for key in "qkv"}
    padding = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]], dtype=torch.int32)
    hide = torch.zeros(2, 1, 1, 6).double().masked_fill(padding[:, None, None] == 1, -math.inf)
    mask = normal(r, 4, 6)
    write_operation("attention_plain", lambda t: attend(**t), inputs)
    write_operation("attention_causal", lambda t: attend(**t, mask=causal_mask(5)), square)
    write_operation("attention_padding", lambda t: attend(**t, mask=hide), inputs, padding=padding)
    write_operation("attention_additive", lambda t: attend(**t, mask=mask), inputs, mask=mask)


def multi_head():
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()

    def call(t, projection, source, mask=None):
        weight, bias = (torch.cat([t[f"{layer}.{kind}"] for layer in projection])
                        for kind in ("weight", "bias"))
        parameters = {"in_proj_weight": weight, "in_proj_bias": bias,
                      "out_proj.weight": t["output.weight"], "out_proj.bias": t["output.bias"]}
        return functional_call(module, parameters, (t["x"], t[source], t[source]),
                               {"attn_mask": mask, "need_weights": False})[0]

    name = "multi_head_attention"
    r = generator(name)
    p = make_parameters(r, {"query_key_value": (36, 12), "output": (12, 12)})
    write_operation(f"{name}_self", lambda t: call(t, ["query_key_value"], "x", causal_mask(5)),
                    {"x": normal(r, 2, 5, 12), **p})
    p = make_parameters(r, {"query": (12, 12), "key_value": (24, 12), "output": (12, 12)})
    write_operation(f"{name}_cross", lambda t: call(t, ["query", "key_value"], "source"),
                    {"x": normal(r, 2, 5, 12), "source": normal(r, 2, 7, 12), **p})


def recurrent_layers():
    """Layers with one bias of the gates, as PyTorch's with b_hh = 0 but for n of the GRU."""
    for name, gates, states in (("lstm", 4, 2), ("gru", 3, 1)):
        r = generator(name)
        layer = getattr(torch.nn, name.upper())(5, 6, batch_first=True).double()
        p = {"input.weight": normal(r, gates * 6, 5, scale=0.4),
             "input.bias": normal(r, gates * 6, scale=0.4),
             "hidden.weight": normal(r, gates * 6, 6, scale=0.4)}
        if name == "gru":
            p["candidate_bias"] = normal(r, 6, scale=0.4)

        def call(t):
            second = torch.zeros(gates * 6, dtype=torch.float64)
            if "candidate_bias" in t:
                second = torch.cat([second[:12], t["candidate_bias"]])
            weights = {"weight_ih_l0": t["input.weight"], "bias_ih_l0": t["input.bias"],
                       "weight_hh_l0": t["hidden.weight"], "bias_hh_l0": second}
            first = tuple(part[None].contiguous() for part in t["initial"].split(6, 1))
            return functional_call(layer, weights, (t["x"], first if states == 2 else first[0]))[0]

        write_operation(name, call, {"x": normal(r, 3, 7, 5),
                                     "initial": normal(r, 3, states * 6), **p})


def optimizers():
    r = generator("optimizers")
    initial, steps = normal(r, 10), normal(r, 10, 10)
    steps[:, 0] = 0  # only decay and the guard against 0 / 0
    steps[:, 1] = (steps[:, 1] * 1e-8).float().double()  # of eps's size: shows where eps is added
    adam = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-8}
    for name, make, settings in (("adamw", torch.optim.AdamW, {**adam, "weight_decay": 0.1}),
                                 ("adam", torch.optim.Adam, adam),
                                 ("sgd", torch.optim.SGD, {"lr": 0.01, "momentum": 0.9})):
        parameter, after = initial.clone().requires_grad_(), []
        optimizer = make([parameter], **settings)
        for step in steps:
            parameter.grad = step.clone()
            optimizer.step()
            after.append(parameter.detach().clone())
        write(name, {"initial": initial, "gradients": steps, "parameters": torch.stack(after), **{
            key: torch.tensor(value, dtype=torch.float64) for key, value in settings.items()}})


def orthogonalized(matrix):
    """Five Newton-Schulz steps, in float64."""
    x = matrix / max(np.linalg.norm(matrix), 1e-7)
    if x.shape[0] > x.shape[1]:
        return orthogonalized(matrix.T).T
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def muon():
    """Steps of Muon in NumPy, and the same in PyTorch, which rounds to bfloat16 inside."""
    r = generator("muon")
    lr, decay, momentum = 0.02, 0.1, 0.95
    tensors = {}
    for name, shape in (("wide", (6, 20)), ("tall", (24, 8)), ("square", (12, 12))):
        initial, gradients = normal(r, *shape), normal(r, 6, *shape)
        gradients[:, 0] = 0
        for adjusts in ("match_rms_adamw", "original"):
            parameter = initial.clone().requires_grad_()
            optimizer = torch.optim.Muon([parameter], lr=lr, weight_decay=decay, momentum=momentum,
                                         adjust_lr_fn=adjusts)
            theta, m, after, of_torch = initial.numpy().copy(), np.zeros(shape), [], []
            rate = lr * (0.2 * max(shape) ** 0.5 if adjusts == "match_rms_adamw" else
                         max(1, shape[0] / shape[1]) ** 0.5)
            for gradient in gradients:
                g = gradient.numpy()
                m = momentum * m + (1 - momentum) * g
                o = orthogonalized((1 - momentum) * g + momentum * m)
                theta = theta - lr * decay * theta - rate * o
                parameter.grad = gradient.clone()
                optimizer.step()
                after.append(torch.from_numpy(theta))
                of_torch.append(parameter.detach().clone())
            tensors.update({f"{name}.initial": initial, f"{name}.gradients": gradients,
                            f"{name}.{adjusts}": torch.stack(after),
                            f"{name}.{adjusts}.torch": torch.stack(of_torch)})
    write("muon", {**tensors, **{key: torch.tensor(value, dtype=torch.float64) for key, value in
                                 (("lr", lr), ("weight_decay", decay), ("momentum", momentum))}})


def schedule_free():
    """Steps of schedule-free AdamW in NumPy with the three sequences of the paper, float64."""
    r = generator("schedule_free")
    y, gradients = normal(r, 10).numpy(), normal(r, 12, 10).numpy()
    initial, beta1, beta2, eps, decay = y, 0.9, 0.95, 1e-8, 0.1
    rates = [0.01 * min(1, (t + 1) / 5) for t in range(len(gradients))]  # a warm-up
    x, z, v, total = y, y, np.zeros(10), 0
    ys, xs = [], []
    for t, (g, lr) in enumerate(zip(gradients, rates), 1):
        v = beta2 * v + (1 - beta2) * g * g
        d = g / (np.sqrt(v / (1 - beta2 ** t)) + eps) + decay * y
        z = z - lr * d
        total += max(rates[:t]) ** 2
        c = max(rates[:t]) ** 2 / total
        x = (1 - c) * x + c * z
        y = (1 - beta1) * z + beta1 * x
        ys.append(torch.from_numpy(y)), xs.append(torch.from_numpy(x))
    write("schedule_free", {
        "initial": torch.from_numpy(initial), "gradients": torch.from_numpy(gradients),
        "rates": torch.tensor(rates, dtype=torch.float64), "y": torch.stack(ys),
        "x": torch.stack(xs), **{key: torch.tensor(value, dtype=torch.float64) for key, value in
                                 (("beta1", beta1), ("beta2", beta2), ("epsilon", eps),
                                  ("weight_decay", decay))}})


VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH = 11, 6, 2, 2, 8


def gpt(p, tokens):
    """Logits (B, T, V) of the pre-norm decoder with parameters p; without head.weight, tied."""
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"])

    def heads(x):  # (B, T, H * D) to (B, H, T, D)
        return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

    x = p["token_embedding.weight"][tokens] + p["position_embedding.weight"]
    for block in (f"blocks.{i}." for i in range(LAYERS)):
        qkv = affine(p, norm(x, block + "attention_norm"), block + "attention.query_key_value")
        mixed = attend(*map(heads, qkv.split(WIDTH, -1)), causal_mask(CONTEXT))
        x = x + affine(p, mixed.transpose(1, 2).reshape(x.shape), block + "attention.output")
        hidden = affine(p, norm(x, block + "feed_forward_norm"), block + "feed_forward.expand")
        x = x + affine(p, F.gelu(hidden), block + "feed_forward.contract")
    return norm(x, "final_norm") @ p.get("head.weight", p["token_embedding.weight"]).T


def transformer():
    r = generator("transformer")
    block = {"attention_norm": (WIDTH,), "attention.query_key_value": (3 * WIDTH, WIDTH),
             "attention.output": (WIDTH, WIDTH), "feed_forward_norm": (WIDTH,),
             "feed_forward.expand": (4 * WIDTH, WIDTH), "feed_forward.contract": (WIDTH, 4 * WIDTH)}
    blocks = {f"blocks.{i}.{name}": shape for i in range(LAYERS) for name, shape in block.items()}
    p = make_parameters(r, {
        "token_embedding": (VOCABULARY, WIDTH), "position_embedding": (CONTEXT, WIDTH), **blocks,
        "final_norm": (WIDTH,), "head": (VOCABULARY, WIDTH)})
    tokens, targets = torch.randint(VOCABULARY, (2, 3, CONTEXT), generator=r)
    targets[1, 4] = -1

    def loss(t):
        return F.cross_entropy(gpt(t, tokens).flatten(0, 1), targets.flatten(), ignore_index=-1)

    tied = {key: value for key, value in p.items() if key != "head.weight"}
    for name, parameters in (("transformer", p), ("transformer_tied", tied)):
        write(name, {**parameters, "tokens": tokens.int(), "targets": targets.int(),
                     "logits": gpt(parameters, tokens), "loss": loss(parameters),
                     **gradients(loss, parameters)})


def sinusoids(length):
    rates = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.stack((torch.sin(angles), torch.cos(angles)), -1).reshape(length, WIDTH)


def encoder_decoder(p, source, target, padding, pre):
    """Logits (B, T, V); one table of embeddings, which the head reads out with."""
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"])

    def heads(x):  # (B, T, H * D) to (B, H, T, D)
        return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

    def residual(x, name, branch):
        return x + branch(norm(x, name)) if pre else norm(x + branch(x), name)

    def project(name, q, k, v, mask):
        mixed = attend(heads(q), heads(k), heads(v), mask)
        return affine(p, mixed.transpose(1, 2).reshape(q.shape), name + ".output")

    def block(x, name, mask, memory=None):
        x = residual(x, name + "attention_norm", lambda y: project(
            name + "attention",
            *affine(p, y, name + "attention.query_key_value").split(WIDTH, -1), mask))
        if memory is not None:
            x = residual(x, name + "cross_attention_norm", lambda y: project(
                name + "cross_attention", affine(p, y, name + "cross_attention.query"),
                *affine(p, memory, name + "cross_attention.key_value").split(WIDTH, -1), hidden))
        return residual(x, name + "feed_forward_norm", lambda y: affine(
            p, F.gelu(affine(p, y, name + "feed_forward.expand")), name + "feed_forward.contract"))

    def embed(tokens):
        return WIDTH**0.5 * p["source_embedding.weight"][tokens] + sinusoids(tokens.shape[1])

    hidden = torch.zeros(padding.shape, dtype=torch.float64).masked_fill(padding, -math.inf)
    hidden = hidden[:, None, None, :]
    memory, x = embed(source), embed(target)
    for i in range(LAYERS):
        memory = block(memory, f"encoder.{i}.", hidden)
    if pre:
        memory = norm(memory, "encoder_norm")
    for i in range(LAYERS):
        x = block(x, f"decoder.{i}.", causal_mask(target.shape[1]), memory)
    if pre:
        x = norm(x, "decoder_norm")
    return x @ p["source_embedding.weight"].T


def translation():
    block = {"attention_norm": (WIDTH,), "attention.query_key_value": (3 * WIDTH, WIDTH),
             "attention.output": (WIDTH, WIDTH), "feed_forward_norm": (WIDTH,),
             "feed_forward.expand": (4 * WIDTH, WIDTH), "feed_forward.contract": (WIDTH, 4 * WIDTH)}
    cross = {"cross_attention_norm": (WIDTH,), "cross_attention.query": (WIDTH, WIDTH),
             "cross_attention.key_value": (2 * WIDTH, WIDTH),
             "cross_attention.output": (WIDTH, WIDTH)}
    for name, pre in (("encoder_decoder_post", False), ("encoder_decoder_pre", True)):
        r = generator(name)
        shapes = {"source_embedding": (VOCABULARY, WIDTH)}
        for i in range(LAYERS):
            shapes |= {f"encoder.{i}.{key}": shape for key, shape in block.items()}
            shapes |= {f"decoder.{i}.{key}": shape for key, shape in (block | cross).items()}
        if pre:
            shapes |= {"encoder_norm": (WIDTH,), "decoder_norm": (WIDTH,)}
        p = make_parameters(r, shapes)
        source = torch.randint(VOCABULARY, (2, 5), generator=r)
        target, wanted = torch.randint(VOCABULARY, (2, 2, 4), generator=r)
        wanted[1, 3] = -1
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

        def logits(t):
            return encoder_decoder(t, source, target, padding, pre)

        def loss(t):
            return F.cross_entropy(logits(t).flatten(0, 1), wanted.flatten(), ignore_index=-1,
                                   label_smoothing=0.1)

        write(name, {**p, "source": source.int(), "padding": padding.int(),
                     "target": target.int(), "wanted": wanted.int(), "logits": logits(p),
                     "loss": loss(p), **gradients(loss, p)})


def vae():
    r = generator("vae")
    p = make_parameters(r, {"encoder.0": (10, 12), "mean": (3, 10), "log_sigma": (3, 10),
                            "decoder.0": (10, 3), "decoder.1": (12, 10)})
    x, eps = torch.rand(4, 12, generator=r).double(), normal(r, 4, 3)

    def run(t):
        hidden = torch.relu(affine(t, x, "encoder.0"))
        mean, log_sigma = affine(t, hidden, "mean"), affine(t, hidden, "log_sigma")
        z = mean + torch.exp(log_sigma) * eps
        logits = affine(t, torch.relu(affine(t, z, "decoder.0")), "decoder.1")
        recon = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean()
        kl = 0.5 * (mean**2 + torch.exp(2 * log_sigma) - 1 - 2 * log_sigma).sum(-1).mean()
        return {"mean": mean, "log_sigma": log_sigma, "z": z, "logits": logits,
                "recon": recon, "kl": kl, "loss": recon + kl}

    write("vae", {**p, "x": x, "eps": eps, **run(p), **gradients(lambda t: run(t)["loss"], p)})


def classifier():
    """A convolutional classifier of color images, with residual blocks, group norms and pooling."""
    r = generator("convolutional_classifier")
    convolution = {"convolutions.0": (4, 3, 3, 3), "norms.0": (4,)}
    block = {"first": (4, 4, 3, 3), "second": (4, 4, 3, 3), "first_norm": (4,), "second_norm": (4,)}
    wider = {"first": (6, 4, 3, 3), "second": (6, 6, 3, 3), "first_norm": (6,), "second_norm": (6,),
             "shortcut": (6, 4, 1, 1)}
    shapes = {**convolution, **{f"blocks.0.{name}": shape for name, shape in block.items()},
              **{f"blocks.1.{name}": shape for name, shape in wider.items()},
              "head.0": (5, 6), "head.1": (3, 5)}
    p = make_parameters(r, shapes)
    x, targets = normal(r, 4, 3, 6, 8), torch.tensor([0, 2, 1, 2])

    def convolve(t, x, name):
        weight = t[name + ".weight"]
        return F.conv2d(x, weight, t[name + ".bias"], padding=weight.shape[-1] // 2)

    def norm(t, x, name):
        return F.group_norm(x, 2, t[name + ".weight"], t[name + ".bias"])

    def residual(t, x, name):
        y = F.gelu(norm(t, convolve(t, x, name + ".first"), name + ".first_norm"))
        y = norm(t, convolve(t, y, name + ".second"), name + ".second_norm")
        shortcut = name + ".shortcut"
        return F.gelu(y + (convolve(t, x, shortcut) if shortcut + ".weight" in t else x))

    def run(t):
        y = F.gelu(norm(t, convolve(t, x, "convolutions.0"), "norms.0"))
        y = F.max_pool2d(residual(t, y, "blocks.0"), 2)
        y = residual(t, y, "blocks.1").mean((2, 3))
        logits = affine(t, F.gelu(affine(t, y, "head.0")), "head.1")
        return {"logits": logits, "loss": F.cross_entropy(logits, targets)}

    write("convolutional_classifier",
          {**p, "x": x.flatten(1), "targets": targets.int(), **run(p),
           **gradients(lambda t: run(t)["loss"], p)})


if __name__ == "__main__":
    torch.set_num_threads(2)
    for case in (layers, convolutions, cross_entropy, attention, multi_head, recurrent_layers,
                 optimizers, muon, schedule_free, transformer, translation, vae, classifier):
        case()
