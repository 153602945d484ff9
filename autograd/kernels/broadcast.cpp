#include "autograd/kernels/broadcast.hpp"

#include <array>
#include <numeric>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/kernels/strided.hpp"

namespace tapestry {
namespace {

// The extents before, along and after the reduced axes [first, last) of an array.
struct Split {
  std::int64_t outer = 1, along = 1, inner = 1;
  Split(const Shape& shape, int first, int last) {
    for (int axis = 0; axis < shape.rank(); ++axis)
      (axis < first ? outer : axis < last ? along : inner) *= shape[axis];
  }
};

template <class T, Reduction reduction>
T reduce_row(const T* row, std::int64_t n) {
  if constexpr (reduction == Reduction::sum)
    return sum_span(n, row);
  else
    return max_span(n, row);
}

// Folds `rows` rows of n elements, `stride` elements apart, into `to`, row after row: for some
// columns at a time, whose sums stay in registers.
template <class T, Reduction reduction>
void fold_rows(std::int64_t rows, std::int64_t n, std::int64_t stride, const T* from, T* to) {
  constexpr std::int64_t width = simd_width<T>;
  const auto folded = [](auto x, auto y) {
    if constexpr (reduction == Reduction::sum)
      return x + y;
    else
      return xsimd::max(x, y);
  };
  std::int64_t column = 0;
  const auto fold_registers = [&]<int count>(std::integral_constant<int, count>) {
    for (; column + count * width <= n; column += count * width) {
      Simd<T> sums[count];
      for (int v = 0; v < count; ++v) sums[v] = Simd<T>::load_unaligned(from + column + v * width);
      for (std::int64_t row = 1; row < rows; ++row)
        for (int v = 0; v < count; ++v)
          sums[v] =
              folded(sums[v], Simd<T>::load_unaligned(from + row * stride + column + v * width));
      for (int v = 0; v < count; ++v) sums[v].store_unaligned(to + column + v * width);
    }
  };
  fold_registers(std::integral_constant<int, 4>());
  fold_registers(std::integral_constant<int, 1>());
  const auto fold_few = [&]<int count>(std::integral_constant<int, count>) {
    if (!((n - column) & count)) return;
    T sums[count];
    std::copy_n(from + column, count, sums);
    for (std::int64_t row = 1; row < rows; ++row)
      for (int i = 0; i < count; ++i) sums[i] = folded(sums[i], from[row * stride + column + i]);
    std::copy_n(sums, count, to + column);
    column += count;
  };
  fold_few(std::integral_constant<int, 8>());
  fold_few(std::integral_constant<int, 4>());
  fold_few(std::integral_constant<int, 2>());
  fold_few(std::integral_constant<int, 1>());
}

// The number of elements of a piece.
constexpr std::int64_t piece_of_reduction = 8192;

// Reduces contiguous rows: in (outer, along) -> out (outer). Threads divide long rows into pieces,
// whose results are reduced in turn.
template <class T, Reduction reduction>
void reduce_rows(std::int64_t outer, std::int64_t along, T* out, const T* in) {
  constexpr std::int64_t piece = piece_of_reduction;
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
  for_each_row(outer, along,
               [=](std::int64_t i) { out[i] = reduce_row<T, reduction>(in + i * along, along); });
}

// Reduces in (outer, along, inner) -> out (outer, inner), by blocks of rows and columns, whose
// results are reduced in turn. No axis is empty.
template <class T, Reduction reduction>
void reduce_columns(std::int64_t outer, std::int64_t along, std::int64_t inner, T* out,
                    const T* in) {
  const std::int64_t narrow = std::min<std::int64_t>(inner, 128);
  const std::int64_t rows = std::min(along, std::min(longest_run, piece_of_reduction / narrow));
  const std::int64_t columns = std::min(inner, std::max(narrow, piece_of_reduction / rows));
  const std::int64_t across = (inner + columns - 1) / columns, down = (along + rows - 1) / rows;
  Array partial;
  if (down > 1) partial = Array({outer, down, inner}, dtype_of<T>);
  T* results = down > 1 ? partial.mutable_values<T>().data() : out;
  for_each_row(outer * down * across, rows * columns, [=](std::int64_t block) {
    const std::int64_t column = block % across * columns, strip = block / across;
    const std::int64_t first = strip % down * rows, last = std::min(along, first + rows);
    const std::int64_t n = std::min(columns, inner - column);
    const T* from = in + (strip / down * along + first) * inner + column;
    T* to = results + strip * inner + column;
    fold_rows<T, reduction>(last - first, n, inner, from, to);
  });
  if (down > 1) reduce_columns<T, reduction>(outer, down, inner, out, results);
}

template <class T, Reduction reduction>
void reduce(const Split& split, T* out, const T* in) {
  const auto [outer, along, inner] = split;
  if (outer * inner == 0) return;
  if (along == 0)
    std::fill_n(out, outer * inner,
                reduction == Reduction::sum ? T(0) : -std::numeric_limits<T>::infinity());
  else if (inner == 1)
    reduce_rows<T, reduction>(outer, along, out, in);
  else
    reduce_columns<T, reduction>(outer, along, inner, out, in);
}

// Returns the sum of f over all elements in double, by pieces. Each piece has eight sums, which the
// compiler keeps in vector registers.
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
  require(into.shape() == array.shape(),
          "add_in_place: {} into {}: the shapes differ; expected equal shapes", array.shape(),
          into.shape());
  dispatch(into.dtype(), [&]<class T>() {
    T* sum = into.mutable_values<T>().data();
    map(into.size(), {sum, array.values<T>().data()}, sum, [](auto x, auto y) { return x + y; });
  });
}

Array broadcast_to(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  require(broadcast("broadcast_to", array.shape(), shape) == shape,
          "broadcast_to: {} cannot be stretched to {}; expected equal extents or 1", array.shape(),
          shape);
  Array result(shape, array.dtype());
  dispatch(array.dtype(), [&]<class T>() {
    const T* in = array.values<T>().data();
    T* out = result.mutable_values<T>().data();
    const Walk<1> walk{shape, {broadcast_strides(array.shape(), shape)}};
    for_each_run(walk, [=](std::int64_t place, auto from, auto strides, std::int64_t count) {
      copy_run(count, in + from[0], strides[0], out + place, 1);
    });
  });
  return result;
}

Array sum_to(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  const int added = array.rank() - shape.rank();
  std::vector<bool> stretched(array.rank());
  for (int axis = 0; axis < array.rank(); ++axis)
    stretched[axis] = axis < added || (shape[axis - added] == 1 && array.dim(axis) != 1);
  return reduce_axes(array, stretched, Reduction::sum).reshaped(shape);
}

Array reduce_axes(const Array& array, const std::vector<bool>& reduced, Reduction reduction) {
  Array result = array;
  for (int first = 0, last; first < array.rank(); first = last) {
    for (last = first + 1; last < array.rank() && reduced[last] == reduced[first];) ++last;
    if (!reduced[first]) continue;
    const Split split(result.shape(), first, last);
    Shape shape = result.shape();
    for (int axis = first; axis < last; ++axis) shape[axis] = 1;
    const Array whole = std::exchange(result, Array(shape, array.dtype()));
    dispatch(array.dtype(), [&]<class T>() {
      T* out = result.mutable_values<T>().data();
      const T* in = whole.values<T>().data();
      if (reduction == Reduction::sum)
        reduce<T, Reduction::sum>(split, out, in);
      else
        reduce<T, Reduction::max>(split, out, in);
    });
  }
  return result;
}

double sum_all(const Array& array) {
  return sum_pieces(array, [](double x) { return x; });
}

double sum_of_squares(const Array& array) {
  return sum_pieces(array, [](double x) { return x * x; });
}

}  // namespace tapestry
