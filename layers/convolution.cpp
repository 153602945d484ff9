#include "layers/convolution.hpp"

#include <cmath>

#include "autograd/tape.hpp"
#include "layers/initial.hpp"

namespace tapestry {
namespace {

double bound(std::int64_t channels, std::int64_t kernel) {
  return 1 / (static_cast<double>(kernel) * std::sqrt(static_cast<double>(channels)));
}

}  // namespace

Convolution2d::Convolution2d(std::int64_t in, std::int64_t out, Random& init,
                             const Convolution2dOptions& wanted)
    : weight(uniform({out, in, wanted.kernel, wanted.kernel}, bound(in, wanted.kernel), init),
             Role::weight),
      bias(uniform({out}, bound(in, wanted.kernel), init), Role::bias),
      options{.stride = wanted.stride, .padding = wanted.padding} {}

Tensor Convolution2d::forward(const Tensor& x) const {
  const Scope scope(path());
  return convolution2d(x, weight, options, bias);
}

void Convolution2d::fields(FieldVisitor& visit) {
  visit("weight", weight);
  visit("bias", bias);
}

TransposedConvolution2d::TransposedConvolution2d(std::int64_t in, std::int64_t out, Random& init,
                                                 const Convolution2dOptions& wanted)
    : weight(uniform({in, out, wanted.kernel, wanted.kernel}, bound(out, wanted.kernel), init),
             Role::weight),
      bias(uniform({out}, bound(out, wanted.kernel), init), Role::bias),
      options{.stride = wanted.stride, .padding = wanted.padding} {}

Tensor TransposedConvolution2d::forward(const Tensor& x, std::int64_t height,
                                        std::int64_t width) const {
  const Scope scope(path());
  return transposed_convolution2d(
      x, weight,
      {.stride = options.stride, .padding = options.padding, .height = height, .width = width},
      bias);
}

void TransposedConvolution2d::fields(FieldVisitor& visit) {
  visit("weight", weight);
  visit("bias", bias);
}

}  // namespace tapestry
