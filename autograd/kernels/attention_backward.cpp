#include "autograd/kernels/attention_tiles.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// The backward pass of one (batch, head). With S = scale Q Kᵀ, P = softmax(S) and Y = P V:
//   dV = Pᵀ dY,  dP = dY Vᵀ,  dS = P ⊙ (dP - δ) where δ = Σ dY ⊙ Y of each query,
//   dQ = scale dS K,  dK = scale dSᵀ Q.
// P is computed again, tile by tile; for each tile of keys all queries are walked.
template <class T>
class BackwardHead {
 public:
  BackwardHead(const AttentionShape& shape, std::int64_t b, std::int64_t h, const T* highs,
               const T* weights)
      : shape_(shape), b_(b), h_(h), masks_(shape, b, h), highs_(highs), weights_(weights) {}

  void run(const AttentionViews& views, const AttentionGradients& gradients) {
    load_queries(rows_of<T>(views.q, b_, h_), rows_of<T>(views.y, b_, h_),
                 rows_of<T>(gradients.dy, b_, h_));
    const Rows<T> k = rows_of<T>(views.k, b_, h_), v = rows_of<T>(views.v, b_, h_);
    const Rows<T> dk = rows_of<T>(gradients.dk, b_, h_), dv = rows_of<T>(gradients.dv, b_, h_);
    for (std::int64_t key = 0; key < shape_.S; key += tile) {
      load_keys(k, v, key);
      for (std::int64_t query = 0; query < shape_.T; query += tile) {
        const TilePair pair(shape_, query, key);
        if (pair.hidden()) continue;
        compute_probabilities(pair);
        compute_score_gradients(pair);
        add_to_keys_and_values(pair);
        add_to_queries(pair);
      }
      for (std::int64_t j = 0; j < std::min(tile, shape_.S - key); ++j) {
        std::copy_n(tiles_.dk + j * width_, D_, dk[key + j]);
        std::copy_n(tiles_.dv + j * width_, D_, dv[key + j]);
      }
    }
    const Rows<T> dq = rows_of<T>(gradients.dq, b_, h_);
    for (std::int64_t t = 0; t < shape_.T; ++t)
      map_span(D_, {tiles_.dq + t * width_}, dq[t], [scale = scale_](auto x) { return x * scale; });
  }

 private:
  // One thread's copies of operands and its results. Rows of D elements are padded to `width`.
  struct Tiles {
    T* q;             // (T, width), times the scale: so S = q kᵀ, and dK needs no factor
    T* dq;            // (T, width), to be multiplied by the scale at the end
    T* dy;            // (T, width)
    T* delta;         // (T)
    T* k;             // (keys, width)
    T* k_transposed;  // (D, keys)
    T* v_transposed;  // (D, keys)
    T* dk;            // (keys, width)
    T* dv;            // (keys, width)
    T* p;             // (queries, keys)
    T* ds;            // (queries, keys); at first dP

    Tiles(Scratch<T>& scratch, std::int64_t queries, std::int64_t D, std::int64_t width)
        : q(scratch.take(queries, width)),
          dq(scratch.take_zeros(queries, width)),
          dy(scratch.take(queries, width)),
          delta(scratch.take(queries, 1)),
          k(scratch.take(tile, width)),
          k_transposed(scratch.take(D, tile)),
          v_transposed(scratch.take(D, tile)),
          dk(scratch.take(tile, width)),
          dv(scratch.take(tile, width)),
          p(scratch.take(tile, tile)),
          ds(scratch.take(tile, tile)) {}

    static std::int64_t elements(std::int64_t queries, std::int64_t D, std::int64_t width) {
      return queries * (3 * width + 1) + 3 * tile * width + 2 * D * tile + 2 * tile * tile;
    }
  };

  void load_queries(Rows<T> q, Rows<T> y, Rows<T> dy) {
    pack<T>(q, shape_.T, D_, scale_, tiles_.q, width_);
    pack<T>(dy, shape_.T, D_, T(1), tiles_.dy, width_);
    for (std::int64_t t = 0; t < shape_.T; ++t)
      tiles_.delta[t] = dot_span<T>(D_, tiles_.dy + t * width_, y[t]);
  }

  void load_keys(Rows<T> k, Rows<T> v, std::int64_t first) {
    const std::int64_t count = std::min(tile, shape_.S - first);
    load_transposed<T>(k, first, count, D_, T(1), tiles_.k_transposed);
    load_transposed<T>(v, first, count, D_, T(1), tiles_.v_transposed);
    pack<T>(k.from(first), count, D_, T(1), tiles_.k, width_);
    std::fill_n(tiles_.dk, tile * width_, T(0));
    std::fill_n(tiles_.dv, tile * width_, T(0));
  }

  // product (queries, keys) = a (queries, D) · b (D, keys) where a query sees a key.
  void multiply_visible(const TilePair& pair, const T* a, const T* b, T* product) const {
    std::fill_n(product, pair.queries * tile, T(0));
    for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
      const std::int64_t j = pair.keys_begin(r) / simd_width<T> * simd_width<T>;
      multiply_tile<T>(rows, padded_end(pair, r + rows - 1) - j, D_, {a + r * width_, width_, 1},
                       b + j, tile, product + r * tile + j, tile);
    });
  }

  // P = e^(S - high) · weight
  void compute_probabilities(const TilePair& pair) {
    multiply_visible(pair, tiles_.q + pair.first_query * width_, tiles_.k_transposed, tiles_.p);
    masks_.apply(pair, tile, 1, tiles_.p);
    for (std::int64_t r = 0; r < pair.queries; ++r) {
      const T high = highs_[pair.first_query + r], weight = weights_[pair.first_query + r];
      T* row = tiles_.p + r * tile;
      const std::int64_t n = padded_end(pair, r);
      map_span(n, {row}, row, [high, weight](auto x) { return exp(x - high) * weight; });
      std::fill(row + n, row + tile, T(0));
    }
  }

  // dP = dY Vᵀ, dS = P ⊙ (dP - δ)
  void compute_score_gradients(const TilePair& pair) {
    multiply_visible(pair, tiles_.dy + pair.first_query * width_, tiles_.v_transposed, tiles_.ds);
    for (std::int64_t r = 0; r < pair.queries; ++r) {
      const T delta = tiles_.delta[pair.first_query + r];
      T* row = tiles_.ds + r * tile;
      const std::int64_t n = padded_end(pair, r);
      map_span(n, {tiles_.p + r * tile, row}, row,
               [delta](auto p, auto dp) { return p * (dp - delta); });
      std::fill(row + n, row + tile, T(0));
    }
  }

  // dV += Pᵀ dY, dK += dSᵀ Q
  void add_to_keys_and_values(const TilePair& pair) {
    for_each_strip(pair, pair.keys, [&](std::int64_t j, std::int64_t rows) {
      const std::int64_t r = pair.queries_begin(j), depth = pair.queries_end(j + rows - 1) - r;
      const std::int64_t query = (pair.first_query + r) * width_;
      multiply_tile<T>(rows, width_, depth, {tiles_.p + r * tile + j, 1, tile}, tiles_.dy + query,
                       width_, tiles_.dv + j * width_, width_);
      multiply_tile<T>(rows, width_, depth, {tiles_.ds + r * tile + j, 1, tile}, tiles_.q + query,
                       width_, tiles_.dk + j * width_, width_);
    });
  }

  // dQ += dS K
  void add_to_queries(const TilePair& pair) {
    for_each_strip(pair, pair.queries, [&](std::int64_t r, std::int64_t rows) {
      const std::int64_t j = pair.keys_begin(r), depth = pair.keys_end(r + rows - 1) - j;
      multiply_tile<T>(rows, width_, depth, {tiles_.ds + r * tile + j, tile, 1},
                       tiles_.k + j * width_, width_, tiles_.dq + (pair.first_query + r) * width_,
                       width_);
    });
  }

  // The end of the keys that query r sees, in whole registers.
  static std::int64_t padded_end(const TilePair& pair, std::int64_t r) {
    return round_up(pair.keys_end(r), simd_width<T>);
  }

  const AttentionShape& shape_;
  std::int64_t b_, h_;
  Masks<T> masks_;
  const T* highs_;    // (T), of this head
  const T* weights_;  // (T)
  T scale_ = shape_.scale;
  std::int64_t D_ = shape_.D, width_ = padded<T>(D_), queries_ = round_up(shape_.T, tile);
  Scratch<T> scratch_{Tiles::elements(queries_, D_, width_)};
  Tiles tiles_{scratch_, queries_, D_, width_};
};

}  // namespace

void attention_backward(const AttentionShape& shape, const AttentionViews& views,
                        const Array& highs, const Array& weights,
                        const AttentionGradients& gradients) {
  profile::add_flops(5 * flops_of_product(shape));
  dispatch(shape.dtype, [&]<class T>() {
    const T* high = highs.values<T>().data();
    const T* weight = weights.values<T>().data();
    parallel_for(shape.B * shape.H, tasks_a_piece(shape, shape.T),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t b = i / shape.H, h = i % shape.H, at = i * shape.T;
                     BackwardHead<T>(shape, b, h, high + at, weight + at).run(views, gradients);
                   }
                 });
  });
}

}  // namespace tapestry
