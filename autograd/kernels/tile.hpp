#pragma once

#include "autograd/buffer_pool.hpp"
#include "autograd/kernels/attention.hpp"
#include "autograd/kernels/panels.hpp"

// Tiles of heads and their matrix products, for the attention kernels.
namespace tapestry {

inline constexpr std::int64_t tile = 64;  // maximum number of queries of a tile, and of keys

// Returns the distance between the rows of tiles of at most n queries and keys: 16, 32 or 64.
inline std::int64_t side_of_tile(std::int64_t n) { return n <= 16 ? 16 : n <= 32 ? 32 : tile; }

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();

template <class T>
std::int64_t padded(std::int64_t n) {
  return round_up(n, simd_width<T>);
}

// The rows of one head, `time` elements apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t time;
  T* operator[](std::int64_t t) const { return data + t * time; }
  Rows from(std::int64_t t) const { return {data + t * time, time}; }
};

template <class T>
Rows<T> rows_of(const HeadsView& view, std::int64_t b, std::int64_t h) {
  return {reinterpret_cast<T*>(view.data) + b * view.batch + h * view.head, view.time};
}

// The memory of one thread's tiles. The kernels of short heads keep it from head to head, because
// threads that ask the pool often wait for each other.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::int64_t elements) { begin(elements); }
  // Gives back everything that was taken, and makes room for this number of elements.
  void begin(std::int64_t elements) {
    if (elements > room_) memory_ = allocate_workspace(sizeof(T) * elements), room_ = elements;
    used_ = 0;
  }
  T* take(std::int64_t rows, std::int64_t columns) {
    T* start = reinterpret_cast<T*>(memory_.get()) + used_;
    used_ += rows * columns;
    return start;
  }
  T* take_zeros(std::int64_t rows, std::int64_t columns) {
    T* start = take(rows, columns);
    std::fill_n(start, rows * columns, T(0));
    return start;
  }
  std::int64_t used() const { return used_; }
  void give_back_to(std::int64_t used) { used_ = used; }  // gives back what was taken since then

 private:
  std::shared_ptr<std::byte[]> memory_{};
  std::int64_t room_ = 0, used_ = 0;
};

// Copies to (count, width) = factor · from (count, D), padded with 0. The rows of a head are far
// apart, so reading them tile by tile would miss the caches.
template <class T>
void pack(Rows<T> from, std::int64_t count, std::int64_t D, T factor, T* to, std::int64_t width) {
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t i = 0; i < width; i += simd_width<T>) {
      const T* at = from[r] + i;
      const Simd<T> x =
          i + simd_width<T> <= D ? Simd<T>::load_unaligned(at) : load_partial(at, D - i);
      (x * Simd<T>(factor)).store_unaligned(to + r * width + i);
    }
}

// Computes to (D, side) = factor · fromᵀ. Missing rows become columns of 0.
template <class T>
void load_transposed(Rows<T> from, std::int64_t count, std::int64_t D, T factor, T* to,
                     std::int64_t side) {
  const auto transpose = side == 16   ? pack_across<T, 16>
                         : side == 32 ? pack_across<T, 32>
                                      : pack_across<T, tile>;
  transpose({from.data, from.time, 1}, count, D, to);
  if (factor != T(1)) map_span(D * side, {to}, to, [factor](auto x) { return x * factor; });
}

// C is overwritten, or the product is added to C, or to zeros as if C had them.
enum class Into { written, added_to, added_to_zeros };

// The number of rows whose sums fit into the registers, with `vectors` registers each, next to
// those of B and one of A.
template <int vectors>
inline constexpr int most_rows = std::min(16, (vector_registers - vectors - 1) / vectors);

template <class T, int rows, int vectors>
void multiply_rows(std::int64_t depth, Operand<T> a, const T* b, std::int64_t b_row, Start<T> start,
                   T* c, std::int64_t c_row) {
  multiply_registers<T, rows, vectors, Prefetch::nothing>(depth, a, b, b_row, start, c, c_row);
}

// Computes C (count, vectors · simd_width<T>) = or += A (count, depth) · B in groups of rows whose
// sums fit into the registers.
template <class T, int vectors>
void multiply_columns(std::int64_t count, std::int64_t depth, Operand<T> a, const T* b,
                      std::int64_t b_row, Into into, T* c, std::int64_t c_row) {
  static constexpr auto kernels = []<int... r>(std::integer_sequence<int, r...>) {
    return std::array{multiply_rows<T, r + 1, vectors>...};
  }
  (std::make_integer_sequence<int, most_rows<vectors>>());
  alignas(64) static constexpr T zeros[vectors * simd_width<T>] = {};
  for (std::int64_t r = 0; r < count;) {
    const std::int64_t rows = std::min<std::int64_t>(most_rows<vectors>, count - r);
    T* group = c + r * c_row;
    const Start<T> start = into == Into::added_to         ? Start<T>{group, c_row}
                           : into == Into::added_to_zeros ? Start<T>{zeros, 0}
                                                          : Start<T>{};
    kernels[rows - 1](depth, a.from(r), b, b_row, start, group, c_row);
    r += rows;
  }
}

// Computes C (rows, columns) = or += A (rows, depth) · B (depth, columns), where `columns` is a
// multiple of simd_width<T>.
template <class T>
void multiply_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, Operand<T> a,
                   const T* b, std::int64_t b_row, T* c, std::int64_t c_row,
                   Into into = Into::added_to) {
  constexpr int most_vectors = vector_registers / 8;
  std::int64_t vectors = columns / simd_width<T>;
  const auto multiply = [&]<int count>(std::integral_constant<int, count>) {
    for (; vectors >= count; vectors -= count) {
      multiply_columns<T, count>(rows, depth, a, b, b_row, into, c, c_row);
      b += count * simd_width<T>, c += count * simd_width<T>;
    }
  };
  multiply(std::integral_constant<int, most_vectors>());
  if constexpr (most_vectors == 4) multiply(std::integral_constant<int, 3>());
  if constexpr (most_vectors == 4) multiply(std::integral_constant<int, 2>());
  multiply(std::integral_constant<int, 1>());
}

}  // namespace tapestry
