#pragma once

#include "autograd/check.hpp"
#include "layers/convolution_stack.hpp"
#include "layers/embedding.hpp"
#include "layers/mlp.hpp"
#include "layers/norm.hpp"
#include "layers/patch_encoder.hpp"
#include "layers/recurrent.hpp"
#include "train/inspect/onnx/ops.hpp"

// Layers as nodes: forward(layer, x) adds what layer.forward(x) computes in an evaluation. Shapes
// are those of layers/.
namespace tapestry::onnx {

Value forward(const Linear& layer, const Value& x);
Value activate(Activation activation, const Value& x);
Value forward(const Mlp& layer, const Value& x);
Value forward(const Norm& layer, const Value& x);
Value forward(const Embedding& layer, const Value& tokens);
Value forward(const FeedForward& layer, const Value& x);
Value forward(const Recurrent& layer, const Value& x);
Value forward(const ConvolutionStack& layer, const Value& x);
Value forward(const TransposedConvolutionStack& layer, const Value& x);

// The tokens of a sequence that attend to each other.
struct Sequence {
  std::int64_t longest = 0;       // T at most
  std::optional<Value> length{};  // T, (1) int64; none: the longest
  bool causal = false;
  std::optional<Value> padding{};  // (B, T) bool: hidden from every query
};

// What a decoder attends to: x (B, S, C), of which some is padding.
struct Source {
  Value x;
  Value padding;  // (B, S) bool
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

// Keys that queries do not see: bool, broadcasts to (B, H, T, S).
struct Hidden {
  Value keys;
  bool all_of_some;  // a query may see none, and gets zeros
};

// softmax(q kᵀ / √D) v: q (B, H, T, D), k and v (B, H, S, D) -> (B, H, T, D).
Value attend(const Value& q, const Value& k, const Value& v, std::int64_t head_width,
             const std::optional<Hidden>& hidden);

// (B, T, H · D) -> (B, H, T, D), and back.
Value split_heads(const Value& x, std::int64_t heads, std::int64_t head_width);
Value join_heads(const Value& x, std::int64_t columns);

// f(layer) of the first of these kinds that the layer is.
template <class Kind, class... Others>
Value by_kind(const Module& layer, const auto& f) {
  if (const auto* own = dynamic_cast<const Kind*>(&layer)) return f(*own);
  if constexpr (sizeof...(Others) > 0) return by_kind<Others...>(layer, f);
  throw_unhandled("layer");
}

}  // namespace tapestry::onnx
