#include <array>

#include "autograd/kernels/attention.hpp"
#include "autograd/kernels/attention_one_query.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// The keys that some of the queries [begin, end) see, in whole tiles.
struct KeyRange {
  std::int64_t first = 0, last;

  KeyRange(const AttentionShape& shape, std::int64_t b, std::int64_t begin, std::int64_t end)
      : last(shape.S) {
    if (sees_all(shape)) return;
    const auto in_tiles = [&](std::int64_t key) {
      return std::clamp<std::int64_t>(key / tile * tile, 0, shape.S);
    };
    const TilePair from(shape, b, begin, 0);
    first = in_tiles(std::max(from.start, from.document(0)));
    last = in_tiles(TilePair(shape, b, end - 1, 0).edge + tile - 1);
  }
};

// The running softmax of a tile's queries: the largest score of each, the sum of e^(score - high),
// and the factor by which the last tile of keys scales earlier sums.
template <class T>
struct Softmax {
  static constexpr std::int64_t lanes = simd_width<T>;
  alignas(64) std::array<T, tile> high, total{}, shrink;
  Softmax() { high.fill(-infinity<T>); }

  // Replaces scores (keys, side) by e^(score - high), and by 0 where a query does not see the key,
  // for as many queries at a time as a register holds.
  void take(const TilePair& pair, T* scores, std::int64_t side) {
    for (std::int64_t r = 0; r < pair.queries; r += lanes)
      pair.cut() ? take_lanes<true>(pair, r, scores + r, side)
                 : take_lanes<false>(pair, r, scores + r, side);
  }

 private:
  template <bool cut>
  void take_lanes(const TilePair& pair, std::int64_t r, T* scores, std::int64_t side) {
    const std::int64_t first = pair.keys_begin(r), last = pair.keys_end(r + lanes - 1);
    const Ends ends(pair, r);
    const auto score = [&](std::int64_t j) {
      const Simd<T> x = Simd<T>::load_aligned(scores + j * side);
      return cut ? select(ends.see(j), x, Simd<T>(-infinity<T>)) : x;
    };
    const Simd<T> before = Simd<T>::load_aligned(&high[r]);
    Simd<T> largest = before;
    for (std::int64_t j = first; j < last; ++j) largest = max(largest, score(j));
    // The largest score of a query without keys is -inf: it is shifted by 0, because e^-inf = 0.
    const Simd<T> shift = select(largest == Simd<T>(-infinity<T>), Simd<T>(T(0)), largest);
    const Simd<T> shrunk = exp(before - shift);
    Simd<T> sum = Simd<T>::load_aligned(&total[r]) * shrunk;
    for (std::int64_t j = first; j < last; ++j) {
      const Simd<T> weight = exp(score(j) - shift);
      weight.store_aligned(scores + j * side);
      sum += weight;
    }
    for (std::int64_t j = 0; j < first; ++j) Simd<T>(T(0)).store_aligned(scores + j * side);
    for (std::int64_t j = last; j < pair.keys; ++j) Simd<T>(T(0)).store_aligned(scores + j * side);
    largest.store_aligned(&high[r]);
    shrunk.store_aligned(&shrink[r]);
    sum.store_aligned(&total[r]);
  }

  // The keys [begin, end) that the queries of a register's lanes see.
  struct Ends {
    Simd<T> begin, end;
    Ends(const TilePair& pair, std::int64_t r)
        : begin(lane_indices<T>(pair.start + r)), end(lane_indices<T>(pair.edge + r)) {
      if (!pair.documents) return;
      alignas(64) std::array<T, simd_width<T>> documents{};
      for (std::int64_t i = 0; i < simd_width<T> && r + i < pair.queries; ++i)
        documents[i] = pair.document(r + i);
      begin = max(begin, Simd<T>::load_aligned(documents.data()));
    }
    auto see(std::int64_t j) const { return Simd<T>(T(j)) >= begin && Simd<T>(T(j)) < end; }
  };
};

// The keys and values of one head in a range, in rows that products can read.
template <class T>
struct Keys {
  Rows<T> k, v;
  KeyRange range;
};

// Returns whether keys and values must be packed. Products read rows of whole aligned registers.
// Packing also pays if more than 16 queries read the copies; for fewer, aligned rows are read
// without copies.
template <class T>
bool needs_packing(std::int64_t queries, std::int64_t D, const Rows<T>& v) {
  const bool aligned = D % simd_width<T> == 0 && v.time % simd_width<T> == 0 &&
                       reinterpret_cast<std::uintptr_t>(v.data) % (simd_width<T> * sizeof(T)) == 0;
  return queries > 16 || !aligned;
}

// One tile of queries and all keys of a range.
template <class T>
class ForwardTile {
 public:
  ForwardTile(const AttentionShape& shape, std::int64_t b, std::int64_t h, const Keys<T>& keys,
              Scratch<T>& scratch)
      : shape_(shape),
        b_(b),
        keys_(keys),
        masks_(shape, b, h),
        width_(padded<T>(shape.D)),
        side_(side_of_tile(std::max(shape.T, shape.S))),
        q_tile_(scratch.take(shape.D, side_)),
        y_tile_(scratch.take(side_, width_)),
        scores_(scratch.take(side_, side_)) {}

  // Returns the number of elements that a tile takes.
  static std::int64_t elements(const AttentionShape& shape) {
    const std::int64_t side = side_of_tile(std::max(shape.T, shape.S));
    return side * (padded<T>(shape.D) + shape.D + side);
  }

  // Computes the queries [first_query, first_query + tile), or as many as there are.
  void run(std::int64_t first_query, Rows<T> q, Rows<T> y, T* highs, T* weights) {
    const std::int64_t count = std::min(tile, shape_.T - first_query);
    load_transposed<T>(q.from(first_query), count, shape_.D, shape_.scale, q_tile_, side_);
    Into into = Into::added_to_zeros;
    for (std::int64_t key = keys_.range.first; key < keys_.range.last; key += tile) {
      const TilePair pair(shape_, b_, first_query, key);
      if (pair.hidden()) continue;
      multiply_queries_and_keys(pair);
      masks_.apply(pair, 1, side_, scores_);
      softmax_.take(pair, scores_, side_);
      if (into == Into::added_to) shrink_output(count);
      add_values(pair, into);
      into = Into::added_to;
    }
    if (into != Into::added_to) std::fill_n(y_tile_, count * width_, T(0));
    const std::span totals(softmax_.total.data(), count);
    const bool all_sum = std::ranges::find(totals, T(0)) == totals.end();
    const std::array<bool, tile> sees = all_sum ? std::array<bool, tile>{} : see_keys(first_query);
    for (std::int64_t r = 0; r < count; ++r) {
      const bool sums = totals[r] != 0;  // true for NaN
      highs[r] = sums ? softmax_.high[r] : T(0);
      weights[r] = sums ? T(1) / totals[r] : sees[r] ? std::numeric_limits<T>::quiet_NaN() : T(0);
      map_span(shape_.D, {y_tile_ + r * width_}, y[first_query + r],
               [weight = weights[r]](auto x) { return x * weight; });
    }
  }

 private:
  // Returns which queries of the tile see a key. If all scores of such a query are -inf, they have
  // overflowed, and its weight must be NaN, not 0 as for a query without keys.
  std::array<bool, tile> see_keys(std::int64_t first_query) {
    std::array<bool, tile> sees{};
    for (std::int64_t key = keys_.range.first; key < keys_.range.last; key += tile) {
      const TilePair pair(shape_, b_, first_query, key);
      if (pair.hidden()) continue;
      std::fill_n(scores_, side_ * side_, T(0));
      masks_.apply(pair, 1, side_, scores_);
      for (std::int64_t r = 0; r < pair.queries; ++r)
        for (std::int64_t j = pair.keys_begin(r); j < pair.keys_end(r); ++j)
          sees[r] |= scores_[j * side_ + r] != -infinity<T>;
    }
    return sees;
  }

  // Computes Sᵀ = K Qᵀ.
  void multiply_queries_and_keys(const TilePair& pair) {
    const Rows<T> k = keys_.k.from(pair.first_key - keys_.range.first);
    for_each_strip(pair, pair.keys, [&](std::int64_t j, std::int64_t rows) {
      const std::int64_t step = simd_width<T>;
      const std::int64_t first = std::min(side_ - step, pair.queries_begin(j) / step * step);
      const std::int64_t last = round_up(pair.queries_end(j + rows - 1), step);
      if (last <= first) return;  // the documents have ended
      multiply_tile<T>(rows, last - first, shape_.D, {k[j], k.time, 1}, q_tile_ + first, side_,
                       scores_ + j * side_ + first, side_, Into::written);
    });
  }

  void shrink_output(std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) {
      const T shrink = softmax_.shrink[r];
      T* row = y_tile_ + r * width_;
      if (shrink != T(1)) map_span(width_, {row}, row, [shrink](auto x) { return x * shrink; });
    }
  }

  // Computes Y += P V.
  void add_values(const TilePair& pair, Into into) {
    const Rows<T> v = keys_.v.from(pair.first_key - keys_.range.first);
    for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
      const std::int64_t j = pair.keys_begin(r), depth = pair.keys_end(r + rows - 1) - j;
      multiply_tile<T>(rows, width_, depth, {scores_ + j * side_ + r, 1, side_}, v[j], v.time,
                       y_tile_ + r * width_, width_, into);
    });
  }

  const AttentionShape& shape_;
  std::int64_t b_;
  const Keys<T>& keys_;
  Masks<T> masks_;
  std::int64_t width_;  // D, rounded up to whole registers
  std::int64_t side_;   // the distance between rows of q_tile_ and scores_
  T* q_tile_;           // (D, queries), times the scale
  T* y_tile_;           // (queries, width)
  T* scores_;           // (keys, queries)
  Softmax<T> softmax_;
};

// Computes the queries [begin, end) of one head tile by tile, with the same packed keys.
template <class T>
void forward_queries(const AttentionShape& of_all, const AttentionViews& views, std::int64_t head,
                     std::int64_t begin, std::int64_t end, Scratch<T>& scratch, T* highs,
                     T* weights) {
  const std::int64_t b = head / of_all.H, h = head % of_all.H, width = padded<T>(of_all.D);
  AttentionShape of_example;
  if (!of_all.key_counts.empty()) {
    of_example = of_all;
    of_example.S = of_all.key_counts.values<std::int32_t>()[b];
  }
  const AttentionShape& shape = of_all.key_counts.empty() ? of_all : of_example;
  const KeyRange range(shape, b, begin, end);
  Keys<T> keys{.k = rows_of<T>(views.k, b, h / shape.group).from(range.first),
               .v = rows_of<T>(views.v, b, h / shape.group).from(range.first),
               .range = range};
  const std::int64_t count = range.last - range.first;
  const Rows<T> q = rows_of<T>(views.q, b, h), y = rows_of<T>(views.y, b, h);
  if (shape.T == 1)
    return ForwardQuery<T>(shape, b, h, range.first, range.last, scratch)
        .run(q[0], keys.k, keys.v, y[0], highs + head, weights + head);
  const bool pack_them = needs_packing(end - begin, shape.D, keys.v);
  scratch.begin((pack_them ? 2 * count * width : 0) + ForwardTile<T>::elements(shape));
  for (Rows<T>* rows : {&keys.k, &keys.v}) {
    if (!pack_them) break;
    T* packed = scratch.take(count, width);
    pack<T>(*rows, count, shape.D, T(1), packed, width);
    *rows = {packed, width};
  }
  for (std::int64_t first = begin, keys_end = scratch.used(); first < end; first += tile) {
    const std::int64_t at = head * shape.T + first;
    scratch.give_back_to(keys_end);
    ForwardTile<T>(shape, b, h, keys, scratch).run(first, q, y, highs + at, weights + at);
  }
}

}  // namespace

void attention_forward(const AttentionShape& shape, const AttentionViews& views, Array& highs,
                       Array& weights) {
  profile::add_flops(2 * flops_of_product(shape));
  constexpr std::int64_t queries_a_task = 8 * tile;
  const std::int64_t tasks_a_head = (shape.T + queries_a_task - 1) / queries_a_task;
  const std::int64_t grain = tasks_a_piece(shape, std::min(queries_a_task, shape.T));
  dispatch(shape.dtype, [&]<class T>() {
    T* high = highs.mutable_values<T>().data();
    T* weight = weights.mutable_values<T>().data();
    parallel_for(
        shape.B * shape.H * tasks_a_head, grain, [&](std::int64_t first, std::int64_t last) {
          Scratch<T> scratch;
          for (std::int64_t i = first; i < last; ++i) {
            const std::int64_t begin = i % tasks_a_head * queries_a_task;
            forward_queries<T>(shape, views, i / tasks_a_head, begin,
                               std::min(shape.T, begin + queries_a_task), scratch, high, weight);
          }
        });
  });
}

}  // namespace tapestry
