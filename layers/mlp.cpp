#include "layers/mlp.hpp"

#include "autograd/check.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Mlp::Mlp(const std::vector<std::int64_t>& widths, Random& init, const Options& options)
    : activation(options.activation), activate_last(options.activate_last) {
  require(widths.size() >= 2, "mlp: needs at least an input and an output width");
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
