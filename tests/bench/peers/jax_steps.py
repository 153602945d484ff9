"""The workloads of `tapestry-bench` in JAX, one a process: prints one JSON line.

    python3 -m venv ~/peers && ~/peers/bin/pip install torch jax
    ~/peers/bin/python jax_steps.py gpt-nano

Measured is what torch_steps.py measures; its docstring says what. There is no gcn-cora.

Where there is a choice it is JAX's fastest: the whole step is one jitted function, to which the
parameters and the optimizer's state are donated; the layers are unrolled, not scanned; all 256
tokens of generation are one jitted scan. Attention is a plain masked softmax: in place of it
jax.nn.dot_product_attention took 284 ms for attention-1024, where it takes 243, and 82 ms for
gpt-nano, where it takes 73 (JAX 0.10.2, 2 cores of Zen 3).
"""

import functools
import math
import os

import jax
import jax.numpy as jnp

from measure import (
    LEARNING_RATE,
    WEIGHT_DECAY,
    WORKLOADS,
    Attention,
    Generation,
    Transformer,
    Vae,
    measure,
    one_cpu_per_core,
    parse_arguments,
)


def normal(key, shape, deviation=0.02):
    return deviation * jax.random.normal(key, shape)


def new_linear(key, columns_in, columns_out):
    return {"weight": normal(key, (columns_in, columns_out)), "bias": jnp.zeros(columns_out)}


def new_norm(width):
    return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}


def new_attention(key, width):
    keys = jax.random.split(key)
    return {
        "query_key_value": new_linear(keys[0], width, 3 * width),
        "output": new_linear(keys[1], width, width),
    }


def new_block(key, width):
    keys = jax.random.split(key, 3)
    return {
        "attention_norm": new_norm(width),
        "attention": new_attention(keys[0], width),
        "feed_forward_norm": new_norm(width),
        "expand": new_linear(keys[1], width, 4 * width),
        "contract": new_linear(keys[2], 4 * width, width),
    }


def new_gpt(key, shape):
    keys = jax.random.split(key, 3 + shape.layers)
    gpt = {
        "token_embedding": normal(keys[0], (shape.vocabulary, shape.width)),
        "position_embedding": normal(keys[1], (shape.context, shape.width)),
        "blocks": [new_block(block_key, shape.width) for block_key in keys[3:]],
        "final_norm": new_norm(shape.width),
    }
    if not shape.tied:
        gpt["head"] = normal(keys[2], (shape.vocabulary, shape.width))
    return gpt


def new_convolution(key, planes_in, planes_out):
    return {"weight": normal(key, (3, 3, planes_in, planes_out)), "bias": jnp.zeros(planes_out)}


def new_vae(key, shape):
    keys = jax.random.split(key, 5 + 2 * len(shape.channels))
    planes = [1, *shape.channels]
    side = math.isqrt(shape.inputs) >> len(shape.channels)
    outer = planes[-1] * side * side if shape.channels else shape.inputs
    pairs = list(zip(planes, planes[1:]))
    return {
        "down": [new_convolution(k, *pair) for k, pair in zip(keys[5:], pairs)],
        "up": [new_convolution(k, *pair[::-1]) for k, pair in zip(keys[::-1], pairs[::-1])],
        "encoder": new_linear(keys[0], outer, shape.hidden),
        "mean": new_linear(keys[1], shape.hidden, shape.latent),
        "log_sigma": new_linear(keys[2], shape.hidden, shape.latent),
        "expand": new_linear(keys[3], shape.latent, shape.hidden),
        "decoder": new_linear(keys[4], shape.hidden, outer),
    }


def linear(layer, x):
    return x @ layer["weight"] + layer["bias"]


def norm(layer, x):
    centered = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centered).mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-5) * layer["scale"] + layer["shift"]


def split(layer, x, heads):
    """Queries, keys and values, (B, heads, T, width of a head) each."""
    B, T, C = x.shape
    packed = linear(layer["query_key_value"], x).reshape(B, T, 3, heads, C // heads)
    return packed.transpose(2, 0, 3, 1, 4)


def attend(query, keys, values, seen):
    scores = jnp.einsum("bhtd,bhsd->bhts", query / query.shape[-1] ** 0.5, keys)
    shares = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
    return jnp.einsum("bhts,bhsd->bhtd", shares, values)


def join(layer, attended):
    B, heads, T, width = attended.shape
    return linear(layer["output"], attended.transpose(0, 2, 1, 3).reshape(B, T, heads * width))


def self_attention(layer, x, heads):
    seen = jnp.tri(x.shape[1], dtype=bool)
    return join(layer, attend(*split(layer, x, heads), seen))


def feed(block, x):
    hidden = linear(block["expand"], norm(block["feed_forward_norm"], x))
    return x + linear(block["contract"], jax.nn.gelu(hidden, approximate=False))


def read_out(gpt, x):
    return norm(gpt["final_norm"], x) @ gpt.get("head", gpt["token_embedding"]).T


def gpt_loss(gpt, tokens, targets, heads):
    x = gpt["token_embedding"][tokens] + gpt["position_embedding"][: tokens.shape[1]]
    for block in gpt["blocks"]:
        x = x + self_attention(block["attention"], norm(block["attention_norm"], x), heads)
        x = feed(block, x)
    logits = read_out(gpt, x)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def extend(gpt, token, caches, position, heads):
    """The likeliest token after `token` (1, 1), which stands at `position`; the caches with it."""
    x = gpt["token_embedding"][token] + gpt["position_embedding"][position]
    seen = jnp.arange(caches[0][0].shape[2]) <= position
    extended = []
    for block, (keys, values) in zip(gpt["blocks"], caches):
        layer = block["attention"]
        query, key, value = split(layer, norm(block["attention_norm"], x), heads)
        keys = jax.lax.dynamic_update_slice_in_dim(keys, key, position, axis=2)
        values = jax.lax.dynamic_update_slice_in_dim(values, value, position, axis=2)
        extended.append((keys, values))
        x = feed(block, x + join(layer, attend(query, keys, values, seen)))
    return read_out(gpt, x).argmax(-1), extended


PLANES_LAST = ("NHWC", "HWIO", "NHWC")


ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
}


def halve(layers, images, activate):
    """(B, pixels) to features, by convolutions 3 x 3 of stride 2, each with its activation."""
    if not layers:
        return images
    side = math.isqrt(images.shape[1])
    x = images.reshape(-1, side, side, 1)
    around = [(1, 1), (1, 1)]
    for layer in layers:
        x = jax.lax.conv_general_dilated(
            x, layer["weight"], (2, 2), around, dimension_numbers=PLANES_LAST
        )
        x = activate(x + layer["bias"])
    return x.reshape(len(x), -1)


def double(layers, features, activate):
    """The way back; no activation at the end. The rows and columns of zeros between the features,
    and one more before and two after, make each side twice as long."""
    if not layers:
        return features
    planes = layers[0]["weight"].shape[2]
    side = math.isqrt(features.shape[1] // planes)
    x = features.reshape(-1, side, side, planes)
    around = [(1, 2), (1, 2)]
    for layer in layers:
        x = jax.lax.conv_general_dilated(
            activate(x), layer["weight"], (1, 1), around, (2, 2), dimension_numbers=PLANES_LAST
        )
        x = x + layer["bias"]
    return x.reshape(len(x), -1)


def vae_loss(vae, images, key, activate):
    """The negative ELBO of an image."""
    hidden = activate(linear(vae["encoder"], halve(vae["down"], images, activate)))
    mean, log_sigma = linear(vae["mean"], hidden), linear(vae["log_sigma"], hidden)
    latent = mean + jnp.exp(log_sigma) * jax.random.normal(key, mean.shape)
    features = linear(vae["decoder"], activate(linear(vae["expand"], latent)))
    logits = double(vae["up"], features, activate)
    recon = (jax.nn.softplus(logits) - images * logits).sum()
    kl = (0.5 * (mean * mean + jnp.expm1(2 * log_sigma)) - log_sigma).sum()
    return (recon + kl) / len(images)


def new_adam(parameters):
    first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
    return {"first": first, "second": second, "steps": jnp.zeros((), jnp.int32)}


def adam(parameters, gradients, state, rate, decay=0.0, scale=1.0):
    """One step of AdamW with the gradients times `scale`; `decay` is of Linear weights only."""
    steps = state["steps"] + 1
    correction1, correction2 = 1 - 0.9**steps, 1 - 0.999**steps

    def update(path, theta, gradient, m, v):
        gradient = gradient * scale
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient * gradient
        decayed = path[-1] == jax.tree_util.DictKey("weight")
        keep = 1 - rate * decay if decayed else 1.0
        change = rate * (m / correction1) / (jnp.sqrt(v / correction2) + 1e-8)
        return theta * keep - change, m, v

    updated = jax.tree_util.tree_map_with_path(
        update, parameters, gradients, state["first"], state["second"]
    )
    parts = jax.tree.transpose(
        jax.tree.structure(parameters), jax.tree.structure((0, 0, 0)), updated
    )
    return parts[0], {"first": parts[1], "second": parts[2], "steps": steps}


def training(parameters, update, *data):
    """A step is `update(parameters, state, *data)`, jitted, of what the step before returned:
    the new parameters, the new state and the loss."""
    update = jax.jit(update, donate_argnums=(0, 1))
    state = new_adam(parameters)

    def step():
        nonlocal parameters, state
        parameters, state, _ = jax.block_until_ready(update(parameters, state, *data))

    return step


def transformer_step(shape, key):
    keys = jax.random.split(key, 3)
    size = (shape.batch, shape.context)
    tokens, targets = (jax.random.randint(k, size, 0, shape.vocabulary) for k in keys[:2])

    def update(gpt, state, tokens, targets):
        loss, gradients = jax.value_and_grad(gpt_loss)(gpt, tokens, targets, shape.heads)
        squares = sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradients))
        scale = jnp.minimum(1, jax.lax.rsqrt(squares))
        rate = LEARNING_RATE[Transformer]
        return *adam(gpt, gradients, state, rate, WEIGHT_DECAY, scale), loss

    return training(new_gpt(keys[2], shape), update, tokens, targets)


def vae_step(shape, key):
    activate = ACTIVATIONS[shape.activation]
    keys = jax.random.split(key)
    images = jax.random.uniform(keys[0], (shape.batch, shape.inputs))

    def update(vae, state, images, key):
        noise = jax.random.fold_in(key, state["steps"])
        loss, gradients = jax.value_and_grad(vae_loss)(vae, images, noise, activate)
        return *adam(vae, gradients, state, LEARNING_RATE[Vae]), loss

    return training(new_vae(keys[1], shape), update, images, key)


def attention_step(shape, key):
    keys = jax.random.split(key)
    layer = new_attention(keys[0], shape.width)
    x = jax.random.normal(keys[1], (1, shape.length, shape.width))

    def total(layer, x):
        return self_attention(layer, x, shape.heads).sum()

    total_and_gradients = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    return lambda: jax.block_until_ready(total_and_gradients(layer, x))


def generation(shape, key):
    model = shape.model
    gpt = new_gpt(key, model)
    size = (1, model.heads, model.context, model.width // model.heads)

    @jax.jit
    def generate(gpt):
        def one(carry, position):
            token, caches = extend(gpt, *carry, position, model.heads)
            return (token, caches), token

        caches = [(jnp.zeros(size), jnp.zeros(size)) for _ in gpt["blocks"]]
        start = (jnp.ones((1, 1), jnp.int32), caches)
        return jax.lax.scan(one, start, jnp.arange(shape.tokens))[1]

    return lambda: generate(gpt).block_until_ready()


STEPS = {
    Transformer: transformer_step,
    Vae: vae_step,
    Attention: attention_step,
    Generation: generation,
}


def keep_to_cpus(threads):
    """JAX has as many threads as there are CPUs that it may use: one of each core, then more."""
    cores = one_cpu_per_core()
    others = sorted(os.sched_getaffinity(0) - set(cores))
    os.sched_setaffinity(0, (cores + others)[:threads])


def main():
    arguments = parse_arguments(__doc__, ["jit"])
    keep_to_cpus(arguments.threads)
    shape = WORKLOADS[arguments.workload]
    make_step = functools.partial(STEPS[type(shape)], shape, jax.random.key(1))
    measure(arguments, f"jax {jax.__version__}", make_step)


if __name__ == "__main__":
    main()
