#include "layers/mlp.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::int64_t hidden_width(const FeedForwardOptions& options, std::int64_t width) {
  return options.hidden > 0 ? options.hidden : 4 * width;
}

}  // namespace

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::silu:
      return silu(x);
    case Activation::elu:
      return elu(x);
  }
  throw_unhandled("activation");
}

Tensor activate_gated(Activation activation, const Tensor& x) {
  if (activation == Activation::silu) return swiglu(x);
  require(x.rank() >= 1 && x.dim(-1) % 2 == 0, "gated activation: x {}; expected (..., 2F)",
          x.shape());
  const std::int64_t F = x.dim(-1) / 2;
  return activate(activation, slice(x, -1, 0, F)) * slice(x, -1, F, 2 * F);
}

FeedForward::FeedForward(std::int64_t width, Random& init, const FeedForwardOptions& options)
    : expand(width, hidden_width(options, width) * (options.gated ? 2 : 1), init, options.expand),
      contract(hidden_width(options, width), width, init, options.contract),
      activation(options.activation),
      gated(options.gated) {}

Tensor FeedForward::forward(const Tensor& x, Random* noise) const {
  const Scope scope(path());
  const Tensor hidden = expand.forward(x, noise);
  return contract.forward(gated ? activate_gated(activation, hidden) : activate(activation, hidden),
                          noise);
}

TAPESTRY_FIELDS(FeedForward, expand, contract)

Mlp::Mlp(const std::vector<std::int64_t>& widths, Random& init, const Options& options)
    : activation(options.activation), activate_last(options.activate_last) {
  require(widths.size() >= 2, "mlp: {} widths; expected at least those of input and output",
          widths.size());
  for (std::size_t i = 0; i + 1 < widths.size(); ++i)
    layers.emplace_back(widths[i], widths[i + 1], init);
}

Tensor Mlp::forward(const Tensor& x) const {
  const Scope scope(path());
  Tensor y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    y = layers[i].forward(y);
    if (activate_last || i + 1 < layers.size()) y = activate(activation, y);
  }
  return y;
}

void Mlp::fields(FieldVisitor& visit) {
  for (std::size_t i = 0; i < layers.size(); ++i) visit(std::to_string(i), layers[i]);
}

}  // namespace tapestry
