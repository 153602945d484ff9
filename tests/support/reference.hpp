#pragma once

#include <numeric>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>

#include "autograd/xtensor.hpp"

// What references in xtensor share. It takes long to compile.
namespace tapestry {

using Values = xt::xarray<double>;

inline Values values_of(const Array& array) { return xtensor_view<double>(array); }

// A · B over the last two axes; the others broadcast.
inline Values product(const Values& a, const Values& b) {
  return xt::sum(xt::expand_dims(a, a.dimension()) * xt::expand_dims(b, b.dimension() - 2),
                 {std::max(a.dimension(), b.dimension()) - 1});
}

// Exchanges the last two axes.
inline Values transposed(const Values& x) {
  std::vector<std::size_t> axes(x.dimension());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return xt::transpose(x, axes);
}

inline Values rows_of(const Values& x, std::int64_t begin, std::int64_t end) {
  return xt::view(x, xt::range(begin, end));
}
inline Values columns_of(const Values& x, std::int64_t begin, std::int64_t end) {
  return xt::strided_view(x, {xt::ellipsis(), xt::range(begin, end)});
}

// The sum of the last axis, which stays with extent 1.
inline Values column_sum(const Values& x) { return xt::sum(x, {x.dimension() - 1}, xt::keep_dims); }

inline Values softmax_of(const Values& x) {
  const Values highest = xt::amax(x, {x.dimension() - 1}, xt::keep_dims), e = xt::exp(x - highest);
  return e / column_sum(e);
}
inline Values sigmoid_of(const Values& x) { return 1 / (1 + xt::exp(-x)); }
inline Values gelu_of(const Values& x) { return x / 2 * (1 + xt::erf(x / std::sqrt(2.0))); }
inline Values layer_norm_of(const Values& x, double epsilon) {
  const double C = static_cast<double>(x.shape().back());
  const Values centered = x - column_sum(x) / C;
  return centered / xt::sqrt(column_sum(xt::square(centered)) / C + epsilon);
}
inline Values rms_norm_of(const Values& x, double epsilon) {
  return x / xt::sqrt(column_sum(xt::square(x)) / double(x.shape().back()) + epsilon);
}

}  // namespace tapestry
