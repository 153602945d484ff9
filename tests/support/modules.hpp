#pragma once

#include "layers/models/transformer.hpp"
#include "tests/support/arrays.hpp"

// Layers and models for tests.
namespace tapestry {

inline Random init(std::uint64_t seed = 0) { return Random(seed, Stream::init); }

inline void set(Parameter& parameter, const std::vector<double>& values) {
  const Shape& shape = parameter.tensor.shape();
  parameter.value().copy_from(Array::of(values, shape).to(parameter.tensor.dtype()));
}

// Sets every parameter to N(0, 0.4²), and weights of norms to N(1, 0.4²), so that no zero hides an
// error.
template <class M>
M& randomised(M& module, DType dtype) {
  module.convert(f32);
  std::uint64_t step = 0;
  for (Parameter* parameter : module.parameters()) {
    const bool scales = parameter->role == Role::norm && parameter->name.ends_with("weight");
    Array values = parameter->value();
    Random(3, Stream::init, ++step).fill_normal(values, scales ? 1 : 0, 0.4);
  }
  module.convert(dtype);
  return module;
}

inline const TransformerOptions tiny{
    .vocabulary = 5,
    .context = 4,
    .layers = 2,
    .block = {.width = 4, .attention = {.heads = 2}, .feed_forward = {.hidden = 6}}};

// A block of a current architecture: 2 heads of queries share keys and values.
inline const TransformerBlockOptions llama_block{
    .width = 4,
    .attention = {.heads = 2,
                  .key_value_heads = 1,
                  .positions = Positions::rotary,
                  .rotary = {.pairs = RotaryPairs::halves,
                             .base = 50,
                             .scaling = RotaryScaling{.original_context = 8}},
                  .input = {.bias = false},
                  .output = {.bias = false}},
    .feed_forward = {.hidden = 6,
                     .activation = Activation::silu,
                     .gated = true,
                     .expand = {.bias = false},
                     .contract = {.bias = false}},
    .norms = {.kind = NormKind::rms, .epsilon = 1e-6}};

inline Strings names(Module& module) {
  Strings result;
  for (const Parameter* parameter : module.parameters()) result.push_back(parameter->name);
  return result;
}

}  // namespace tapestry
