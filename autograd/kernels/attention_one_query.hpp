#pragma once

#include "autograd/kernels/attention_tiles.hpp"
#include "autograd/kernels/dot_rows.hpp"
#include "autograd/kernels/rows.hpp"

// The forward pass of a single query, as in generation: one row of scores, with keys and values
// read without copies. For attention_forward.cpp.
namespace tapestry {

template <class T>
class ForwardQuery {
 public:
  // Constructs the pass for T = 1 and the keys [first, last), which are whole tiles except at the
  // end.
  ForwardQuery(const AttentionShape& shape, std::int64_t b, std::int64_t h, std::int64_t first,
               std::int64_t last, Scratch<T>& scratch)
      : shape_(shape),
        b_(b),
        masks_(shape, b, h),
        first_(first),
        count_(last - first),
        scores_(begin(scratch).take(1, round_up(count_, tile))),
        scaled_(scratch.take(1, shape.D)) {}

  // Computes y, high and weight; k and v start at key `first`.
  void run(const T* q, Rows<T> k, Rows<T> v, T* y, T* high, T* weight) {
    const T scale = shape_.scale;
    map_span(shape_.D, {q}, scaled_, [scale](auto x) { return x * scale; });
    multiply_keys(k);
    hide();
    const T largest = max_span(count_, scores_);
    const T shift = largest == -infinity<T> ? T(0) : largest;
    exp_shifted(count_, shift, scores_, scores_);
    const T total = sum_span(count_, scores_);
    *high = *weight = T(0);
    if (total == 0) {
      if (sees_a_key()) *weight = std::numeric_limits<T>::quiet_NaN();
      std::fill_n(y, shape_.D, *weight);
      return;
    }
    *high = largest;
    *weight = T(1) / total;
    add_values(v, *weight, y);
  }

 private:
  Scratch<T>& begin(Scratch<T>& scratch) const {
    scratch.begin(round_up(count_, tile) + shape_.D);
    return scratch;
  }

  void multiply_keys(Rows<T> k) {
    constexpr std::int64_t width = simd_width<T>;
    std::int64_t j = 0;
    for (; j + width <= count_; j += width)
      dot_rows<T>(shape_.D, scaled_, k[j], k.time).store_unaligned(scores_ + j);
    for (; j < count_; ++j) scores_[j] = dot_span<T>(shape_.D, scaled_, k[j]);
  }

  // Adds the mask, and sets the scores of hidden keys to -inf.
  void hide() {
    for (std::int64_t j = 0; j < count_; j += tile) {
      const TilePair pair(shape_, b_, 0, first_ + j);
      T* scores = scores_ + j;
      masks_.apply(pair, tile, 1, scores);
      const std::int64_t begin = pair.keys_begin(0), end = std::max(begin, pair.keys_end(0));
      std::fill(scores, scores + begin, -infinity<T>);
      std::fill(scores + end, scores + pair.keys, -infinity<T>);
    }
  }

  // Returns whether the query sees a key. Overwrites the scores, which may all have overflowed to
  // -inf.
  bool sees_a_key() {
    std::fill_n(scores_, count_, T(0));
    hide();
    return max_span(count_, scores_) != -infinity<T>;
  }

  // Computes y = weight · p V by columns of four registers. Runs of keys are summed separately.
  void add_values(Rows<T> v, T weight, T* y) {
    constexpr std::int64_t width = simd_width<T>;
    std::int64_t c = 0;
    for (; c + 4 * width <= shape_.D; c += 4 * width)
      add_columns<4>(v, c, weight, y, [](const T* from) { return Simd<T>::load_unaligned(from); });
    for (; c + width <= shape_.D; c += width)
      add_columns<1>(v, c, weight, y, [](const T* from) { return Simd<T>::load_unaligned(from); });
    if (const std::int64_t rest = shape_.D - c; rest > 0)
      add_columns<1>(v, c, weight, y, [rest](const T* from) { return load_partial(from, rest); });
  }

  template <int registers, class Load>
  void add_columns(Rows<T> v, std::int64_t c, T weight, T* y, const Load& load) {
    constexpr std::int64_t width = simd_width<T>;
    Simd<T> sum[registers];
    for (Simd<T>& part : sum) part = Simd<T>(T(0));
    for (std::int64_t begin = 0; begin < count_; begin += longest_run) {
      Simd<T> run[registers];
#pragma GCC unroll 4
      for (Simd<T>& part : run) part = Simd<T>(T(0));
      for (std::int64_t j = begin; j < std::min(count_, begin + longest_run); ++j) {
        const Simd<T> p(scores_[j]);
#pragma GCC unroll 4
        for (int i = 0; i < registers; ++i)
          run[i] = xsimd::fma(p, load(v[j] + c + i * width), run[i]);
      }
      for (int i = 0; i < registers; ++i) sum[i] += run[i];
    }
    for (int i = 0; i < registers; ++i) {
      const std::int64_t n = std::min(width, shape_.D - c - i * width);
      const Simd<T> scaled = sum[i] * Simd<T>(weight);
      if (n == width)
        scaled.store_unaligned(y + c + i * width);
      else
        store_partial<T>(scaled, y + c + i * width, n);
    }
  }

  const AttentionShape& shape_;
  std::int64_t b_;
  Masks<T> masks_;
  std::int64_t first_, count_;
  T* scores_;  // (count), rounded up to whole tiles
  T* scaled_;  // (D): the query times the scale
};

}  // namespace tapestry
