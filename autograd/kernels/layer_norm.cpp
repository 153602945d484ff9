#include "autograd/kernels/layer_norm.hpp"

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
      const T m = sum_span(C, xs) / static_cast<T>(C);
      const auto add_square = [m](auto sum, auto v) { return fma(v - m, v - m, sum); };
      const T variance =
          sum_lanes(fold_span<T>(C, Simd<T>(T(0)), m, add_square, xs)) / static_cast<T>(C);
      const T s = T(1) / std::sqrt(variance + static_cast<T>(epsilon));
      map_span<T>(
          C, [m, s](auto v, auto g, auto c) { return fma((v - m) * s, g, c); }, out + row * C, xs,
          w, b);
      means[row] = m;
      scales[row] = s;
    });
  });
}

void layer_norm_backward(const Array& dy, const Array& x, const Array& weight, const Array& mean,
                         const Array& scale, Array& dx, Array& dweight, Array& dbias) {
  const std::int64_t C = weight.size(), rows = mean.size();
  const std::int64_t piece = std::max<std::int64_t>(16, 16384 / std::max<std::int64_t>(1, C));
  const std::int64_t pieces = (rows + piece - 1) / piece;
  Array weight_parts = Array::zeros({pieces, C}, x.dtype());
  Array bias_parts = Array::zeros({pieces, C}, x.dtype());
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
      for (std::int64_t row = begin; row < end; ++row) {
        const T m = means[row], s = scales[row];
        const T* g = dys + row * C;
        const T* v = xs + row * C;
        // h (x - mean) has no padding trouble: the padded lanes of w and g are 0.
        const T h_mean = dot_span(C, g, w) / static_cast<T>(C);
        const auto add_product = [m](auto sum, auto a, auto b, auto c) {
          return fma(a * b, c - m, sum);
        };
        const T hx_mean = sum_lanes(fold_span<T>(C, Simd<T>(T(0)), T(0), add_product, g, w, v)) *
                          s / static_cast<T>(C);
        map_span<T>(
            C, [=](auto a, auto b, auto c) { return s * (a * b - h_mean - (c - m) * s * hx_mean); },
            out + row * C, g, w, v);
        map_span<T>(
            C, [=](auto sum, auto a, auto c) { return fma(a, (c - m) * s, sum); }, dw_part, dw_part,
            g, v);
        map_span<T>(
            C, [](auto sum, auto a) { return sum + a; }, db_part, db_part, g);
      }
    });
  });
  dweight = sum_to(weight_parts, dweight.shape());
  dbias = sum_to(bias_parts, dbias.shape());
}

}  // namespace tapestry
