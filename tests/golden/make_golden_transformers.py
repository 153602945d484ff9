#!/usr/bin/env python3
"""Makes the golden values of Llama's and Qwen's parts, and of whole small models of theirs.

    python3 tests/golden/make_golden_transformers.py

writes *.safetensors beside this script, as make_golden.py does and with its help. It needs what
Debian 12 does not have; the committed files were made with torch 2.15.0 and transformers 5.23.0.

The models are transformers' own, in float64, under Tapestry's names. transformers computes RMS
norms and the angles of rotary positions in float32 whatever the model's type; here both are
float64's, and the logits are held to those of the untouched model in float32.
"""

import torch
import torch.nn.functional as F
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from make_golden import causal_mask, generator, gradients, normal, write, write_operation

SCALED = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


def rates(width, rope):
    """Each pair's angle a step, in float64."""
    rate = rope["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if rope["rope_type"] == "default":
        return rate
    waves = rope["original_max_position_embeddings"] * rate / (2 * torch.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = ((waves - low) / (high - low)).clamp(0, 1)
    return share * rate + (1 - share) * rate / rope["factor"]


def angles(config, length):
    """cos and sin (1, T, D) of a model's config, once transformers' own rates are near enough."""
    rope = config.rope_parameters
    rate = rates(config.head_dim, rope)
    if rope["rope_type"] == "default":
        theirs = LlamaRotaryEmbedding(config).inv_freq
    else:
        theirs, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu")
        assert factor == 1
    torch.testing.assert_close(theirs.double(), rate, rtol=1e-6, atol=0)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    angle = torch.cat((angle, angle), -1)[None]
    return angle.cos(), angle.sin()


def operations():
    r = generator("llama operations")
    x = normal(r, 2, 3, 8, scale=2, shift=0.5)
    write_operation("rms_norm", lambda t: F.rms_norm(t["x"], (8,), t["weight"], 1e-5),
                    {"x": x, "weight": normal(r, 8, scale=0.5, shift=1)})
    write_operation("silu", lambda t: F.silu(t["x"]), {"x": torch.linspace(-6, 6, 64).double()})

    def swiglu(t):
        gate, up = t["x"].chunk(2, -1)
        return F.silu(gate) * up
    write_operation("swiglu", swiglu, {"x": normal(r, 2, 3, 10, scale=2)})

    def grouped(t):
        return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], attn_mask=causal_mask(5),
                                              enable_gqa=True)
    write_operation("attention_grouped", grouped, {
        "q": normal(r, 2, 6, 5, 4), "k": normal(r, 2, 2, 5, 4), "v": normal(r, 2, 2, 5, 4)})

    config = LlamaConfig(hidden_size=16, num_attention_heads=2, rope_parameters=dict(SCALED))
    cos, sin = angles(config, 7)

    def turned(t):  # (B, T, 2 D) by heads of D = 8
        heads = t["x"].reshape(2, 7, 2, 8).transpose(1, 2)
        return apply_rotary_pos_emb(heads, heads, cos, sin)[0].transpose(1, 2).reshape(2, 7, 16)
    write_operation("rotary_halves", turned, {"x": normal(r, 2, 7, 16)})


def our_name(name):
    """What Tapestry calls a tensor, and where among those that it packs side by side it stands."""
    for theirs, ours, place in (
            ("model.embed_tokens", "token_embedding", 0), ("model.norm", "final_norm", 0),
            ("lm_head", "head", 0), ("model.layers", "blocks", 0),
            ("input_layernorm", "attention_norm", 0),
            ("post_attention_layernorm", "feed_forward_norm", 0),
            ("self_attn.q_proj", "attention.query_key_value", 0),
            ("self_attn.k_proj", "attention.query_key_value", 1),
            ("self_attn.v_proj", "attention.query_key_value", 2),
            ("self_attn.o_proj", "attention.output", 0),
            ("self_attn.q_norm", "attention.query_norm", 0),
            ("self_attn.k_norm", "attention.key_norm", 0),
            ("mlp.gate_proj", "feed_forward.expand", 0), ("mlp.up_proj", "feed_forward.expand", 1),
            ("mlp.down_proj", "feed_forward.contract", 0)):
        if theirs in name:
            name, part = name.replace(theirs, ours), place
    return name, part


def packed(tensors):
    parts = {}
    for theirs, tensor in tensors.items():
        ours, place = our_name(theirs)
        parts.setdefault(ours, []).append((place, tensor))
    return {name: torch.cat([tensor for _, tensor in sorted(group, key=lambda part: part[0])])
            for name, group in parts.items()}


def in_float64(network, length):
    """The model with float64 norms and angles."""
    network = network.double()
    cos, sin = angles(network.config, length)
    network.model.rotary_emb.forward = lambda x, *args, **kwargs: (cos, sin)
    for module in network.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = lambda x, norm=module: F.rms_norm(
                x, norm.weight.shape, norm.weight, norm.variance_epsilon)
    return network


def model(name, kind, config):
    random = generator(name)
    network = kind(config).eval()
    parameters = {
        key: normal(random, *value.shape, scale=0.4, shift=float("norm" in key))
        for key, value in network.named_parameters()}
    tokens, targets = torch.randint(config.vocab_size, (2, 2, 6), generator=random)

    def logits(p):
        p = dict(p)
        if config.tie_word_embeddings:
            p["lm_head.weight"] = p["model.embed_tokens.weight"]
        return torch.func.functional_call(network, p, (tokens,), {"use_cache": False}).logits

    untouched = logits({key: value.float() for key, value in parameters.items()})
    network = in_float64(network, 6)
    torch.testing.assert_close(untouched.double(), logits(parameters), rtol=1e-4, atol=1e-4)

    def loss(p):
        return F.cross_entropy(logits(p).flatten(0, 1), targets.flatten())

    slopes = {"gradient." + key: value for key, value in packed(
        {key.removeprefix("gradient."): value
         for key, value in gradients(loss, parameters).items()}).items()}
    write(name, {**packed(parameters), "tokens": tokens.int(), "targets": targets.int(),
                 "logits": logits(parameters), "loss": loss(parameters), **slopes})


def models():
    shape = {"vocab_size": 11, "hidden_size": 16, "intermediate_size": 10, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
             "tie_word_embeddings": False}
    model("llama", LlamaForCausalLM, LlamaConfig(**shape, rope_parameters=dict(SCALED),
                                                 rms_norm_eps=1e-5))
    plain = {"rope_type": "default", "rope_theta": 1e6}
    model("qwen3", Qwen3ForCausalLM, Qwen3Config(
        **{**shape, "hidden_size": 12, "intermediate_size": 7, "num_key_value_heads": 1,
           "tie_word_embeddings": True}, head_dim=6, rope_parameters=dict(plain),
        rms_norm_eps=1e-6))
    qwen2 = Qwen2Config(
        **{**shape, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3,
           "num_key_value_heads": 3, "tie_word_embeddings": True}, rope_parameters=dict(plain),
        rms_norm_eps=1e-6)
    qwen2.head_dim = 4
    model("qwen2", Qwen2ForCausalLM, qwen2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    operations()
    models()
