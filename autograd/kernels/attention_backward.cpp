#include "autograd/kernels/attention_tiles.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// The chunks of keys of a head. They depend on the shape only, and there are several if heads are
// few.
struct KeyChunks {
  std::int64_t keys, count;

  explicit KeyChunks(const AttentionShape& shape) {
    constexpr std::int64_t enough_tasks = 64, most = 4, least_keys = 2 * tile;
    const std::int64_t wanted =
        enough_tasks / std::max<std::int64_t>(1, shape.B * shape.H / shape.group);
    const std::int64_t pieces =
        std::clamp<std::int64_t>(std::min(wanted, shape.S / least_keys), 1, most);
    keys = std::max(tile, round_up((shape.S + pieces - 1) / pieces, tile));
    count = std::max<std::int64_t>(1, (shape.S + keys - 1) / keys);
  }
};

// The backward pass of the keys [first_key, last_key) of one (batch, head). With S = scale Q Kᵀ, P
// = softmax(S) and Y = P V: dV = Pᵀ dY, dP = dY Vᵀ, dS = P ⊙ (dP - δ) where δ = Σ dY ⊙ Y of each
// query, dQ = scale dS K, and dK = scale dSᵀ Q. P is recomputed for each tile of keys and the
// queries that see it.
template <class T>
class BackwardKeys {
 public:
  BackwardKeys(const AttentionShape& shape, std::int64_t b, std::int64_t h, std::int64_t first_key,
               std::int64_t last_key, const T* highs, const T* weights, Scratch<T>& scratch)
      : shape_(shape),
        b_(b),
        h_(h),
        first_key_(first_key),
        last_key_(last_key),
        masks_(shape, b, h),
        highs_(highs),
        weights_(weights),
        tiles_(scratch, queries_, side_, D_, width_) {}

  // Returns the number of elements that the tiles take.
  static std::int64_t elements(const AttentionShape& shape) {
    const std::int64_t side = side_of_tile(std::max(shape.T, shape.S));
    return Tiles::elements(round_up(shape.T, side), side, shape.D, padded<T>(shape.D));
  }

  // Computes the gradients; dq (T, D) has the part of these keys. The first head of a group that
  // shares keys and values overwrites dk and dv, and the others add to them in order.
  void run(const AttentionViews& views, const AttentionGradients& gradients, Rows<T> dq) {
    const auto [first_query, last_query] = visible_queries();
    load_queries(rows_of<T>(views.q, b_, h_), rows_of<T>(views.y, b_, h_),
                 rows_of<T>(gradients.dy, b_, h_), first_query, last_query);
    const std::int64_t shared = h_ / shape_.group;
    const Rows<T> k = rows_of<T>(views.k, b_, shared), v = rows_of<T>(views.v, b_, shared);
    const Rows<T> dk = rows_of<T>(gradients.dk, b_, shared),
                  dv = rows_of<T>(gradients.dv, b_, shared);
    const bool writes_keys = reads_rows() && shape_.group == 1;
    for (std::int64_t key = first_key_; key < last_key_; key += tile) {
      load_keys(k.from(key), v.from(key), key);
      if (writes_keys) dk_ = dk.from(key), dv_ = dv.from(key);
      Into into = Into::added_to_zeros;
      for (std::int64_t query = first_query; query < last_query; query += tile) {
        const TilePair pair(shape_, b_, query, key);
        if (pair.hidden()) continue;
        compute_probabilities(pair);
        compute_score_gradients(pair);
        add_to_keys_and_values(pair, into);
        add_to_queries(pair);
        into = Into::added_to;
      }
      for (std::int64_t j = 0; j < std::min(tile, last_key_ - key); ++j) {
        if (into != Into::added_to) std::fill_n(dk_[j], D_, T(0)), std::fill_n(dv_[j], D_, T(0));
        if (writes_keys) continue;
        send(dk_[j], dk[key + j]);
        send(dv_[j], dv[key + j]);
      }
    }
    for (std::int64_t t = 0; t < shape_.T; ++t)
      map_span(D_, {tiles_.dq + t * width_}, dq[t], [scale = scale_](auto x) { return x * scale; });
  }

 private:
  // The copies of operands and results of one thread. Rows of D elements are padded to `width`.
  struct Tiles {
    T* q;             // (T, width), times the scale, so that S = q kᵀ and dK needs no factor
    T* dq;            // (T, width), multiplied by the scale at the end
    T* dy;            // (T, width)
    T* delta;         // (T)
    T* k;             // (keys, width)
    T* k_transposed;  // (D, keys)
    T* v_transposed;  // (D, keys)
    T* dk;            // (keys, width)
    T* dv;            // (keys, width)
    T* p;             // (queries, keys)
    T* ds;            // (queries, keys); first dP

    Tiles(Scratch<T>& scratch, std::int64_t queries, std::int64_t side, std::int64_t D,
          std::int64_t width)
        : q(scratch.take(queries, width)),
          dq(scratch.take_zeros(queries, width)),
          dy(scratch.take(queries, width)),
          delta(scratch.take(queries, 1)),
          k(scratch.take(side, width)),
          k_transposed(scratch.take(D, side)),
          v_transposed(scratch.take(D, side)),
          dk(scratch.take(side, width)),
          dv(scratch.take(side, width)),
          p(scratch.take(side, side)),
          ds(scratch.take(side, side)) {}

    static std::int64_t elements(std::int64_t queries, std::int64_t side, std::int64_t D,
                                 std::int64_t width) {
      return queries * (3 * width + 1) + 3 * side * width + 2 * D * side + 2 * side * side;
    }
  };

  // Returns whether tiles read dY and K, and write dK and dV, without copies. Copies pay if they
  // are read by several tiles, and have whole registers.
  bool reads_rows() const { return shape_.T <= tile && D_ == width_; }

  // Writes this head's gradient of one key, or adds it to those of other heads.
  void send(const T* from, T* to) const {
    if (h_ % shape_.group == 0)
      map_span(D_, {from}, to, [](auto x) { return x; });
    else
      map_span(D_, {to, from}, to, [](auto sum, auto x) { return sum + x; });
  }

  // Returns the range of queries, in whole tiles, that see one of the keys.
  std::pair<std::int64_t, std::int64_t> visible_queries() const {
    std::int64_t first = shape_.T, last = 0;
    for (std::int64_t query = 0; query < shape_.T; query += tile)
      for (std::int64_t key = first_key_; key < last_key_; key += tile)
        if (!TilePair(shape_, b_, query, key).hidden())
          first = std::min(first, query), last = std::min(shape_.T, query + tile);
    return {first, last};
  }

  void load_queries(Rows<T> q, Rows<T> y, Rows<T> dy, std::int64_t first, std::int64_t last) {
    if (first >= last) return;
    pack<T>(q.from(first), last - first, D_, scale_, tiles_.q + first * width_, width_);
    if (reads_rows())
      dy_ = dy;
    else
      pack<T>(dy.from(first), last - first, D_, T(1), dy_[first], width_);
    for (std::int64_t t = first; t < last; ++t) tiles_.delta[t] = dot_span<T>(D_, dy_[t], y[t]);
  }

  void load_keys(Rows<T> k, Rows<T> v, std::int64_t first) {
    const std::int64_t count = std::min(tile, shape_.S - first);
    load_transposed<T>(k, count, D_, T(1), tiles_.k_transposed, side_);
    load_transposed<T>(v, count, D_, T(1), tiles_.v_transposed, side_);
    if (reads_rows())
      k_ = k;
    else
      pack<T>(k, count, D_, T(1), k_.data, width_);
  }

  // Computes product (queries, keys) = a (queries, D) · b (D, keys) where a query sees a key.
  void multiply_visible(const TilePair& pair, Rows<T> a, const T* b, T* product) const {
    for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
      const std::int64_t j = pair.keys_begin(r) / simd_width<T> * simd_width<T>;
      multiply_tile<T>(rows, padded_end(pair, r + rows - 1) - j, D_, {a[r], a.time, 1}, b + j,
                       side_, product + r * side_ + j, side_, Into::written);
    });
  }

  // Computes row[i] = f(row[i], i…) for the keys that query r sees, and 0 for other keys.
  template <class F>
  void map_visible(const TilePair& pair, std::int64_t r, T* row, F f) const {
    constexpr std::int64_t lanes = simd_width<T>;
    const std::int64_t begin = pair.keys_begin(r), end = pair.keys_end(r);
    for (std::int64_t j = 0; j < side_; j += lanes) {
      Simd<T> x(T(0));
      if (j < end && j + lanes > begin) x = f(Simd<T>::load_aligned(row + j), j);
      if (j < begin || j + lanes > end) {
        const Simd<T> index = lane_indices<T>(j);
        x = select(index >= Simd<T>(T(begin)) && index < Simd<T>(T(end)), x, Simd<T>(T(0)));
      }
      x.store_aligned(row + j);
    }
  }

  // Computes P = e^(S - high) · weight.
  void compute_probabilities(const TilePair& pair) {
    multiply_visible(pair, q_.from(pair.first_query), tiles_.k_transposed, tiles_.p);
    masks_.apply(pair, side_, 1, tiles_.p);
    for (std::int64_t r = 0; r < pair.queries; ++r) {
      const Simd<T> high(highs_[pair.first_query + r]), weight(weights_[pair.first_query + r]);
      map_visible(pair, r, tiles_.p + r * side_,
                  [&](Simd<T> x, std::int64_t) { return exp(x - high) * weight; });
    }
  }

  // Computes dP = dY Vᵀ and dS = P ⊙ (dP - δ).
  void compute_score_gradients(const TilePair& pair) {
    multiply_visible(pair, dy_.from(pair.first_query), tiles_.v_transposed, tiles_.ds);
    for (std::int64_t r = 0; r < pair.queries; ++r) {
      const Simd<T> delta(tiles_.delta[pair.first_query + r]);
      const T* p = tiles_.p + r * side_;
      map_visible(pair, r, tiles_.ds + r * side_, [&](Simd<T> dp, std::int64_t j) {
        return Simd<T>::load_aligned(p + j) * (dp - delta);
      });
    }
  }

  // Computes dV += Pᵀ dY and dK += dSᵀ Q.
  void add_to_keys_and_values(const TilePair& pair, Into into) {
    for_each_strip(pair, pair.keys, [&](std::int64_t j, std::int64_t rows) {
      const std::int64_t r = pair.queries_begin(j), depth = pair.queries_end(j + rows - 1) - r;
      const std::int64_t query = pair.first_query + r;
      multiply_tile<T>(rows, width_, depth, {tiles_.p + r * side_ + j, 1, side_}, dy_[query],
                       dy_.time, dv_[j], dv_.time, into);
      multiply_tile<T>(rows, width_, depth, {tiles_.ds + r * side_ + j, 1, side_}, q_[query],
                       q_.time, dk_[j], dk_.time, into);
    });
  }

  // Computes dQ += dS K.
  void add_to_queries(const TilePair& pair) {
    for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
      const std::int64_t j = pair.keys_begin(r), depth = pair.keys_end(r + rows - 1) - j;
      multiply_tile<T>(rows, width_, depth, {tiles_.ds + r * side_ + j, side_, 1}, k_[j], k_.time,
                       tiles_.dq + (pair.first_query + r) * width_, width_);
    });
  }

  // Returns the end of the keys that query r sees, in whole registers.
  static std::int64_t padded_end(const TilePair& pair, std::int64_t r) {
    return round_up(pair.keys_end(r), simd_width<T>);
  }

  const AttentionShape& shape_;
  std::int64_t b_, h_, first_key_, last_key_;
  Masks<T> masks_;
  const T* highs_;    // (T) of this head
  const T* weights_;  // (T)
  T scale_ = shape_.scale;
  std::int64_t D_ = shape_.D, width_ = padded<T>(D_);
  std::int64_t side_ = side_of_tile(std::max(shape_.T, shape_.S));
  std::int64_t queries_ = round_up(shape_.T, side_);
  Tiles tiles_;
  Rows<T> q_{tiles_.q, width_}, dy_{tiles_.dy, width_}, k_{tiles_.k, width_};
  Rows<T> dk_{tiles_.dk, width_}, dv_{tiles_.dv, width_};
};

}  // namespace

void attention_backward(const AttentionShape& shape, const AttentionViews& views,
                        const Array& highs, const Array& weights,
                        const AttentionGradients& gradients) {
  profile::add_flops(5 * flops_of_product(shape));
  const KeyChunks chunks(shape);
  const std::int64_t heads = shape.B * shape.H, head_size = shape.T * shape.D;
  // The gradients of queries by all chunks but the first, which writes dq directly.
  Array rest({(chunks.count - 1) * heads * head_size}, shape.dtype);
  dispatch(shape.dtype, [&]<class T>() {
    const T* high = highs.values<T>().data();
    const T* weight = weights.values<T>().data();
    T* others = rest.mutable_values<T>().data();
    const auto dq_of = [&](std::int64_t chunk, std::int64_t head) {
      if (chunk == 0) return rows_of<T>(gradients.dq, head / shape.H, head % shape.H);
      return Rows<T>{others + ((chunk - 1) * heads + head) * head_size, shape.D};
    };
    const auto run = [&](std::int64_t head, std::int64_t chunk, Scratch<T>& scratch) {
      scratch.begin(BackwardKeys<T>::elements(shape));
      BackwardKeys<T>(shape, head / shape.H, head % shape.H, chunk * chunks.keys,
                      std::min(shape.S, (chunk + 1) * chunks.keys), high + head * shape.T,
                      weight + head * shape.T, scratch)
          .run(views, gradients, dq_of(chunk, head));
    };
    // A task is one chunk of keys, for all heads that share them.
    const std::int64_t group = shape.group;
    parallel_for(heads / group * chunks.count, tasks_a_piece(shape, group * shape.T),
                 [&](std::int64_t begin, std::int64_t end) {
                   Scratch<T> scratch;
                   for (std::int64_t i = begin; i < end; ++i)
                     for (std::int64_t h = 0; h < group; ++h)
                       run(i / chunks.count * group + h, i % chunks.count, scratch);
                 });
    if (chunks.count == 1) return;
    for_each_row(heads * shape.T, chunks.count * shape.D, [&](std::int64_t row) {
      const std::int64_t head = row / shape.T, t = row % shape.T;
      T* sum = dq_of(0, head)[t];
      for (std::int64_t chunk = 1; chunk < chunks.count; ++chunk)
        map_span(shape.D, {sum, dq_of(chunk, head)[t]}, sum, [](auto x, auto y) { return x + y; });
    });
  });
}

}  // namespace tapestry
