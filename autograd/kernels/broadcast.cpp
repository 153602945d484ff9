#include "autograd/kernels/broadcast.hpp"

#include <array>
#include <numeric>
#include <xtensor/xbroadcast.hpp>
#include <xtensor/xnoalias.hpp>

#include "autograd/check.hpp"
#include "autograd/kernels/simd.hpp"
#include "autograd/xtensor.hpp"

namespace tapestry {
namespace {

// The extents before, along and after an axis.
struct Split {
  std::int64_t outer = 1, along = 1, inner = 1;
  Split(const Shape& shape, int axis) : along(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

template <class T, Reduction reduction>
T reduce_row(const T* row, std::int64_t n) {
  if constexpr (reduction == Reduction::sum)
    return sum_span(n, row);
  else
    return max_span(n, row);
}

template <class T, Reduction reduction>
void fold_row(T* into, const T* row, std::int64_t n) {
  const auto fold = [](auto x, auto y) {
    if constexpr (reduction == Reduction::sum)
      return x + y;
    else
      return xsimd::max(x, y);
  };
  map_span(n, {into, row}, into, fold);
}

// in (outer, along) -> out (outer): contiguous rows. Threads share the pieces of long ones, whose
// results are reduced in their turn.
template <class T, Reduction reduction>
void reduce_rows(std::int64_t outer, std::int64_t along, T* out, const T* in) {
  constexpr std::int64_t piece = 32768;
  const std::int64_t pieces = (along + piece - 1) / piece;
  if (pieces > 1) {
    Array partial({outer, pieces}, dtype_of<T>);
    T* parts = partial.mutable_values<T>().data();
    parallel_for(outer * pieces, 1, [=](std::int64_t i, std::int64_t) {
      const std::int64_t first = i % pieces * piece;
      parts[i] =
          reduce_row<T, reduction>(in + i / pieces * along + first, std::min(piece, along - first));
    });
    return reduce_rows<T, reduction>(outer, pieces, out, parts);
  }
  const std::int64_t grain = std::max<std::int64_t>(1, piece / std::max<std::int64_t>(1, along));
  parallel_for(outer, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = reduce_row<T, reduction>(in + i * along, along);
  });
}

// in (along, inner) -> out (inner), in pieces of rows whose partial results are folded in order.
template <class T, Reduction reduction>
void reduce_columns(std::int64_t along, std::int64_t inner, T* out, const T* in) {
  constexpr T identity = reduction == Reduction::sum ? T(0) : -std::numeric_limits<T>::infinity();
  const std::int64_t rows =
      std::clamp<std::int64_t>(32768 / std::max<std::int64_t>(1, inner), 64, longest_run);
  const std::int64_t pieces = std::max<std::int64_t>(1, (along + rows - 1) / rows);
  Array partial = Array::full({pieces, inner}, identity, dtype_of<T>);
  T* sums = partial.mutable_values<T>().data();
  parallel_for(along, rows, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      fold_row<T, reduction>(sums + begin / rows * inner, in + row * inner, inner);
  });
  if (pieces > longest_run) return reduce_columns<T, reduction>(pieces, inner, out, sums);
  for (std::int64_t piece = 1; piece < pieces; ++piece)
    fold_row<T, reduction>(sums, sums + piece * inner, inner);
  std::copy_n(sums, inner, out);
}

template <class T, Reduction reduction>
void reduce(const Split& split, T* out, const T* in) {
  const auto [outer, along, inner] = split;
  if (inner == 1) return reduce_rows<T, reduction>(outer, along, out, in);
  for (std::int64_t i = 0; i < outer; ++i)
    reduce_columns<T, reduction>(along, inner, out + i * inner, in + i * along * inner);
}

// Whether an array of shape `own` broadcasts to `shape` by being repeated as a whole: after leading
// axes of extent 1, its axes are the last ones of `shape`.
bool ends_with(const Shape& shape, const Shape& own) {
  bool leading = false;
  for (int axis = -1; axis >= -own.rank(); --axis) {
    leading |= own[axis] != shape[axis];
    if (leading && own[axis] != 1) return false;
  }
  return true;
}

void repeat(const Array& array, Array& result) {
  dispatch(array.dtype(), [&]<class T>() {
    const T* from = array.values<T>().data();
    T* to = result.mutable_values<T>().data();
    const std::int64_t n = array.size();
    if (n == 1) {
      std::fill_n(to, result.size(), *from);
      return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, n));
    const std::int64_t copies = n == 0 ? 0 : result.size() / n;
    parallel_for(copies, grain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) std::copy_n(from, n, to + i * n);
    });
  });
}

// The sum of f over all elements, in double and in fixed pieces. Each piece is added up in eight
// sums side by side, which the compiler keeps in vector registers.
template <class F>
double sum_pieces(const Array& array, F f) {
  constexpr std::int64_t grain = 16384, lanes = 8;
  const std::int64_t n = array.size();
  std::vector<double> partial((n + grain - 1) / grain);
  dispatch(array.dtype(), [&]<class T>() {
    const T* values = array.values<T>().data();
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      std::array<double, lanes> sums{};
      std::int64_t i = begin;
      for (; i + lanes <= end; i += lanes)
        for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += f(values[i + lane]);
      for (; i < end; ++i) sums[0] += f(values[i]);
      partial[begin / grain] = std::accumulate(sums.begin(), sums.end(), 0.0);
    });
  });
  return std::accumulate(partial.begin(), partial.end(), 0.0);
}

}  // namespace

void add_in_place(Array& into, const Array& array) {
  require(into.shape() == array.shape(), "add_in_place: {} into {}", to_string(array.shape()),
          to_string(into.shape()));
  dispatch(into.dtype(), [&]<class T>() {
    T* sum = into.mutable_values<T>().data();
    map(into.size(), {sum, array.values<T>().data()}, sum, [](auto x, auto y) { return x + y; });
  });
}

Array broadcast_to(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  require(broadcast("broadcast_to", array.shape(), shape) == shape, "broadcast_to: {} to {}",
          to_string(array.shape()), to_string(shape));
  Array result(shape, array.dtype());
  if (ends_with(shape, array.shape())) {
    repeat(array, result);
    return result;
  }
  dispatch(array.dtype(), [&]<class T>() {
    const std::vector<std::size_t> extents(shape.begin(), shape.end());
    auto to = xtensor_view<T>(result);
    xt::noalias(to) = xt::broadcast(xtensor_view<T>(array), extents);
  });
  return result;
}

Array sum_to(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  Array sum = array;
  const int added = array.rank() - shape.rank();
  for (int axis = 0; axis < array.rank(); ++axis)
    if (axis < added || (shape[axis - added] == 1 && array.dim(axis) != 1))
      sum = reduce_axis(sum, axis, Reduction::sum);
  return sum.reshaped(shape);
}

Array reduce_axis(const Array& array, int axis, Reduction reduction) {
  Shape shape = array.shape();
  const Split split(shape, axis);
  shape[axis] = 1;
  Array result(shape, array.dtype());
  dispatch(array.dtype(), [&]<class T>() {
    T* out = result.mutable_values<T>().data();
    const T* in = array.values<T>().data();
    if (reduction == Reduction::sum)
      reduce<T, Reduction::sum>(split, out, in);
    else
      reduce<T, Reduction::max>(split, out, in);
  });
  return result;
}

double sum_all(const Array& array) {
  return sum_pieces(array, [](double x) { return x; });
}

double sum_of_squares(const Array& array) {
  return sum_pieces(array, [](double x) { return x * x; });
}

}  // namespace tapestry
