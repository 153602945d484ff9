#include "layers/feed_forward.hpp"

#include "autograd/ops/activations.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

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
  return x;
}

FeedForward::FeedForward(std::int64_t width, std::int64_t hidden, Random& init,
                         const Options& options)
    : expand(width, hidden, init, options.expand),
      contract(hidden, width, init, options.contract),
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
