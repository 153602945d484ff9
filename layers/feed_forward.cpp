#include "layers/feed_forward.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/activations.hpp"
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
  }
  throw_unhandled("activation");
}

FeedForward::FeedForward(std::int64_t width, Random& init, const FeedForwardOptions& options)
    : expand(width, hidden_width(options, width), init, options.expand),
      contract(hidden_width(options, width), width, init, options.contract),
      activation(options.activation) {}

Tensor FeedForward::forward(const Tensor& x) const {
  const Scope scope(path());
  return contract.forward(activate(activation, expand.forward(x)));
}

void FeedForward::fields(FieldVisitor& visit) {
  visit("expand", expand);
  visit("contract", contract);
}

}  // namespace tapestry
