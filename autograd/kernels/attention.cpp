#include "autograd/kernels/attention.hpp"

#include <array>
#include <cmath>

#include "autograd/kernels/rows.hpp"
#include "autograd/kernels/tile.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

bool sees_all(const AttentionShape& shape) { return !shape.causal && shape.window == 0; }

// A tile of queries and a tile of keys, and what of it causality and the window leave: query r sees
// the keys [start + r, edge + r), so that key j is seen by the queries [j + 1 - edge, j + 1 -
// start).
struct Pair {
  std::int64_t first_query, queries, first_key, keys, start = -tile, edge = tile;

  Pair(const AttentionShape& shape, std::int64_t query, std::int64_t key)
      : first_query(query),
        queries(std::min(tile, shape.T - query)),
        first_key(key),
        keys(std::min(tile, shape.S - key)) {
    const std::int64_t diagonal = shape.S - shape.T + query - key;
    if (shape.window > 0) start = diagonal + 1 - shape.window, edge = diagonal + shape.window;
    if (shape.causal) edge = diagonal + 1;
  }

  bool hidden() const { return edge + queries - 1 <= 0 || start >= keys; }
  bool cut() const { return edge < keys || start + queries - 1 > 0; }
  std::int64_t first_key_of(std::int64_t query) const {
    return std::clamp<std::int64_t>(start + query, 0, keys);
  }
  std::int64_t last_key_of(std::int64_t query) const {  // and one more, as below
    return std::clamp<std::int64_t>(edge + query, 0, keys);
  }
  std::int64_t first_query_of(std::int64_t key) const {
    return std::clamp<std::int64_t>(key + 1 - edge, 0, queries);
  }
  std::int64_t last_query_of(std::int64_t key) const {
    return std::clamp<std::int64_t>(key + 1 - start, 0, queries);
  }
};

// The keys that some of the queries [begin, end) see, in whole tiles.
struct KeyRange {
  std::int64_t first = 0, last;

  KeyRange(const AttentionShape& shape, std::int64_t begin, std::int64_t end) : last(shape.S) {
    if (sees_all(shape)) return;
    const auto in_tiles = [&](std::int64_t key) {
      return std::clamp<std::int64_t>(key / tile * tile, 0, shape.S);
    };
    first = in_tiles(Pair(shape, begin, 0).start);
    last = in_tiles(Pair(shape, end - 1, 0).edge + tile - 1);
  }
};

// Causality and the window cut a tile along its diagonals: its products skip what is hidden by
// strips of rows.
template <class F>
void for_each_strip(const Pair& pair, std::int64_t rows, F f) {
  const std::int64_t strip = pair.cut() ? 12 : tile;
  for (std::int64_t first = 0; first < rows; first += strip)
    f(first, std::min(strip, rows - first));
}

// Reads the additive mask and the padding of one (batch, head).
template <class T>
class Masks {
 public:
  Masks(const AttentionShape& shape, std::int64_t b, std::int64_t h) {
    if (!shape.key_padding.empty())
      padding_ = shape.key_padding.values<std::int32_t>().data() + b * shape.S;
    if (shape.mask.empty()) return;
    const std::array<std::int64_t, 4> index{b, h, 0, 0};
    std::int64_t stride = 1, offset = 0;
    for (int axis = -1; axis >= -shape.mask.rank(); --axis) {
      const std::int64_t step = shape.mask.dim(axis) == 1 ? 0 : stride;
      if (axis == -1) key_stride_ = step;
      if (axis == -2) query_stride_ = step;
      offset += index[axis + 4] * step;
      stride *= shape.mask.dim(axis);
    }
    mask_ = shape.mask.values<T>().data() + offset;
  }

  // Shifts and hides the scores of a pair; that of query r and key j stands at
  // scores[r * query_row + j * key_row].
  void apply(const Pair& pair, std::int64_t query_row, std::int64_t key_row, T* scores) const {
    if (mask_)
      for_each_score(pair, [&](std::int64_t r, std::int64_t j) {
        scores[r * query_row + j * key_row] +=
            mask_[(pair.first_query + r) * query_stride_ + (pair.first_key + j) * key_stride_];
      });
    if (padding_)
      for_each_score(pair, [&](std::int64_t r, std::int64_t j) {
        if (padding_[pair.first_key + j]) scores[r * query_row + j * key_row] = -infinity<T>;
      });
    if (!pair.cut()) return;
    for (std::int64_t r = 0; r < pair.queries; ++r)
      for (std::int64_t j = 0; j < pair.keys; ++j)
        if (j < pair.start + r || j >= pair.edge + r)
          scores[r * query_row + j * key_row] = -infinity<T>;
  }

 private:
  template <class F>
  static void for_each_score(const Pair& pair, F f) {
    for (std::int64_t r = 0; r < pair.queries; ++r)
      for (std::int64_t j = pair.first_key_of(r); j < pair.last_key_of(r); ++j) f(r, j);
  }

  const std::int32_t* padding_ = nullptr;
  const T* mask_ = nullptr;
  std::int64_t query_stride_ = 0, key_stride_ = 0;
};

// What the softmax of a tile's queries has seen so far.
template <class T>
struct Softmax {
  alignas(64) std::array<T, tile> high, total{}, shrink;
  Softmax() { high.fill(-infinity<T>); }

  // Scores (keys, tile) become e^(score - high), eight queries or so at a time down the keys; what
  // was summed before is worth `shrink` of itself.
  void take(const Pair& pair, T* scores) {
    constexpr std::int64_t lanes = simd_width<T>;
    for (std::int64_t r = 0; r < pair.queries; r += lanes) {
      const std::int64_t first = pair.first_key_of(r), last = pair.last_key_of(r + lanes - 1);
      const Simd<T> before = Simd<T>::load_aligned(&high[r]);
      Simd<T> largest = before;
      for (std::int64_t j = first; j < last; ++j)
        largest = max(largest, Simd<T>::load_aligned(scores + j * tile + r));
      // A query that has seen no key yet: e^(-inf - 0) = 0.
      const Simd<T> shift = select(largest == Simd<T>(-infinity<T>), Simd<T>(T(0)), largest);
      const Simd<T> shrunk = exp(before - shift);
      Simd<T> sum = Simd<T>::load_aligned(&total[r]) * shrunk;
      for (std::int64_t j = first; j < last; ++j) {
        const Simd<T> weight = exp(Simd<T>::load_aligned(scores + j * tile + r) - shift);
        weight.store_aligned(scores + j * tile + r);
        sum += weight;
      }
      for (std::int64_t j = 0; j < pair.keys; ++j)
        if (j < first || j >= last) Simd<T>(T(0)).store_aligned(scores + j * tile + r);
      largest.store_aligned(&high[r]);
      shrunk.store_aligned(&shrink[r]);
      sum.store_aligned(&total[r]);
    }
  }
};

// One head's keys of a range, and its values in rows padded to vector registers.
template <class T>
struct Keys {
  Rows<T> k, v;
  KeyRange range;
};

// Packing pays when several tiles of queries read it: a few queries read the rows where they are.
template <class T>
bool needs_packing(std::int64_t queries, std::int64_t D, const Rows<T>& v) {
  const bool aligned = D % simd_width<T> == 0 && v.time % simd_width<T> == 0 &&
                       reinterpret_cast<std::uintptr_t>(v.data) % (simd_width<T> * sizeof(T)) == 0;
  return queries > 16 || !aligned;
}

template <class T>
void forward_tile(const AttentionShape& shape, std::int64_t b, std::int64_t h,
                  std::int64_t first_query, const HeadsView& q, const Keys<T>& keys,
                  const HeadsView& out, T* highs, T* weights) {
  const std::int64_t D = shape.D, width = padded<T>(D);
  Scratch<T> scratch(tile * (width + D + tile));
  T* q_tile = scratch.take(D, tile);
  T* o_tile = scratch.take_zeros(tile, width);
  T* scores = scratch.take(tile, tile);  // (keys, queries)
  Softmax<T> softmax;

  const Masks<T> masks(shape, b, h);
  const std::int64_t count = std::min(tile, shape.T - first_query);
  load_transposed<T>(rows_of<T>(q, b, h), first_query, count, D, static_cast<T>(shape.scale),
                     q_tile);
  for (std::int64_t first_key = keys.range.first; first_key < keys.range.last; first_key += tile) {
    const Pair pair(shape, first_query, first_key);
    if (pair.hidden()) continue;
    const Rows<T> k_rows = keys.k.from(first_key - keys.range.first);
    const Rows<T> v_rows = keys.v.from(first_key - keys.range.first);
    std::fill_n(scores, pair.keys * tile, T(0));
    for_each_strip(pair, pair.keys, [&](std::int64_t j, std::int64_t rows) {
      constexpr std::int64_t step = 2 * simd_width<T>;
      const std::int64_t first = std::min(tile - step, pair.first_query_of(j) / step * step);
      const std::int64_t last = round_up(pair.last_query_of(j + rows - 1), step);
      multiply_tile<T>(rows, last - first, D, {k_rows[j], k_rows.time, 1}, q_tile + first, tile,
                       scores + j * tile + first, tile);
    });
    masks.apply(pair, 1, tile, scores);
    softmax.take(pair, scores);
    for (std::int64_t r = 0; r < count && first_key > keys.range.first; ++r)
      if (softmax.shrink[r] != T(1))
        map_span<T>(
            width, [shrink = softmax.shrink[r]](auto x) { return x * shrink; }, o_tile + r * width,
            o_tile + r * width);
    for_each_strip(pair, count, [&](std::int64_t r, std::int64_t rows) {
      const std::int64_t j = pair.first_key_of(r), depth = pair.last_key_of(r + rows - 1) - j;
      multiply_tile<T>(rows, width, depth, {scores + j * tile + r, 1, tile}, v_rows[j], v_rows.time,
                       o_tile + r * width, width);
    });
  }

  const Rows<T> to = rows_of<T>(out, b, h);
  for (std::int64_t r = 0; r < count; ++r) {
    const bool sees = softmax.total[r] != 0;  // NaN, too
    highs[r] = sees ? softmax.high[r] : T(0);
    weights[r] = sees ? T(1) / softmax.total[r] : T(0);
    map_span<T>(
        D, [weight = weights[r]](auto x) { return x * weight; }, to[first_query + r],
        o_tile + r * width);
  }
}

template <class T>
void backward_head(const AttentionShape& shape, std::int64_t b, std::int64_t h, const HeadsView& q,
                   const HeadsView& k, const HeadsView& v, const HeadsView& out,
                   const HeadsView& dout, const T* highs, const T* weights,
                   const AttentionGradients& gradients) {
  const std::int64_t D = shape.D, width = padded<T>(D), queries = round_up(shape.T, tile);
  const T scale = static_cast<T>(shape.scale);
  Scratch<T> scratch(queries * (3 * width + 1) + 3 * tile * width + 2 * D * tile + 2 * tile * tile);
  T* dq_rows = scratch.take_zeros(queries, width);
  T* q_rows = scratch.take(queries, width);
  T* dout_rows = scratch.take(queries, width);
  T* deltas = scratch.take(queries, 1);
  T* k_rows = scratch.take(tile, width);
  T* dk_tile = scratch.take(tile, width);
  T* dv_tile = scratch.take(tile, width);
  T* k_tile = scratch.take(D, tile);
  T* v_tile = scratch.take(D, tile);
  T* p = scratch.take(tile, tile);  // (queries, keys)
  T* dp = scratch.take(tile, tile);

  const Masks<T> masks(shape, b, h);
  pack<T>(rows_of<T>(q, b, h), shape.T, D, scale, q_rows, width);
  pack<T>(rows_of<T>(dout, b, h), shape.T, D, T(1), dout_rows, width);
  const Rows<T> out_rows = rows_of<T>(out, b, h), all_keys = rows_of<T>(k, b, h);
  for (std::int64_t t = 0; t < shape.T; ++t)
    deltas[t] = dot_span<T>(D, dout_rows + t * width, out_rows[t]);

  for (std::int64_t first_key = 0; first_key < shape.S; first_key += tile) {
    const std::int64_t keys = std::min(tile, shape.S - first_key);
    load_transposed<T>(all_keys, first_key, keys, D, T(1), k_tile);
    load_transposed<T>(rows_of<T>(v, b, h), first_key, keys, D, T(1), v_tile);
    pack<T>(all_keys.from(first_key), keys, D, T(1), k_rows, width);
    std::fill_n(dk_tile, tile * width, T(0));
    std::fill_n(dv_tile, tile * width, T(0));
    for (std::int64_t first = 0; first < shape.T; first += tile) {
      const Pair pair(shape, first, first_key);
      if (pair.hidden()) continue;
      const T* q_tile = q_rows + first * width;
      const T* dout_tile = dout_rows + first * width;
      std::fill_n(p, pair.queries * tile, T(0));
      std::fill_n(dp, pair.queries * tile, T(0));
      // P = e^(S - high) / Σ, dP = dO Vᵀ, dS = P (dP - Σ dO O), which takes dP's place.
      const auto columns = [&](std::int64_t r) {
        return round_up(pair.last_key_of(r), simd_width<T>);
      };
      for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
        const std::int64_t j = pair.first_key_of(r) / simd_width<T> * simd_width<T>;
        const std::int64_t seen = columns(r + rows - 1) - j;
        multiply_tile<T>(rows, seen, D, {q_tile + r * width, width, 1}, k_tile + j, tile,
                         p + r * tile + j, tile);
        multiply_tile<T>(rows, seen, D, {dout_tile + r * width, width, 1}, v_tile + j, tile,
                         dp + r * tile + j, tile);
      });
      masks.apply(pair, tile, 1, p);
      for (std::int64_t r = 0; r < pair.queries; ++r) {
        const std::int64_t n = columns(r);
        T* p_row = p + r * tile;
        T* dp_row = dp + r * tile;
        map_span<T>(
            n,
            [high = highs[first + r], weight = weights[first + r]](auto x) {
              return exp(x - high) * weight;
            },
            p_row, p_row);
        map_span<T>(
            n, [delta = deltas[first + r]](auto x, auto y) { return x * (y - delta); }, dp_row,
            p_row, dp_row);
        std::fill(p_row + n, p_row + tile, T(0));
        std::fill(dp_row + n, dp_row + tile, T(0));
      }
      // dV += Pᵀ dO, dK += dSᵀ Q, dQ += dS K.
      for_each_strip(pair, keys, [&](std::int64_t j, std::int64_t rows) {
        const std::int64_t r = pair.first_query_of(j);
        const std::int64_t depth = pair.last_query_of(j + rows - 1) - r;
        multiply_tile<T>(rows, width, depth, {p + r * tile + j, 1, tile}, dout_tile + r * width,
                         width, dv_tile + j * width, width);
        multiply_tile<T>(rows, width, depth, {dp + r * tile + j, 1, tile}, q_tile + r * width,
                         width, dk_tile + j * width, width);
      });
      for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
        const std::int64_t j = pair.first_key_of(r), depth = pair.last_key_of(r + rows - 1) - j;
        multiply_tile<T>(rows, width, depth, {dp + r * tile + j, tile, 1}, k_rows + j * width,
                         width, dq_rows + (first + r) * width, width);
      });
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
  const std::int64_t keys = shape.window > 0 ? std::min(shape.S, 2 * shape.window) : shape.S;
  return 1 + flops_a_piece / std::max<std::int64_t>(1, 4 * queries * keys * shape.D);
}

// Of one product of queries with the keys they see.
double flops_of_product(const AttentionShape& shape) {
  std::int64_t pairs = sees_all(shape) ? shape.T * shape.S : 0;
  for (std::int64_t t = 0; t < shape.T && !sees_all(shape); ++t) {
    const Pair pair(shape, t, 0);
    pairs += std::clamp<std::int64_t>(pair.edge, 0, shape.S) -
             std::clamp<std::int64_t>(pair.start, 0, shape.S);
  }
  return 2 * static_cast<double>(shape.B * shape.H * shape.D) * static_cast<double>(pairs);
}

}  // namespace

void attention_forward(const AttentionShape& shape, const HeadsView& q, const HeadsView& k,
                       const HeadsView& v, const HeadsView& out, Array& highs, Array& weights) {
  profile::add_flops(2 * flops_of_product(shape));
  // A piece is some query tiles of one head, which share its packed keys and values.
  constexpr std::int64_t queries_a_piece = 8 * tile;
  const std::int64_t pieces = (shape.T + queries_a_piece - 1) / queries_a_piece;
  dispatch(shape.dtype, [&]<class T>() {
    T* high = highs.mutable_values<T>().data();
    T* weight = weights.mutable_values<T>().data();
    const auto run_piece = [&](std::int64_t head, std::int64_t begin, std::int64_t end) {
      const std::int64_t b = head / shape.H, h = head % shape.H, width = padded<T>(shape.D);
      const KeyRange range(shape, begin, end);
      Keys<T> keys{rows_of<T>(k, b, h).from(range.first), rows_of<T>(v, b, h).from(range.first),
                   range};
      const std::int64_t count = range.last - range.first;
      const bool pack_them = needs_packing(end - begin, shape.D, keys.v);
      Scratch<T> scratch(pack_them ? 2 * count * width : 0);
      for (Rows<T>* rows : {&keys.k, &keys.v}) {
        if (!pack_them) break;
        T* packed = scratch.take(count, width);
        pack<T>(*rows, count, shape.D, T(1), packed, width);
        *rows = {packed, width};
      }
      for (std::int64_t first = begin; first < end; first += tile) {
        const std::int64_t at = head * shape.T + first;
        forward_tile<T>(shape, b, h, first, q, keys, out, high + at, weight + at);
      }
    };
    const std::int64_t grain = tasks_a_piece(shape, std::min(queries_a_piece, shape.T));
    parallel_for(shape.B * shape.H * pieces, grain, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t begin = i % pieces * queries_a_piece;
        run_piece(i / pieces, begin, std::min(shape.T, begin + queries_a_piece));
      }
    });
  });
}

void attention_backward(const AttentionShape& shape, const HeadsView& q, const HeadsView& k,
                        const HeadsView& v, const HeadsView& out, const HeadsView& dout,
                        const Array& highs, const Array& weights,
                        const AttentionGradients& gradients) {
  profile::add_flops(5 * flops_of_product(shape));
  dispatch(shape.dtype, [&]<class T>() {
    const T* high = highs.values<T>().data();
    const T* weight = weights.values<T>().data();
    parallel_for(shape.B * shape.H, tasks_a_piece(shape, shape.T),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     backward_head<T>(shape, i / shape.H, i % shape.H, q, k, v, out, dout,
                                      high + i * shape.T, weight + i * shape.T, gradients);
                 });
  });
}

}  // namespace tapestry
