#include "autograd/ops/rotary.hpp"

#include <cmath>

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

struct Rotation {
  std::int64_t rows, T, C, columns, D;
  Array cosines, sines;  // (T, D / 2), of the angle of each position and pair of columns
};

Rotation rotation(const Tensor& x, const RotaryOptions& options) {
  check_floating("rotary", x);
  const std::int64_t C = x.rank() < 2 ? 0 : x.dim(-1), T = x.rank() < 2 ? 0 : x.dim(-2);
  const std::int64_t D = options.head_width > 0 ? options.head_width : C;
  const std::int64_t columns = options.columns < 0 ? C : options.columns;
  require(x.rank() >= 2 && D % 2 == 0 && columns <= C && (D > 0 ? columns % D == 0 : columns == 0),
          "rotary: x {} with {} columns of heads of width {}", to_string(x.shape()), columns, D);
  Array cosines({T, D / 2}, DType::float64), sines({T, D / 2}, DType::float64);
  std::vector<double> rates;
  for (std::int64_t k = 0; k < D / 2; ++k) rates.push_back(std::pow(10000.0, -2.0 * k / D));
  double* cosine = cosines.mutable_values<double>().data();
  double* sine = sines.mutable_values<double>().data();
  for_each_row(T, D / 2, [&, first = options.first](std::int64_t t) {
    const double position = first + t;
    const std::int64_t n = std::ssize(rates);
    map_span(n, {rates.data()}, cosine + t * n, [=](auto rate) { return cos(rate * position); });
    map_span(n, {rates.data()}, sine + t * n, [=](auto rate) { return sin(rate * position); });
  });
  return {.rows = C == 0 ? 0 : x.size() / C,
          .T = T,
          .C = C,
          .columns = columns,
          .D = D,
          .cosines = cosines.to(x.dtype()),
          .sines = sines.to(x.dtype())};
}

// x turned by the angles, or with a direction of -1 back by them.
template <class T>
Array turn(const Rotation& by, const Array& x, T direction) {
  Array y(x.shape(), x.dtype());
  const T* from = x.values<T>().data();
  T* to = y.mutable_values<T>().data();
  for_each_row(by.rows, by.C, [&](std::int64_t row) {
    const std::int64_t pairs = by.D / 2, angles = row % by.T * pairs;
    const T* cosine = by.cosines.values<T>().data() + angles;
    const T* sine = by.sines.values<T>().data() + angles;
    for (std::int64_t c = 0; c < by.columns; c += by.D) {
      const T* in = from + row * by.C + c;
      T* out = to + row * by.C + c;
      for (std::int64_t k = 0; k < pairs; ++k) {
        const T a = in[2 * k], b = in[2 * k + 1], sin_k = direction * sine[k];
        out[2 * k] = a * cosine[k] - b * sin_k;
        out[2 * k + 1] = a * sin_k + b * cosine[k];
      }
    }
    std::copy(from + row * by.C + by.columns, from + (row + 1) * by.C,
              to + row * by.C + by.columns);
  });
  return y;
}

}  // namespace

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  const Rotation by = rotation(x, options);
  const auto turned = [by](const Array& array, int direction) {
    return dispatch(array.dtype(), [&]<class T>() { return turn<T>(by, array, direction); });
  };
  return record(
      "rotary", turned(x.value(), 1), {x},
      [turned](const Array& gradient, InputGradients& into) { into.add(0, turned(gradient, -1)); });
}

}  // namespace tapestry
