#include "layers/convolution1d.hpp"

#include "autograd/tape.hpp"

namespace tapestry {

Tensor Convolution1d::forward(const Tensor& x) const {
  const Scope scope(path());
  return kernel.forward(unfold(x, windows));
}

void Convolution1d::fields(FieldVisitor& visit) { visit("kernel", kernel); }

}  // namespace tapestry
