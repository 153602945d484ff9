#include "layers/dropout.hpp"

#include "autograd/ops/dropout.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

Tensor Dropout::forward(const Tensor& x, Random* noise) const {
  if (!noise || rate == 0) return x;
  const Scope scope(path());
  return dropout(x, rate, *noise);
}

}  // namespace tapestry
