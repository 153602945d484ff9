#pragma once

#include <cmath>
#include <vector>

#include "autograd/kernels/attention.hpp"
#include "autograd/kernels/tile.hpp"

// Shared by the sources of linear attention: one head, the weights of its keys, and its chunks of
// steps.
namespace tapestry {

// The logarithms of a key's weight, and of the factor by which it reduces the weights of all
// earlier keys.
struct KeyLog {
  double weight, decay;
};

// The padding, gate and scales of the keys of one (batch, head).
template <class T>
class KeyLogs {
 public:
  KeyLogs(const LinearAttentionShape& shape, std::int64_t b, std::int64_t h) : gate_step_(shape.H) {
    if (!shape.key_padding.empty())
      padding_ = shape.key_padding.values<std::int32_t>().data() + b * shape.S;
    if (!shape.gate.empty()) gate_ = shape.gate.values<T>().data() + b * shape.S * shape.H + h;
    if (!shape.key_log_scales.empty())
      scales_ = shape.key_log_scales.values<T>().data() + (b * shape.H + h) * shape.S;
  }

  bool all_zero() const { return !padding_ && !gate_ && !scales_; }
  bool hidden(std::int64_t s) const { return padding_ && padding_[s] != 0; }
  double gate(std::int64_t s) const { return gate_[s * gate_step_]; }  // the gate's logit

  KeyLog operator[](std::int64_t s) const {
    if (hidden(s)) return {-infinity<double>, 0};
    KeyLog log{scales_ ? scales_[s] : 0.0, 0};
    if (gate_) {  // computes log g and log (1 - g)
      const double z = gate(s);
      log.decay = std::min(z, 0.0) - std::log1p(std::exp(-std::abs(z)));
      log.weight += log.decay - z;
    }
    return log;
  }

 private:
  const std::int32_t* padding_ = nullptr;
  const T* gate_ = nullptr;
  const T* scales_ = nullptr;
  std::int64_t gate_step_;
};

// The weights of keys for each query, in units of e^unit, where unit is the largest log weight of a
// visible key, so that no exponential overflows. Within a chunk, key s has the weight e^(row_t +
// column_s) for query t >= s. The sums carried into the chunk have the weight carry_t for query t.
// Key s is added to the sums that leave the chunk with the weight enter_s.
template <class T>
struct KeyWeights {
  struct Carried {
    double unit = -infinity<double>, total = 0;
  };

  bool equal;                        // all keys have the weight 1
  std::vector<T> row, carry, total;  // one value per query; total: Σ weights of visible keys
  std::vector<T> column, enter;      // one value per key
  std::vector<double> unit;          // one value per query
  double last_unit, last_total;      // unit and total weight of all keys

  // `before` has the unit and the total weight of the keys of a state.
  KeyWeights(const LinearAttentionShape& shape, const KeyLogs<T>& logs, Carried before)
      : equal(logs.all_zero() && finite(before.unit) == 0),
        row(padded_size(shape.T), -infinity<T>),
        carry(padded_size(shape.T), T(1)),
        total(padded_size(shape.T)),
        column(padded_size(shape.S), -infinity<T>),
        enter(padded_size(shape.S), T(1)),
        unit(padded_size(shape.T)),
        last_unit(before.unit),
        last_total(before.total) {
    if (equal) {
      last_unit = 0;
      for (std::int64_t s = 0; s < shape.S; ++s)
        if (shape.causal) total[s] = before.total + (s + 1);
      last_total = before.total + shape.S;
    } else if (shape.causal) {
      for (std::int64_t first = 0; first < shape.S; first += tile)
        weigh_chunk(logs, first, std::min(first + tile, shape.S));
    } else {
      for (std::int64_t s = 0; s < shape.S; ++s) last_unit = std::max(last_unit, logs[s].weight);
      for (std::int64_t s = 0; s < shape.S; ++s) {
        const double weight = std::exp(logs[s].weight - finite(last_unit));
        enter[s] = weight;
        last_total += weight;
      }
    }
    if (!shape.causal) std::ranges::fill(total, T(last_total));
  }

 private:
  static std::size_t padded_size(std::int64_t n) { return round_up(n, tile); }
  // Returns the logarithm, or 0 for -inf: without keys all weights are 0, in any unit.
  static double finite(double log) { return log == -infinity<double> ? 0 : log; }

  void weigh_chunk(const KeyLogs<T>& logs, std::int64_t first, std::int64_t last) {
    const double unit_carried = last_unit;
    double decay = 0;  // sum of the log decays since the start of the chunk
    for (std::int64_t t = first; t < last; ++t) {
      const KeyLog own = logs[t];
      decay += own.decay;
      const double before = last_unit + own.decay;
      last_unit = std::max(before, own.weight);
      const double u = unit[t] = finite(last_unit);
      last_total = last_total * std::exp(before - u) + std::exp(own.weight - u);
      row[t] = decay - u;
      column[t] = own.weight - decay;
      carry[t] = std::exp(unit_carried + decay - u);
      total[t] = last_total;
    }
    for (std::int64_t s = first; s < last; ++s) enter[s] = std::exp(row[last - 1] + column[s]);
  }
};

// Copies the columns [first, first + count) of from (F, times) to (F, tile), followed by columns of
// 0.
template <class T>
void load_columns(Rows<T> from, std::int64_t first, std::int64_t count, std::int64_t F, T* to) {
  for (std::int64_t f = 0; f < F; ++f) {
    std::copy_n(from[f] + first, count, to + f * tile);
    std::fill(to + f * tile + count, to + (f + 1) * tile, T(0));
  }
}

// Copies the first columns of from (F, tile) to the columns [first, first + count) of to (F,
// times).
template <class T>
void store_columns(const T* from, std::int64_t first, std::int64_t count, std::int64_t F,
                   Rows<T> to) {
  for (std::int64_t f = 0; f < F; ++f) std::copy_n(from + f * tile, count, to[f] + first);
}

// Multiplies each row of x (rows, width) by its factor.
template <class T>
void scale_rows(std::int64_t rows, std::int64_t width, const T* factors, T* x) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = x + r * width;
    map_span(width, {row}, row, [factor = factors[r]](auto v) { return v * factor; });
  }
}

// Multiplies each column of x (rows, tile) by its factor.
template <class T>
void scale_columns(std::int64_t rows, const T* factors, T* x) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = x + r * tile;
    map_span(tile, {row, factors}, row, [](auto v, auto factor) { return v * factor; });
  }
}

// Calls f(first, count) for strips of the rows of a chunk's product of queries and keys, so narrow
// that products skip most of the hidden elements.
template <class F>
void for_each_strip(std::int64_t rows, F f) {
  constexpr std::int64_t strip = 12;
  for (std::int64_t first = 0; first < rows; first += strip)
    f(first, std::min(strip, rows - first));
}

enum class RowsAre { queries, keys };

// One (batch, head): its sums, packed copies of the current chunk of steps, and the products that
// both passes share. W is D + 1, for [v, 1], rounded up to whole registers.
template <class T>
struct LinearAttentionHead {
  const LinearAttentionShape& shape;
  std::int64_t F, D, W;
  Scratch<T> scratch;
  KeyLogs<T> logs;
  KeyWeights<T> weights;
  Rows<T> q, k, v;
  T* sums;                            // (F, W): Σ weight · k ⊗ [v, 1] of earlier keys
  T *q_tile, *k_tile;                 // (F, tile)
  T* v_tile;                          // (tile, W): [v, 1]
  std::int64_t first = 0, count = 0;  // steps [first, first + count) of the chunk

  // `more` is the number of additional scratch elements that the pass needs.
  LinearAttentionHead(const LinearAttentionShape& wanted, std::int64_t b, std::int64_t h,
                      const LinearAttentionViews& views, typename KeyWeights<T>::Carried before,
                      std::int64_t more)
      : shape(wanted),
        F(shape.F),
        D(shape.D),
        W(padded<T>(D + 1)),
        scratch(F * (W + 2 * tile) + tile * W + more),
        logs(shape, b, h),
        weights(shape, logs, before),
        q(rows_of<T>(views.q, b, h)),
        k(rows_of<T>(views.k, b, h)),
        v(rows_of<T>(views.v, b, h)),
        sums(scratch.take_zeros(F, W)),
        q_tile(scratch.take(F, tile)),
        k_tile(scratch.take(F, tile)),
        v_tile(scratch.take(tile, W)) {}

  void seek(std::int64_t chunk, std::int64_t last) {
    first = chunk;
    count = std::min(tile, last - chunk);
  }

  void load_queries() { load_columns(q, first, count, F, q_tile); }

  void load_keys() {
    load_columns(k, first, count, F, k_tile);
    for (std::int64_t r = 0; r < count; ++r) {
      T* row = v_tile + r * W;
      std::copy_n(v[first + r], D, row);
      row[D] = T(1);
      std::fill(row + D + 1, row + W, T(0));
    }
  }

  // Adds the keys of the chunk to the sums, which then belong to the next chunk. Overwrites v_tile.
  void add_keys() {
    if (!weights.equal) {
      if (shape.causal) scale_rows(1, F * W, &weights.carry[first + count - 1], sums);
      scale_rows(count, W, weights.enter.data() + first, v_tile);
    }
    multiply_tile<T>(F, W, count, {k_tile, tile, 1}, v_tile, W, sums, W);
  }

  void add_all_keys() {
    for (std::int64_t chunk = 0; chunk < shape.S; chunk += tile) {
      seek(chunk, shape.S);
      load_keys();
      add_keys();
    }
  }

  // Multiplies p (tile, tile) in place by the weights: 0 if the query is before the key.
  void weigh(RowsAre rows, T* p) const {
    const bool keys = rows == RowsAre::keys;
    const T* own = (keys ? weights.column : weights.row).data() + first;
    const T* other = (keys ? weights.row : weights.column).data() + first;
    for (std::int64_t i = 0; i < count; ++i) {
      T* row = p + i * tile;
      if (!weights.equal)
        map_span(tile, {row, other}, row, [a = own[i]](auto x, auto b) { return x * exp(a + b); });
      std::fill(keys ? row : row + i + 1, keys ? row + i : row + tile, T(0));
    }
  }

  // Computes p (count, tile) = a (count, depth) · b (depth, tile) times the weights; an element
  // whose query comes before its key is 0. `rows` says whether the rows of p are queries or keys.
  void multiply_visible(RowsAre rows, Operand<T> a, const T* b, std::int64_t depth, T* p) const {
    std::fill_n(p, count * tile, T(0));
    for_each_strip(count, [&](std::int64_t r, std::int64_t n) {
      const std::int64_t begin = rows == RowsAre::keys ? r / simd_width<T> * simd_width<T> : 0;
      const std::int64_t end = rows == RowsAre::keys ? tile : round_up(r + n, simd_width<T>);
      multiply_tile<T>(n, end - begin, depth, a.from(r), b + begin, tile, p + r * tile + begin,
                       tile);
    });
    weigh(rows, p);
  }
};

// Returns the operations of the forward pass: scores and values within chunks, and the sums that
// all keys are added to and all queries read.
inline double flops_of_forward(const LinearAttentionShape& shape) {
  const double queries = shape.T, keys = shape.S, F = shape.F, values = shape.D + 1;
  const double within = shape.causal ? queries * tile / 2 * (F + values) : 0;
  return 2.0 * (shape.B * shape.H) * (within + (queries + keys) * F * values);
}

// Returns the grain of a parallel loop over heads.
inline std::int64_t heads_a_piece(const LinearAttentionShape& shape) {
  constexpr std::int64_t flops_a_piece = 1'000'000;
  return 1 + flops_a_piece /
                 std::max<std::int64_t>(1, 2 * (shape.T + shape.S) * shape.F * (shape.D + 1));
}

}  // namespace tapestry
