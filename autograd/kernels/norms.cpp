#include "autograd/kernels/norms.hpp"

#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/rows.hpp"

namespace tapestry {

void layer_norm_forward(const Array& x, const Array& weight, const Array& bias, double epsilon,
                        Array& y, Array& mean, Array& scale) {
  const std::int64_t C = weight.size(), rows = mean.size();
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    const T* w = weight.values<T>().data();
    const T* b = bias.values<T>().data();
    T* out = y.mutable_values<T>().data();
    T* means = mean.mutable_values<T>().data();
    T* scales = scale.mutable_values<T>().data();
    for_each_row(rows, C, [=](std::int64_t row) {
      const T* xs = in + row * C;
      const T m = sum_span(C, xs) / C;
      const auto add_square = [m](auto sum, auto v) { return fma(v - m, v - m, sum); };
      const T variance = sum_lanes(sum_terms(C, {xs}, m, add_square)) / C;
      const T s = inverse_of_sum(std::sqrt(variance + T(epsilon)));
      map_span(C, {xs, w, b}, out + row * C,
               [m, s](auto v, auto g, auto c) { return fma((v - m) * s, g, c); });
      means[row] = m;
      scales[row] = s;
    });
  });
}

void layer_norm_backward(const Array& dy, const Array& x, const Array& weight, const Array& mean,
                         const Array& scale, Array& dx, Array& dweight, Array& dbias) {
  const std::int64_t C = weight.size(), rows = mean.size();
  const std::int64_t piece =
      std::clamp<std::int64_t>(8192 / std::max<std::int64_t>(1, C), 8, longest_run);
  const std::int64_t pieces = (rows + piece - 1) / piece;
  Array weight_parts({pieces, C}, x.dtype()), bias_parts({pieces, C}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* dys = dy.values<T>().data();
    const T* xs = x.values<T>().data();
    const T* w = weight.values<T>().data();
    const T* means = mean.values<T>().data();
    const T* scales = scale.values<T>().data();
    T* out = dx.mutable_values<T>().data();
    T* dw = weight_parts.mutable_values<T>().data();
    T* db = bias_parts.mutable_values<T>().data();
    parallel_for(rows, piece, [=](std::int64_t begin, std::int64_t end) {
      T* dw_part = dw + begin / piece * C;
      T* db_part = db + begin / piece * C;
      std::fill_n(dw_part, C, T(0));
      std::fill_n(db_part, C, T(0));
      for (std::int64_t row = begin; row < end; ++row) {
        const T m = means[row], s = scales[row];
        const T* g = dys + row * C;
        const T* v = xs + row * C;
        // The free lanes of the last elements add 0 to both sums, because g and w are 0 there.
        const T h_mean = dot_span(C, g, w) / C;
        const auto add_product = [m](auto sum, auto a, auto b, auto c) {
          return fma(a * b, c - m, sum);
        };
        const T hx_mean = sum_lanes(sum_terms(C, {g, w, v}, T(0), add_product)) * s / C;
        map_span(C, {g, w, v}, out + row * C, [=](auto a, auto b, auto c) {
          return s * (a * b - h_mean - (c - m) * s * hx_mean);
        });
        map_span(C, {dw_part, g, v}, dw_part,
                 [=](auto sum, auto a, auto c) { return fma(a, (c - m) * s, sum); });
        map_span(C, {db_part, g}, db_part, [](auto sum, auto a) { return sum + a; });
      }
    });
  });
  dweight = sum_to(weight_parts, dweight.shape());
  dbias = sum_to(bias_parts, dbias.shape());
}

namespace {

// Returns the index of the first element of head i of all rows.
std::int64_t place_of(const RmsNormShape& shape, std::int64_t i) {
  return i / shape.heads * shape.C + shape.first + i % shape.heads * shape.D;
}

// Copies the columns before and after the heads.
template <class T>
void copy_others(const RmsNormShape& shape, const T* from, T* to) {
  const std::int64_t last = shape.first + shape.heads * shape.D;
  if (from == to || last - shape.first == shape.C) return;
  for_each_row(shape.rows, shape.C, [=, C = shape.C, first = shape.first](std::int64_t row) {
    std::copy_n(from + row * C, first, to + row * C);
    std::copy(from + row * C + last, from + (row + 1) * C, to + row * C + last);
  });
}

}  // namespace

void rms_norm_forward(const RmsNormShape& shape, const Array& x, const Array& weight,
                      double epsilon, Array& y, Array& scale) {
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.values<T>().data();
    const T* w = weight.values<T>().data();
    T* out = y.mutable_values<T>().data();
    T* scales = scale.mutable_values<T>().data();
    copy_others(shape, in, out);
    for_each_row(scale.size(), shape.D, [=, &shape, D = shape.D](std::int64_t i) {
      const T* xs = in + place_of(shape, i);
      const T s = inverse_of_sum(std::sqrt(dot_span(D, xs, xs) / D + T(epsilon)));
      map_span(D, {xs, w}, out + place_of(shape, i), [s](auto v, auto g) { return v * s * g; });
      scales[i] = s;
    });
  });
}

void rms_norm_backward(const RmsNormShape& shape, const Array& dy, const Array& x,
                       const Array& weight, const Array& scale, Array& dx, Array& dweight) {
  const std::int64_t D = shape.D, heads = scale.size();
  const std::int64_t piece =
      std::clamp<std::int64_t>(8192 / std::max<std::int64_t>(1, D), 8, longest_run);
  Array parts({(heads + piece - 1) / piece, D}, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* dys = dy.values<T>().data();
    const T* xs = x.values<T>().data();
    const T* w = weight.values<T>().data();
    const T* scales = scale.values<T>().data();
    T* out = dx.mutable_values<T>().data();
    T* dw = parts.mutable_values<T>().data();
    copy_others(shape, dys, out);
    parallel_for(heads, piece, [=, &shape](std::int64_t begin, std::int64_t end) {
      T* dw_part = dw + begin / piece * D;
      std::fill_n(dw_part, D, T(0));
      for (std::int64_t i = begin; i < end; ++i) {
        const T s = scales[i];
        const T* g = dys + place_of(shape, i);
        const T* v = xs + place_of(shape, i);
        map_span(D, {dw_part, g, v}, dw_part,
                 [s](auto sum, auto a, auto c) { return fma(a, c * s, sum); });
        const auto add_product = [](auto sum, auto a, auto b, auto c) {
          return fma(a * b, c, sum);
        };
        const T hx_mean = sum_lanes(sum_terms(D, {g, w, v}, T(0), add_product)) * s / D;
        map_span(D, {g, w, v}, out + place_of(shape, i),
                 [=](auto a, auto b, auto c) { return s * (a * b - c * s * hx_mean); });
      }
    });
  });
  dweight = sum_to(parts, dweight.shape());
}

}  // namespace tapestry
