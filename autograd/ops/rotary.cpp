#include "autograd/ops/rotary.hpp"

#include <cmath>
#include <numbers>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

struct Rotation {
  std::int64_t rows, positions, C, columns, D;
  RotaryPairs pairs;
  Array places;          // (rows) int32: index of the position of each row; or empty: i % positions
  Array cosines, sines;  // (positions, D / 2), for each position and pair of columns

  std::int64_t place(std::int64_t row) const {
    return places.empty() ? row % positions : places.values<std::int32_t>()[row];
  }
};

// Returns the rotation per position after scaling, see RotaryScaling.
double scaled(double rate, const RotaryScaling& scaling) {
  const double waves =
      static_cast<double>(scaling.original_context) * rate / (2 * std::numbers::pi);
  const double share = std::clamp(
      (waves - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency), 0.0, 1.0);
  return share * rate + (1 - share) * rate / scaling.factor;
}

void check(const RotaryForm& form) {
  require_value(form.base > 0, "rotary", "base", form.base, "a number above 0");
  if (form.scaling)
    require(
        form.scaling->factor > 0 && form.scaling->low_frequency < form.scaling->high_frequency,
        "rotary: factor {}, low_frequency {}, high_frequency {}; expected 0 < factor, low < high",
        form.scaling->factor, form.scaling->low_frequency, form.scaling->high_frequency);
}

// Returns the positions in the table of angles: T from each of `firsts` on, or all from 0 to the
// highest of `positions`. Throws std::invalid_argument if one of these is negative.
std::vector<std::int64_t> listed_positions(const RotaryOptions& options, std::int64_t T) {
  std::vector<std::int64_t> listed;
  if (options.positions.empty()) {
    for (const std::int64_t first : options.firsts)
      for (std::int64_t t = 0; t < T; ++t) listed.push_back(first + t);
    return listed;
  }
  if (is_dry_run()) {  // upper bound
    listed.resize(T);
    return listed;
  }
  const auto given = options.positions.values<std::int32_t>();
  if (given.empty()) return listed;
  const auto [lowest, highest] = std::ranges::minmax(given);
  require_value(lowest >= 0, "rotary", "position", lowest, "0 or more");
  for (std::int64_t position = 0; position <= highest; ++position) listed.push_back(position);
  return listed;
}

Rotation rotation(const Tensor& x, const RotaryOptions& options) {
  check_floating("rotary", x);
  const std::int64_t C = x.rank() < 2 ? 0 : x.dim(-1), T = x.rank() < 2 ? 0 : x.dim(-2);
  const std::int64_t D = options.head_width > 0 ? options.head_width : C;
  const std::int64_t columns = options.columns < 0 ? C : options.columns;
  require(
      x.rank() >= 2 && D % 2 == 0 && columns <= C && (D > 0 ? columns % D == 0 : columns == 0),
      "rotary: x {} with {} columns of heads of width {}; expected (..., T, C) and whole heads of "
      "an even width",
      x.shape(), columns, D);
  const std::int64_t rows = C == 0 ? 0 : x.size() / C, firsts = std::ssize(options.firsts);
  require(firsts == 1 || firsts * T == rows,
          "rotary: {} first positions for x {}; expected 1, or one for each example", firsts,
          x.shape());
  const Array& each = options.positions;
  require(each.empty() || (each.dtype() == DType::int32 && each.size() == rows),
          "rotary: positions {} for x {}; expected int32, one for each row", each, x.shape());
  check(options.form);
  const std::vector<double> rates = rotary_rates(D, options.form);
  const std::vector<std::int64_t> listed = listed_positions(options, T);
  const std::int64_t positions = std::ssize(listed);
  Array cosines({positions, D / 2}, DType::float64), sines({positions, D / 2}, DType::float64);
  double* cosine = cosines.mutable_values<double>().data();
  double* sine = sines.mutable_values<double>().data();
  for_each_row(positions, D / 2, [&](std::int64_t i) {
    const auto position = static_cast<double>(listed[i]);
    const std::int64_t n = std::ssize(rates);
    map_span(n, {rates.data()}, cosine + i * n, [=](auto rate) { return cos(rate * position); });
    map_span(n, {rates.data()}, sine + i * n, [=](auto rate) { return sin(rate * position); });
  });
  return {.rows = rows,
          .positions = std::max<std::int64_t>(1, positions),
          .C = C,
          .columns = columns,
          .D = D,
          .pairs = options.form.pairs,
          .places = each,
          .cosines = cosines.to(x.dtype()),
          .sines = sines.to(x.dtype())};
}

// Rotate the pairs of one head of a row by their angles, or back if `direction` is -1.
template <class T>
void turn_neighbors(std::int64_t pairs, const T* in, const T* cosine, const T* sine, T direction,
                    T* out) {
  for (std::int64_t k = 0; k < pairs; ++k) {
    const T a = in[2 * k], b = in[2 * k + 1], sin_k = direction * sine[k];
    out[2 * k] = a * cosine[k] - b * sin_k;
    out[2 * k + 1] = a * sin_k + b * cosine[k];
  }
}

template <class T>
void turn_halves(std::int64_t pairs, const T* in, const T* cosine, const T* sine, T direction,
                 T* out) {
  map_span(pairs, {in, in + pairs, cosine, sine}, out,
           [=](auto a, auto b, auto c, auto s) { return a * c - b * (direction * s); });
  map_span(pairs, {in, in + pairs, cosine, sine}, out + pairs,
           [=](auto a, auto b, auto c, auto s) { return a * (direction * s) + b * c; });
}

// Returns x with all heads rotated.
template <class T>
Array turn(const Rotation& by, const Array& x, T direction) {
  Array y(x.shape(), x.dtype());
  const T* from = x.values<T>().data();
  T* to = y.mutable_values<T>().data();
  for_each_row(by.rows, by.C, [&](std::int64_t row) {
    const std::int64_t pairs = by.D / 2, angles = by.place(row) * pairs;
    const T* cosine = by.cosines.values<T>().data() + angles;
    const T* sine = by.sines.values<T>().data() + angles;
    const auto turn_head = by.pairs == RotaryPairs::halves ? &turn_halves<T> : &turn_neighbors<T>;
    for (std::int64_t c = row * by.C; c < row * by.C + by.columns; c += by.D)
      turn_head(pairs, from + c, cosine, sine, direction, to + c);
    std::copy(from + row * by.C + by.columns, from + (row + 1) * by.C,
              to + row * by.C + by.columns);
  });
  return y;
}

}  // namespace

std::vector<double> rotary_rates(std::int64_t D, const RotaryForm& form) {
  std::vector<double> rates;
  for (std::int64_t k = 0; k < D / 2; ++k) {
    const double rate = std::pow(form.base, -2.0 * k / D);
    rates.push_back(form.scaling ? scaled(rate, *form.scaling) : rate);
  }
  return rates;
}

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
