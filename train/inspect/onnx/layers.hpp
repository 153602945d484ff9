#pragma once

#include "autograd/check.hpp"
#include "layers/convolution.hpp"
#include "layers/embedding.hpp"
#include "layers/gru.hpp"
#include "layers/lstm.hpp"
#include "layers/mlp.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/norm.hpp"
#include "layers/patch_encoder.hpp"
#include "train/inspect/onnx/ops.hpp"

// forward(layer, x) adds the nodes that compute layer.forward(x) of an evaluation. Shapes are those
// of layers/. Throws std::invalid_argument for adapters that are not merged.
namespace tapestry::onnx {

Value forward(const Linear& layer, const Value& x);
Value activate(Activation activation, const Value& x);
Value forward(const Mlp& layer, const Value& x);
Value forward(const Norm& layer, const Value& x);
Value forward(const Embedding& layer, const Value& tokens);
Value forward(const FeedForward& layer, const Value& x);
Value forward(const Recurrent& layer, const Value& x);
Value forward(const Lstm& layer, const Value& x);
Value forward(const Gru& layer, const Value& x);
Value forward(const RecurrentStack& stack, const Value& x);
Value forward(const GroupNorm& layer, const Value& x);
Value forward(const Convolution2d& layer, const Value& x);
Value forward(const ResidualConvolution& layer, const Value& x);
Value forward(const ConvolutionStack& layer, const Value& x);
Value forward(const TransposedConvolutionStack& layer, const Value& x);

// A sequence whose tokens attend to each other.
struct Sequence {
  std::int64_t longest = 0;       // maximum of T
  std::optional<Value> length{};  // T, (1) int64; none: `longest`
  bool causal = false;
  std::optional<Value> padding{};  // (B, T) bool: hidden from every query
};

// The encoded source (B, S, C) to which a decoder attends, and which of its tokens are padding.
struct Source {
  Value x;
  std::optional<Value> padding{};  // (B, S) bool
};

Value forward(const PositionalEncoding& layer, const Value& x, const Sequence& sequence);
Value forward(const SelfAttention& layer, const Value& x, const Sequence& sequence);
Value forward(const CrossAttention& layer, const Value& x, const Value& source,
              const std::optional<Value>& padding = {});
Value forward(const Attention& layer, const Value& x, const Value& source);
Value forward(const TransformerBlock& layer, const Value& x, const Sequence& sequence,
              const std::optional<Source>& source = {});
Value forward(const Encoder& layer, const Value& x, const Sequence& sequence);
Value forward(const PatchEncoder& layer, const Value& x);

// The keys that are masked: bool, broadcasts to (B, H, T, S).
struct Hidden {
  Value keys;
  bool all_of_some;  // all keys of a query may be masked; its output is then 0
};

// Returns softmax(q kᵀ / √D) v: q (B, H, T, D), k and v (B, H, S, D) -> (B, H, T, D).
Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
             const std::optional<Hidden>& hidden);

// Return x (B, T, H · D) as (B, H, T, D), and the reverse.
Value split_heads(const Value& x, std::int64_t heads, std::int64_t head_width);
Value join_heads(const Value& x, std::int64_t columns);

}  // namespace tapestry::onnx
