#include "autograd/kernels/attention.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "autograd/kernels/rows.hpp"
#include "autograd/kernels/tile.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t tile = 64;  // queries and keys of a tile

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

std::int64_t tiles(std::int64_t n) { return (n + tile - 1) / tile; }

template <class T>
std::int64_t padded(std::int64_t n) {
  return (n + simd_width<T> - 1) / simd_width<T> * simd_width<T>;
}

// The rows of one head, `time` elements apart.
template <class T>
struct Rows {
  T* data;
  std::int64_t time;
  T* operator[](std::int64_t t) const { return data + t * time; }
};

template <class T>
Rows<T> rows_of(const HeadsView& view, std::int64_t b, std::int64_t h) {
  return {reinterpret_cast<T*>(view.data) + b * view.batch + h * view.head, view.time};
}

// One thread's tiles, carved from one block of memory that starts as zeros.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t elements) : memory_(Array::zeros({elements}, dtype_of<T>)) {}
  T* take(std::int64_t rows, std::int64_t columns) {
    T* start = memory_.mutable_values<T>().data() + used_;
    used_ += rows * columns;
    return start;
  }

 private:
  Array memory_;
  std::int64_t used_ = 0;
};

// to (count, width) = factor · from (count, D); the padding stays 0.
template <class T>
void load_tile(Rows<T> from, std::int64_t first, std::int64_t count, std::int64_t D, T factor,
               T* to, std::int64_t width) {
  for (std::int64_t r = 0; r < count; ++r)
    map_span<T>(
        D, [factor](auto x) { return x * factor; }, to + r * width, from[first + r]);
}

// to (D, tile) = fromᵀ; missing rows become columns of zeros.
template <class T>
void load_transposed(Rows<T> from, std::int64_t first, std::int64_t count, std::int64_t D, T* to) {
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t d = 0; d < D; ++d) to[d * tile + r] = from[first + r][d];
  for (std::int64_t d = 0; d < D; ++d) std::fill(to + d * tile + count, to + (d + 1) * tile, T(0));
}

// Reads the additive mask and the padding of one (batch, head).
template <class T>
class Masks {
 public:
  Masks(const AttentionShape& shape, std::int64_t b, std::int64_t h) : shape_(shape) {
    if (!shape.key_padding.empty())
      padding_ = shape.key_padding.values<std::int32_t>().data() + b * shape.S;
    if (shape.mask.empty()) return;
    const std::array<std::int64_t, 4> index{b, h, 0, 0};
    std::int64_t stride = 1, offset = 0;
    for (int axis = -1; axis >= -shape.mask.rank(); --axis) {
      const std::int64_t step = shape.mask.dim(axis) == 1 ? 0 : stride;
      if (axis == -1) key_stride_ = step;
      if (axis == -2) query_stride_ = step;
      offset += index[static_cast<std::size_t>(axis + 4)] * step;
      stride *= shape.mask.dim(axis);
    }
    mask_ = shape.mask.values<T>().data() + offset;
  }

  // How many keys the query sees, by causality and by their number.
  std::int64_t visible(std::int64_t query) const {
    if (!shape_.causal) return shape_.S;
    return std::clamp<std::int64_t>(query + 1 + shape_.S - shape_.T, 0, shape_.S);
  }

  // Hides and shifts the scores of one query against the keys [first, first + tile).
  void apply(std::int64_t query, std::int64_t first, T* scores) const {
    const std::int64_t count = std::clamp<std::int64_t>(visible(query) - first, 0, tile);
    if (mask_)
      for (std::int64_t j = 0; j < count; ++j)
        scores[j] += mask_[query * query_stride_ + (first + j) * key_stride_];
    if (padding_)
      for (std::int64_t j = 0; j < count; ++j)
        if (padding_[first + j]) scores[j] = -infinity<T>;
    std::fill(scores + count, scores + tile, -infinity<T>);
  }

 private:
  const AttentionShape& shape_;
  const std::int32_t* padding_ = nullptr;
  const T* mask_ = nullptr;
  std::int64_t query_stride_ = 0, key_stride_ = 0;
};

// scores (count, tile) = Q Kᵀ, masked.
template <class T>
void score_tile(const Masks<T>& masks, std::int64_t first_query, std::int64_t count,
                std::int64_t first_key, std::int64_t D, const T* q, std::int64_t width,
                const T* k_transposed, T* scores) {
  std::fill_n(scores, count * tile, T(0));
  multiply_tile<T>(count, tile, D, {q, width, 1}, k_transposed, tile, scores, tile);
  for (std::int64_t r = 0; r < count; ++r)
    masks.apply(first_query + r, first_key, scores + r * tile);
}

template <class T>
void forward_tile(const AttentionShape& shape, std::int64_t b, std::int64_t h,
                  std::int64_t first_query, const HeadsView& q, const HeadsView& k,
                  const HeadsView& v, const HeadsView& out, T* log_sums) {
  const std::int64_t D = shape.D, width = padded<T>(D);
  const std::int64_t count = std::min(tile, shape.T - first_query);
  Scratch<T> scratch(tile * (3 * width + D + tile));
  T* q_tile = scratch.take(tile, width);
  T* v_tile = scratch.take(tile, width);
  T* o_tile = scratch.take(tile, width);
  T* k_tile = scratch.take(D, tile);
  T* scores = scratch.take(tile, tile);
  std::array<T, tile> best, total{};
  best.fill(-infinity<T>);

  const Masks<T> masks(shape, b, h);
  load_tile<T>(rows_of<T>(q, b, h), first_query, count, D, static_cast<T>(shape.scale), q_tile,
               width);
  const std::int64_t last_key = masks.visible(first_query + count - 1);
  for (std::int64_t first_key = 0; first_key < last_key; first_key += tile) {
    const std::int64_t keys = std::min(tile, shape.S - first_key);
    load_transposed<T>(rows_of<T>(k, b, h), first_key, keys, D, k_tile);
    load_tile<T>(rows_of<T>(v, b, h), first_key, keys, D, T(1), v_tile, width);
    score_tile<T>(masks, first_query, count, first_key, D, q_tile, width, k_tile, scores);
    for (std::int64_t r = 0; r < count; ++r) {
      T* row = scores + r * tile;
      const T high = std::max(best[r], max_span(tile, row));
      if (high == -infinity<T> && !std::isnan(sum_span(tile, row))) {  // it has seen no key yet
        std::fill_n(row, tile, T(0));
        continue;
      }
      const T shrink = std::exp(best[r] - high);
      exp_shifted(tile, high, row, row);
      total[r] = total[r] * shrink + sum_span(tile, row);
      best[r] = high;
      if (first_key > 0)
        map_span<T>(
            width, [shrink](auto x) { return x * shrink; }, o_tile + r * width, o_tile + r * width);
    }
    multiply_tile<T>(count, width, keys, {scores, tile, 1}, v_tile, width, o_tile, width);
  }

  const Rows<T> to = rows_of<T>(out, b, h);
  for (std::int64_t r = 0; r < count; ++r) {
    const bool sees = total[r] > 0;
    const T factor = sees ? T(1) / total[r] : T(0);
    map_span<T>(
        D, [factor](auto x) { return x * factor; }, to[first_query + r], o_tile + r * width);
    log_sums[r] = sees ? best[r] + std::log(total[r]) : infinity<T>;
  }
}

template <class T>
void backward_head(const AttentionShape& shape, std::int64_t b, std::int64_t h, const HeadsView& q,
                   const HeadsView& k, const HeadsView& v, const HeadsView& out,
                   const HeadsView& dout, const T* log_sums, const AttentionGradients& gradients) {
  const std::int64_t D = shape.D, width = padded<T>(D), queries = tiles(shape.T) * tile;
  const T scale = static_cast<T>(shape.scale);
  Scratch<T> scratch(queries * (width + simd_width<T>)+5 * tile * width + 2 * D * tile +
                     2 * tile * tile);
  T* dq_rows = scratch.take(queries, width);
  T* deltas = scratch.take(queries, 1);
  T* q_tile = scratch.take(tile, width);
  T* k_rows = scratch.take(tile, width);
  T* dout_tile = scratch.take(tile, width);
  T* dk_tile = scratch.take(tile, width);
  T* dv_tile = scratch.take(tile, width);
  T* k_tile = scratch.take(D, tile);
  T* v_tile = scratch.take(D, tile);
  T* p = scratch.take(tile, tile);
  T* dp = scratch.take(tile, tile);

  const Masks<T> masks(shape, b, h);
  const Rows<T> dout_rows = rows_of<T>(dout, b, h), out_rows = rows_of<T>(out, b, h);
  for (std::int64_t t = 0; t < shape.T; ++t) deltas[t] = dot_span<T>(D, dout_rows[t], out_rows[t]);

  for (std::int64_t first_key = 0; first_key < shape.S; first_key += tile) {
    const std::int64_t keys = std::min(tile, shape.S - first_key);
    load_transposed<T>(rows_of<T>(k, b, h), first_key, keys, D, k_tile);
    load_transposed<T>(rows_of<T>(v, b, h), first_key, keys, D, v_tile);
    load_tile<T>(rows_of<T>(k, b, h), first_key, keys, D, T(1), k_rows, width);
    std::fill_n(dk_tile, tile * width, T(0));
    std::fill_n(dv_tile, tile * width, T(0));
    for (std::int64_t first = 0; first < shape.T; first += tile) {
      const std::int64_t count = std::min(tile, shape.T - first);
      if (masks.visible(first + count - 1) <= first_key) continue;
      load_tile<T>(rows_of<T>(q, b, h), first, count, D, scale, q_tile, width);
      load_tile<T>(dout_rows, first, count, D, T(1), dout_tile, width);
      score_tile<T>(masks, first, count, first_key, D, q_tile, width, k_tile, p);
      for (std::int64_t r = 0; r < count; ++r)
        exp_shifted(tile, log_sums[first + r], p + r * tile, p + r * tile);
      // dV += Pᵀ dO; dP = dO Vᵀ; dS = P (dP - Σ dO O); dQ += dS K; dK += dSᵀ Q.
      multiply_tile<T>(keys, width, count, {p, 1, tile}, dout_tile, width, dv_tile, width);
      std::fill_n(dp, count * tile, T(0));
      multiply_tile<T>(count, tile, D, {dout_tile, width, 1}, v_tile, tile, dp, tile);
      for (std::int64_t r = 0; r < count; ++r)
        map_span<T>(
            tile, [delta = deltas[first + r]](auto x, auto y) { return x * (y - delta); },
            dp + r * tile, p + r * tile, dp + r * tile);
      multiply_tile<T>(count, width, keys, {dp, tile, 1}, k_rows, width, dq_rows + first * width,
                       width);
      multiply_tile<T>(keys, width, count, {dp, 1, tile}, q_tile, width, dk_tile, width);
    }
    const Rows<T> dk = rows_of<T>(gradients.dk, b, h), dv = rows_of<T>(gradients.dv, b, h);
    for (std::int64_t r = 0; r < keys; ++r) {
      std::copy_n(dk_tile + r * width, D, dk[first_key + r]);
      std::copy_n(dv_tile + r * width, D, dv[first_key + r]);
    }
  }
  const Rows<T> dq = rows_of<T>(gradients.dq, b, h);
  for (std::int64_t t = 0; t < shape.T; ++t)
    map_span<T>(
        D, [scale](auto x) { return x * scale; }, dq[t], dq_rows + t * width);
}

// How many tasks of `queries` queries share a piece: waking a thread costs more than a small one.
std::int64_t tasks_a_piece(const AttentionShape& shape, std::int64_t queries) {
  constexpr std::int64_t flops_a_piece = 1'000'000;
  return 1 + flops_a_piece / std::max<std::int64_t>(1, 4 * queries * shape.S * shape.D);
}

}  // namespace

void attention_forward(const AttentionShape& shape, const HeadsView& q, const HeadsView& k,
                       const HeadsView& v, const HeadsView& out, Array& log_sums) {
  const std::int64_t query_tiles = tiles(shape.T);
  dispatch(shape.dtype, [&]<class T>() {
    T* sums = log_sums.mutable_values<T>().data();
    const std::int64_t grain = tasks_a_piece(shape, std::min(tile, shape.T));
    parallel_for(shape.B * shape.H * query_tiles, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t head = i / query_tiles, first = i % query_tiles * tile;
        forward_tile<T>(shape, head / shape.H, head % shape.H, first, q, k, v, out,
                        sums + head * shape.T + first);
      }
    });
  });
}

void attention_backward(const AttentionShape& shape, const HeadsView& q, const HeadsView& k,
                        const HeadsView& v, const HeadsView& out, const HeadsView& dout,
                        const Array& log_sums, const AttentionGradients& gradients) {
  dispatch(shape.dtype, [&]<class T>() {
    const T* sums = log_sums.values<T>().data();
    parallel_for(shape.B * shape.H, tasks_a_piece(shape, shape.T),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     backward_head<T>(shape, i / shape.H, i % shape.H, q, k, v, out, dout,
                                      sums + i * shape.T, gradients);
                 });
  });
}

}  // namespace tapestry
