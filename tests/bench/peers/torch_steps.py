"""The workloads of `tapestry-bench` in PyTorch, one a process: prints one JSON line.

    python3 -m venv ~/peers && ~/peers/bin/pip install torch jax
    ~/peers/bin/python torch_steps.py gpt-nano --mode eager

(Linux's default package of torch brings CUDA's libraries, which take memory even where there is
no GPU; that of --index-url https://download.pytorch.org/whl/cpu does not.)

Modes: eager; compile (torch.compile, which needs a C++ compiler and Python's headers); bf16 and
bf16-compile, the same two under autocast to bfloat16, of the transformers' training steps only.

Measured are whole steps on fixed random data (loss, gradients, clipping, optimizer), one attention
layer forward and backward, or 256 tokens of generation: the median, fastest and slowest of at
least 10 (3 of generation) in at least 1 s; the peak of resident memory in the steps, what the
process holds once torch is imported included (library_bytes); and the time from the start of the
process to the end of the first step.

Where there is a choice it is PyTorch's fastest: scaled_dot_product_attention, which on a CPU is a
flash kernel; fused AdamW; gradients freed and not zeroed; generation in inference mode, which
keeps the tokens in tensors, so that nothing waits for a number; channels last; sparse features
beside the sparse graph, both as coordinates: on one thread of a Xeon a step of gcn-cora takes
4.4 ms, as compressed rows 6.7, and with dropout of a dense matrix of features, as it is often
written, 69.
"""

import contextlib
import functools
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

from measure import (
    GRAPH_DECAY,
    LEARNING_RATE,
    WEIGHT_DECAY,
    WORKLOADS,
    Attention,
    EncoderDecoder,
    Forecaster,
    Generation,
    Graph,
    LeNet,
    Recurrent,
    Table,
    Transformer,
    Vae,
    measure,
    parse_arguments,
)


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.heads = heads

    def split(self, x):
        """Queries, keys and values, (B, heads, T, width of a head) each."""
        B, T, C = x.shape
        packed = self.query_key_value(x).view(B, T, 3, self.heads, C // self.heads)
        return packed.permute(2, 0, 3, 1, 4).unbind(0)

    def join(self, attended):
        return self.output(attended.transpose(1, 2).flatten(2))

    def forward(self, x, causal=True, seen=None):
        attended = F.scaled_dot_product_attention(*self.split(x), attn_mask=seen, is_causal=causal)
        return self.join(attended)

    def extend(self, x, cache, position, seen):
        query, key, value = self.split(x)
        keys, values = cache
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, value)
        return self.join(F.scaled_dot_product_attention(query, keys, values, attn_mask=seen))


class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x, source, seen):
        B, T, C = x.shape
        query = self.query(x).view(B, T, self.heads, C // self.heads).transpose(1, 2)
        packed = self.key_value(source).view(B, -1, 2, self.heads, C // self.heads)
        key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self.output(attended.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, hidden=None, dropout=0, tanh_gelu=False, crosses=False):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        if crosses:
            self.cross_norm = nn.LayerNorm(width)
            self.cross_attention = CrossAttention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, hidden or 4 * width)
        self.contract = nn.Linear(hidden or 4 * width, width)
        self.approximate = "tanh" if tanh_gelu else "none"
        self.dropout = dropout

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def feed(self, x):
        hidden = F.gelu(self.expand(self.feed_forward_norm(x)), approximate=self.approximate)
        return x + self.drop(self.contract(hidden))

    def forward(self, x, causal=True, seen=None, source=None, source_seen=None):
        x = x + self.drop(self.attention(self.attention_norm(x), causal, seen))
        if source is not None:
            x = x + self.drop(self.cross_attention(self.cross_norm(x), source, source_seen))
        return self.feed(x)

    def extend(self, x, cache, position, seen):
        return self.feed(x + self.attention.extend(self.attention_norm(x), cache, position, seen))


class Gpt(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.token_embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.position_embedding = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(
            Block(shape.width, shape.heads, None, shape.dropout, shape.tanh_gelu)
            for _ in range(shape.layers)
        )
        self.dropout = nn.Dropout(shape.dropout) if shape.dropout else nn.Identity()
        self.final_norm = nn.LayerNorm(shape.width)
        self.head = None if shape.tied else nn.Linear(shape.width, shape.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def read_out(self, x):
        head = self.head or self.token_embedding
        return F.linear(self.final_norm(x), head.weight)

    def forward(self, tokens, targets):
        """The loss."""
        x = self.token_embedding(tokens) + self.position_embedding.weight[: tokens.shape[1]]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.read_out(x).flatten(0, 1), targets.flatten())

    def extend(self, token, caches, position, seen):
        """The likeliest token after `token` (1, 1), which stands at `position` (1). A cache is
        the keys and values of the tokens up to it, or of more and `seen` says which to look at."""
        x = self.token_embedding(token) + self.position_embedding(position)
        for block, cache in zip(self.blocks, caches):
            x = block.extend(x, cache, position, seen)
        return self.read_out(x).argmax(-1)


class Translator(nn.Module):
    def __init__(self, shape):
        super().__init__()
        C = shape.width
        self.embedding = nn.Embedding(shape.vocabulary, C)
        nn.init.normal_(self.embedding.weight, std=C**-0.5)

        def blocks(crosses):
            block = functools.partial(Block, C, shape.heads, None, shape.dropout, crosses=crosses)
            return nn.ModuleList(block() for _ in range(shape.layers))

        self.encoder, self.decoder = blocks(False), blocks(True)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(C), nn.LayerNorm(C)
        self.dropout = nn.Dropout(shape.dropout)
        longest = max(shape.source, shape.target)
        angles = torch.arange(longest)[:, None] / 10000 ** (torch.arange(0, C, 2) / C)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], 2).flatten(1))

    def embed(self, tokens):
        scaled = math.sqrt(self.embedding.embedding_dim) * self.embedding(tokens)
        return self.dropout(scaled + self.positions[: tokens.shape[1]])

    def forward(self, source, seen, target, wanted):
        """The loss. `seen` is true for the tokens of the source that are not padding."""
        encoded = self.embed(source)
        for block in self.encoder:
            encoded = block(encoded, causal=False, seen=seen)
        encoded, x = self.encoder_norm(encoded), self.embed(target)
        for block in self.decoder:
            x = block(x, source=encoded, source_seen=seen)
        logits = F.linear(self.decoder_norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())


class PatchTransformer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        patches = (shape.context - shape.patch) // shape.stride + 1
        self.projection = nn.Linear(shape.patch, shape.width)
        self.positions = nn.Parameter(0.02 * torch.randn(patches, shape.width))
        self.blocks = nn.ModuleList(
            Block(shape.width, shape.heads, shape.hidden, shape.dropout)
            for _ in range(shape.layers)
        )
        self.final_norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.head = nn.Linear(patches * shape.width, shape.horizon)

    def forward(self, x, y):
        """The loss of forecasts of x (B, T, M)."""
        windows = x.transpose(1, 2)  # (B, M, T)
        mean = windows.mean(2, keepdim=True)
        scale = (windows.var(2, keepdim=True, unbiased=False) + 1e-5).sqrt()
        patches = ((windows - mean) / scale).unfold(2, self.shape.patch, self.shape.stride)
        z = self.dropout(self.projection(patches.flatten(0, 1)) + self.positions)
        for block in self.blocks:
            z = block(z, causal=False)
        z = self.head(self.dropout(self.final_norm(z).flatten(1)))
        forecast = z.view(len(x), self.shape.series, -1) * scale + mean
        return F.mse_loss(forecast.transpose(1, 2), y)


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


def halving(channels, image, activation):
    """Convolutions 3 x 3 of stride 2, each with its activation, from a row of pixels to one of
    features; the way back, with none at the end; and the number of features. Nothing of no
    channels."""
    if not channels:
        return nn.Identity(), nn.Identity(), image * image
    down, up, planes, side = [nn.Unflatten(1, (1, image, image))], [], [1, *channels], image
    for narrow, wide in zip(planes, planes[1:]):
        down += [nn.Conv2d(narrow, wide, 3, stride=2, padding=1), activation()]
        wider = nn.ConvTranspose2d(wide, narrow, 3, stride=2, padding=1, output_padding=1)
        up = [activation(), wider, *up]
        side //= 2
    shape = (planes[-1], side, side)
    down, up = [*down, nn.Flatten()], [activation(), nn.Unflatten(1, shape), *up[1:], nn.Flatten()]
    return nn.Sequential(*down), nn.Sequential(*up), planes[-1] * side * side


class Autoencoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        activation = ACTIVATIONS[shape.activation]
        self.activation = activation()
        image = math.isqrt(shape.inputs)
        self.down, self.up, outer = halving(shape.channels, image, activation)
        self.encoder = nn.Linear(outer, shape.hidden)
        self.mean = nn.Linear(shape.hidden, shape.latent)
        self.log_sigma = nn.Linear(shape.hidden, shape.latent)
        self.decoder = nn.Sequential(
            nn.Linear(shape.latent, shape.hidden), activation(), nn.Linear(shape.hidden, outer)
        )

    def forward(self, images):
        """The negative ELBO of an image."""
        hidden = self.activation(self.encoder(self.down(images)))
        mean, log_sigma = self.mean(hidden), self.log_sigma(hidden)
        latent = mean + log_sigma.exp() * torch.randn_like(mean)
        logits = self.up(self.decoder(latent))
        recon = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        kl = (0.5 * (mean * mean + torch.expm1(2 * log_sigma)) - log_sigma).sum()
        return (recon + kl) / len(images)


def coordinates(rows, columns, values, shape):
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, shape).coalesce()


def normalized(pairs, nodes):
    """The edges both ways and from each node to itself, by the roots of both ends' degrees."""
    itself = torch.arange(nodes)
    rows, columns = (torch.cat([pairs[i], pairs[1 - i], itself]) for i in (0, 1))
    degrees = torch.bincount(rows, minlength=nodes).float()
    weights = (degrees[rows] * degrees[columns]).rsqrt()
    return coordinates(rows, columns, weights, (nodes, nodes))


class GraphNetwork(nn.Module):
    """Of sparse features and a sparse graph, both (rows, columns) of PyTorch's COO."""

    def __init__(self, shape):
        super().__init__()
        self.first = nn.Parameter(torch.empty(shape.features, shape.hidden))
        self.second = nn.Parameter(torch.empty(shape.hidden, shape.classes))
        self.first_bias = nn.Parameter(torch.zeros(shape.hidden))
        self.second_bias = nn.Parameter(torch.zeros(shape.classes))
        for weight in (self.first, self.second):
            nn.init.xavier_uniform_(weight)

    def forward(self, graph, features):
        values = F.dropout(features.values(), 0.5, self.training)
        words = torch.sparse_coo_tensor(
            features.indices(), values, features.shape, is_coalesced=True
        )
        hidden = F.relu(graph @ (words @ self.first) + self.first_bias)
        return graph @ (F.dropout(hidden, 0.5, self.training) @ self.second) + self.second_bias

    def optimizer(self):
        others = [self.second, self.first_bias, self.second_bias]
        groups = [{"params": [self.first], "weight_decay": GRAPH_DECAY}, {"params": others}]
        return torch.optim.Adam(groups, lr=LEARNING_RATE[Graph], fused=True)


def compiled(function, mode):
    """As the mode has it. The model is compiled, forward and with it backward, and the rest of
    the step is not: compiling all of it measured the same within the noise, and compiling the
    optimizer's foreach form fails on a CPU (PyTorch 2.15)."""
    return torch.compile(function) if mode.endswith("compile") else function


def autocast(mode):
    if mode.startswith("bf16"):
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


# The optimizers are fused: 0.6 ms a step of gpt-nano where foreach takes 2.5, 7 ms of gpt-char
# where it takes 40 (PyTorch 2.15, 2 cores of Zen 3).


def transformer_step(shape, mode):
    model = Gpt(shape)
    size = (shape.batch, shape.context)
    tokens, targets = torch.randint(shape.vocabulary, size), torch.randint(shape.vocabulary, size)
    parameters = list(model.parameters())
    linear = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    decayed = set(linear)
    optimizer = torch.optim.AdamW(
        [
            {"params": linear, "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in parameters if p not in decayed], "weight_decay": 0.0},
        ],
        lr=LEARNING_RATE[Transformer],
        fused=True,
    )
    forward = compiled(model, mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(mode):
            loss = forward(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()

    return step


def translation_step(shape, mode):
    model = Translator(shape)
    source, target, wanted = (
        torch.randint(shape.vocabulary, (shape.batch, length))
        for length in (shape.source, shape.target, shape.target)
    )
    seen = (torch.arange(shape.source) < shape.source - shape.padding).expand(
        shape.batch, 1, 1, shape.source
    )
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE[EncoderDecoder], fused=True)
    forward = compiled(model, mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(source, seen, target, wanted).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()

    return step


def adam_step(model, inputs, shape, mode):
    """Steps of a model whose output is the loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE[type(shape)], fused=True)
    forward = compiled(model, mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(*inputs).backward()
        optimizer.step()

    return step


def forecast_step(shape, mode):
    size = (shape.batch, shape.context, shape.series)
    return adam_step(PatchTransformer(shape), (torch.randn(size), torch.randn(size)), shape, mode)


class TableNetwork(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x, y):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return F.mse_loss(self.layers[-1](x), y)


def table_step(shape, mode):
    inputs = torch.randn(shape.rows, shape.widths[0]), torch.randn(shape.rows, shape.widths[-1])
    return adam_step(TableNetwork(shape.widths), inputs, shape, mode)


def vae_step(shape, mode):
    model = Autoencoder(shape).to(memory_format=torch.channels_last)
    return adam_step(model, (torch.rand(shape.batch, shape.inputs),), shape, mode)


def lenet(classes):
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    )  # fmt: skip


def lenet_step(shape, mode):
    model = lenet(shape.classes)
    images = torch.rand(shape.batch, 1, 28, 28)
    targets = torch.randint(shape.classes, (shape.batch,))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE[LeNet], fused=True)
    forward = compiled(model, mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(forward(images), targets).backward()
        optimizer.step()

    return step


def different_pairs(count, draw):
    pairs = set()
    while len(pairs) < count:
        pairs.add(draw())
    return torch.tensor(sorted(pairs)).t()


def draw_edge(nodes):
    node = random.randrange(1, nodes)
    return node, random.randrange(node)


def graph_step(shape, mode):
    def draw_word():
        return random.randrange(shape.nodes), random.randrange(shape.features)

    edges = different_pairs(shape.edges, lambda: draw_edge(shape.nodes))
    graph = normalized(edges, shape.nodes)
    words = different_pairs(shape.words, draw_word)
    values = torch.full((shape.words,), shape.nodes / shape.words)
    features = coordinates(*words, values, (shape.nodes, shape.features))
    targets = torch.arange(shape.labeled) % shape.classes
    model = GraphNetwork(shape)
    optimizer = model.optimizer()
    forward = compiled(model, mode)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(forward(graph, features)[: shape.labeled], targets).backward()
        optimizer.step()

    return step


def attention_step(shape, mode):
    layer = SelfAttention(shape.width, shape.heads)
    x = torch.randn(1, shape.length, shape.width, requires_grad=True)
    wanted = [x, *layer.parameters()]
    forward = compiled(layer, mode)
    return lambda: torch.autograd.grad(forward(x).sum(), wanted)


def recurrent_step(shape, mode):
    stack = getattr(nn, shape.kind)(shape.width, shape.width, shape.layers, batch_first=True)
    x = torch.randn(shape.batch, shape.length, shape.width, requires_grad=True)
    wanted = [x, *stack.parameters()]
    forward = compiled(stack, mode)
    return lambda: torch.autograd.grad(forward(x)[0].sum(), wanted)


def generation(shape, mode):
    model = Gpt(shape.model)
    size = (1, shape.model.heads, shape.model.context, shape.model.width // shape.model.heads)
    positions = torch.arange(shape.model.context)
    extend = compiled(model.extend, mode)

    @torch.inference_mode()
    def step():
        caches = [torch.zeros(2, *size) for _ in model.blocks]
        token = torch.ones(1, 1, dtype=torch.long)
        text = []
        for i in range(shape.tokens):
            if mode == "compile":  # the same shapes each time, or each would be compiled
                token = extend(token, caches, positions[i : i + 1], positions[None] <= i)
            else:
                seen = [cache[..., : i + 1, :] for cache in caches]
                token = extend(token, seen, positions[i : i + 1], None)
            text.append(token)
        return torch.cat(text)

    return step


STEPS = {
    Transformer: transformer_step,
    EncoderDecoder: translation_step,
    Forecaster: forecast_step,
    Table: table_step,
    Vae: vae_step,
    LeNet: lenet_step,
    Graph: graph_step,
    Recurrent: recurrent_step,
    Attention: attention_step,
    Generation: generation,
}


def main():
    arguments = parse_arguments(__doc__, ["eager", "compile", "bf16", "bf16-compile"])
    shape = WORKLOADS[arguments.workload]
    if arguments.mode.startswith("bf16") and not isinstance(shape, Transformer):
        sys.exit(f"{arguments.workload}: bf16 is of the transformers' training steps only")
    torch.manual_seed(1)
    random.seed(1)
    torch.set_num_threads(arguments.threads)
    make_step = functools.partial(STEPS[type(shape)], shape, arguments.mode)
    measure(arguments, f"torch {torch.__version__}", make_step)


if __name__ == "__main__":
    main()
