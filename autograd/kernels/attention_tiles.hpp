#pragma once

#include <array>

#include "autograd/kernels/attention.hpp"
#include "autograd/kernels/tile.hpp"

// The visible keys of each query of a tile, for attention_forward.cpp and attention_backward.cpp.
namespace tapestry {

inline bool sees_all(const AttentionShape& shape) { return !shape.causal && shape.window == 0; }

// Returns the document starts (T) of example b's queries, or null if there are none.
inline const std::int32_t* document_starts(const AttentionShape& shape, std::int64_t b) {
  if (shape.document_starts.empty()) return nullptr;
  return shape.document_starts.values<std::int32_t>().data() + b * shape.T;
}

// A tile of queries of example b and a tile of keys, both indexed from the tile's first. Query r
// sees the keys [start + r, edge + r) of its own document, so key j is seen by the queries [j + 1 -
// edge, j + 1 - start). Document starts never decrease.
struct TilePair {
  std::int64_t first_query, queries, first_key, keys, start = -tile, edge = tile;
  const std::int32_t* documents = nullptr;  // starts of the queries' documents; or null

  TilePair(const AttentionShape& shape, std::int64_t b, std::int64_t query, std::int64_t key)
      : first_query(query),
        queries(std::min(tile, shape.T - query)),
        first_key(key),
        keys(std::min(tile, shape.S - key)) {
    if (const std::int32_t* starts = document_starts(shape, b)) documents = starts + query;
    const std::int64_t diagonal = shape.S - shape.T + query - key;
    if (shape.window > 0) start = diagonal + 1 - shape.window, edge = diagonal + shape.window;
    if (shape.causal) edge = diagonal + 1;
  }

  bool hidden() const {  // Returns whether no query sees a key.
    return edge + queries - 1 <= 0 || start >= keys || document(0) >= keys;
  }
  bool cut() const {  // Returns whether some queries do not see all keys.
    return edge < keys || start + queries - 1 > 0 || document(queries - 1) > 0;
  }

  // Return the range [begin, end) of the keys that a query sees, and of the queries that see a key.
  std::int64_t keys_begin(std::int64_t query) const {
    return std::clamp<std::int64_t>(std::max(start + query, document(query)), 0, keys);
  }
  std::int64_t keys_end(std::int64_t query) const {
    return std::clamp<std::int64_t>(edge + query, 0, keys);
  }
  std::int64_t queries_begin(std::int64_t key) const {
    return std::clamp<std::int64_t>(key + 1 - edge, 0, queries);
  }
  std::int64_t queries_end(std::int64_t key) const {
    const std::int64_t end = std::clamp<std::int64_t>(key + 1 - start, 0, queries);
    return documents ? std::upper_bound(documents, documents + end, first_key + key) - documents
                     : end;
  }
  std::int64_t document(std::int64_t query) const {  // returns the first key of a query's document
    return documents ? documents[query] - first_key : -tile;
  }
};

// Calls f(first, count) for strips of the rows of a product of tiles. If the diagonal cuts the
// tile, strips are narrow, so that products skip most of the hidden elements.
template <class F>
void for_each_strip(const TilePair& pair, std::int64_t rows, F f) {
  const std::int64_t strip = pair.cut() && rows > 16 ? 12 : tile;
  for (std::int64_t first = 0; first < rows; first += strip)
    f(first, std::min(strip, rows - first));
}

// The additive mask and the key padding of one (batch, head).
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

  // Adds the mask to the scores of a pair, and sets the scores of padding keys to -inf. The score
  // of query r and key j is scores[r * query_stride + j * key_stride].
  void apply(const TilePair& pair, std::int64_t query_stride, std::int64_t key_stride,
             T* scores) const {
    if (mask_)
      for (std::int64_t r = 0; r < pair.queries; ++r)
        for (std::int64_t j = pair.keys_begin(r); j < pair.keys_end(r); ++j)
          scores[r * query_stride + j * key_stride] +=
              mask_[(pair.first_query + r) * query_stride_ + (pair.first_key + j) * key_stride_];
    for (std::int64_t j = 0; padding_ && j < pair.keys; ++j)
      for (std::int64_t r = 0; padding_[pair.first_key + j] && r < pair.queries; ++r)
        scores[r * query_stride + j * key_stride] = -infinity<T>;
  }

 private:
  const std::int32_t* padding_ = nullptr;
  const T* mask_ = nullptr;
  std::int64_t query_stride_ = 0, key_stride_ = 0;
};

// Returns the indices first, first + 1, … of a register's lanes as numbers.
template <class T>
Simd<T> lane_indices(std::int64_t first) {
  alignas(64) static constexpr auto lanes = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array{T(i)...};
  }
  (std::make_integer_sequence<int, simd_width<T>>());
  return Simd<T>::load_aligned(lanes.data()) + Simd<T>(T(first));
}

// Returns the grain of a parallel loop over tasks of `queries` queries each. Small tasks share a
// piece, because waking a thread costs more than running one.
inline std::int64_t tasks_a_piece(const AttentionShape& shape, std::int64_t queries) {
  constexpr std::int64_t flops_a_piece = 1'000'000;
  const std::int64_t keys = shape.window > 0 ? std::min(shape.S, 2 * shape.window) : shape.S;
  return 1 + flops_a_piece / std::max<std::int64_t>(1, 4 * queries * keys * shape.D);
}

// Returns the operations of one product of the queries with the keys that they see, such as q kᵀ.
inline double flops_of_product(const AttentionShape& shape) {
  // Examples with different documents.
  const std::int64_t examples = shape.document_starts.empty() ? 1 : shape.B;
  std::int64_t pairs = sees_all(shape) ? shape.T * shape.S : 0;
  for (std::int64_t b = 0; b < examples && !sees_all(shape); ++b)
    for (std::int64_t t = 0; t < shape.T; ++t) {
      const TilePair pair(shape, b, t, 0);
      pairs += std::clamp<std::int64_t>(pair.edge, 0, shape.S) -
               std::clamp<std::int64_t>(std::max(pair.start, pair.document(0)), 0, shape.S);
    }
  return 2.0 * (shape.B / std::max<std::int64_t>(1, examples) * shape.H * shape.D) * pairs;
}

}  // namespace tapestry
