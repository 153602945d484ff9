#include "autograd/kernels/linear_attention.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "autograd/kernels/rows.hpp"
#include "autograd/kernels/tile.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

struct Logs {
  double weight, decay;
};

// What the padding, the gate and the scales of one (batch, head) say of a key: the logarithms of
// its own weight, and of the factor by which it lowers the weights of those before it.
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
  double gate(std::int64_t s) const { return gate_[s * gate_step_]; }  // its logit

  Logs operator[](std::int64_t s) const {
    if (hidden(s)) return {-infinity<double>, 0};
    Logs logs{scales_ ? scales_[s] : 0.0, 0};
    if (gate_) {  // log g and log (1 - g)
      const double z = gate(s);
      logs.decay = std::min(z, 0.0) - std::log1p(std::exp(-std::abs(z)));
      logs.weight += logs.decay - z;
    }
    return logs;
  }

 private:
  const std::int32_t* padding_ = nullptr;
  const T* gate_ = nullptr;
  const T* scales_ = nullptr;
  std::int64_t gate_step_;
};

// The weights of keys, in units of e^unit, the largest log weight that a query sees. In a chunk,
// key s counts e^(row_t + column_s) for query t >= s and what was carried into the chunk counts
// carry_t; key s leaves the chunk with the weight enter_s.
template <class T>
struct Weights {
  bool equal;                        // every key counts 1
  std::vector<T> row, carry, total;  // by query; total: Σ weights of the keys it sees
  std::vector<T> column, enter;      // by key
  std::vector<double> unit;          // by query
  double last_unit, last_total;      // of all keys

  Weights(const LinearAttentionShape& shape, const KeyLogs<T>& logs, double unit_before,
          double total_before)
      : equal(logs.all_zero() && finite(unit_before) == 0),
        row(padded_size(shape.T), -infinity<T>),
        carry(padded_size(shape.T), T(1)),
        total(padded_size(shape.T)),
        column(padded_size(shape.S), -infinity<T>),
        enter(padded_size(shape.S), T(1)),
        unit(padded_size(shape.T)),
        last_unit(unit_before),
        last_total(total_before) {
    if (equal) {
      last_unit = 0;
      for (std::int64_t s = 0; s < shape.S; ++s)
        if (shape.causal) total[s] = static_cast<T>(total_before + static_cast<double>(s + 1));
      last_total = total_before + static_cast<double>(shape.S);
    } else if (shape.causal) {
      for (std::int64_t first = 0; first < shape.S; first += tile)
        weigh_chunk(logs, first, std::min(first + tile, shape.S));
    } else {
      for (std::int64_t s = 0; s < shape.S; ++s) last_unit = std::max(last_unit, logs[s].weight);
      for (std::int64_t s = 0; s < shape.S; ++s) {
        const double weight = std::exp(logs[s].weight - finite(last_unit));
        enter[s] = static_cast<T>(weight);
        last_total += weight;
      }
    }
    if (!shape.causal) std::ranges::fill(total, static_cast<T>(last_total));
  }

 private:
  static std::size_t padded_size(std::int64_t n) { return round_up(n, tile); }
  // With no key yet every weight is 0, in any unit.
  static double finite(double log) { return log == -infinity<double> ? 0 : log; }

  void weigh_chunk(const KeyLogs<T>& logs, std::int64_t first, std::int64_t last) {
    const double unit_carried = last_unit;
    double decay = 0;  // in all, since the chunk began
    for (std::int64_t t = first; t < last; ++t) {
      const Logs own = logs[t];
      decay += own.decay;
      const double before = last_unit + own.decay;
      last_unit = std::max(before, own.weight);
      const double u = unit[t] = finite(last_unit);
      last_total = last_total * std::exp(before - u) + std::exp(own.weight - u);
      row[t] = static_cast<T>(decay - u);
      column[t] = static_cast<T>(own.weight - decay);
      carry[t] = static_cast<T>(std::exp(unit_carried + decay - u));
      total[t] = static_cast<T>(last_total);
    }
    for (std::int64_t s = first; s < last; ++s) enter[s] = std::exp(row[last - 1] + column[s]);
  }
};

// to (F, tile) = columns [first, first + count) of from (F, times), then zeros.
template <class T>
void load_columns(Rows<T> from, std::int64_t first, std::int64_t count, std::int64_t F, T* to) {
  for (std::int64_t f = 0; f < F; ++f) {
    std::copy_n(from[f] + first, count, to + f * tile);
    std::fill(to + f * tile + count, to + (f + 1) * tile, T(0));
  }
}

template <class T>
void store_columns(const T* from, std::int64_t first, std::int64_t count, std::int64_t F,
                   Rows<T> to) {
  for (std::int64_t f = 0; f < F; ++f) std::copy_n(from + f * tile, count, to[f] + first);
}

// x (rows, width) with each row times its factor.
template <class T>
void scale_rows(std::int64_t rows, std::int64_t width, const T* factors, T* x) {
  for (std::int64_t r = 0; r < rows; ++r)
    map_span<T>(
        width, [factor = factors[r]](auto v) { return v * factor; }, x + r * width, x + r * width);
}

// x (rows, tile) with each column times its factor.
template <class T>
void scale_columns(std::int64_t rows, const T* factors, T* x) {
  for (std::int64_t r = 0; r < rows; ++r)
    map_span<T>(
        tile, [](auto v, auto factor) { return v * factor; }, x + r * tile, x + r * tile, factors);
}

// Products across a chunk's diagonal skip what is hidden by strips of rows.
template <class F>
void for_each_strip(std::int64_t rows, F f) {
  constexpr std::int64_t strip = 12;
  for (std::int64_t first = 0; first < rows; first += strip)
    f(first, std::min(strip, rows - first));
}

enum class RowsAre { queries, keys };

// One (batch, head): a chunk of it, packed, and the products that all passes share. W is D + 1, for
// values with a 1 beside them, rounded up to whole registers.
template <class T>
class Head {
 public:
  const LinearAttentionShape& shape;
  std::int64_t F, D, W;
  Scratch<T> scratch;
  KeyLogs<T> logs;
  Weights<T> weights;
  Rows<T> q, k, v;
  T *sums, *q_tile, *k_tile, *v_tile;  // (F, W), (F, tile), (F, tile), (tile, W)
  std::int64_t first = 0, count = 0;   // of the chunk

  Head(const LinearAttentionShape& wanted, std::int64_t b, std::int64_t h, const FeaturesView& qs,
       const FeaturesView& ks, const HeadsView& vs, double unit, double total, std::int64_t more)
      : shape(wanted),
        F(shape.F),
        D(shape.D),
        W(padded<T>(D + 1)),
        scratch(F * (W + 2 * tile) + tile * W + more),
        logs(shape, b, h),
        weights(shape, logs, unit, total),
        q(rows_of<T>(qs, b, h)),
        k(rows_of<T>(ks, b, h)),
        v(rows_of<T>(vs, b, h)),
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

  // Moves the sums from before the chunk to after it. Spoils v_tile.
  void enter() {
    if (!weights.equal) {
      if (shape.causal) scale_rows(1, F * W, &weights.carry[first + count - 1], sums);
      scale_rows(count, W, weights.enter.data() + first, v_tile);
    }
    multiply_tile<T>(F, W, count, {k_tile, tile, 1}, v_tile, W, sums, W);
  }

  void enter_all_keys() {
    for (std::int64_t chunk = 0; chunk < shape.S; chunk += tile) {
      seek(chunk, shape.S);
      load_keys();
      enter();
    }
  }

  // p (tile, tile) times the weights: 0 where the query stands before the key.
  void weigh(RowsAre rows, T* p) const {
    const bool keys = rows == RowsAre::keys;
    const T* own = (keys ? weights.column : weights.row).data() + first;
    const T* other = (keys ? weights.row : weights.column).data() + first;
    for (std::int64_t i = 0; i < count; ++i) {
      T* row = p + i * tile;
      if (!weights.equal)
        map_span<T>(
            tile, [a = own[i]](auto x, auto b) { return x * exp(a + b); }, row, row, other);
      std::fill(keys ? row : row + i + 1, keys ? row + i : row + tile, T(0));
    }
  }

  // p (rows, tile) = a (rows, depth) · b (depth, tile) where a query sees a key, weighed.
  void multiply_visible(RowsAre rows, TileOperand<T> a, const T* b, std::int64_t depth,
                        T* p) const {
    std::fill_n(p, count * tile, T(0));
    for_each_strip(count, [&](std::int64_t r, std::int64_t n) {
      const std::int64_t begin = rows == RowsAre::keys ? r / simd_width<T> * simd_width<T> : 0;
      const std::int64_t end = rows == RowsAre::keys ? tile : round_up(r + n, simd_width<T>);
      multiply_tile<T>(n, end - begin, depth,
                       {a.data + r * a.row_stride, a.row_stride, a.column_stride}, b + begin, tile,
                       p + r * tile + begin, tile);
    });
    weigh(rows, p);
  }
};

template <class T>
T* state_row(Array& sums, std::int64_t head, std::int64_t f) {
  return sums.mutable_values<T>().data() + (head * sums.dim(2) + f) * sums.dim(3);
}

template <class T>
void forward_head(const LinearAttentionShape& shape, std::int64_t i, const FeaturesView& q,
                  const FeaturesView& k, const HeadsView& v, const HeadsView& out, T* scales,
                  LinearAttentionState* state) {
  const std::int64_t b = i / shape.H, h = i % shape.H;
  T* unit = state ? state->log_units.mutable_values<T>().data() + i : nullptr;
  T* total = state ? state->weights.mutable_values<T>().data() + i : nullptr;
  Head<T> head(shape, b, h, q, k, v, unit ? *unit : -infinity<double>, total ? *total : 0.0,
               tile * (padded<T>(shape.D + 1) + tile));
  const auto [F, D, W] = std::array{head.F, head.D, head.W};
  T* o_tile = head.scratch.take(tile, W);
  T* p = head.scratch.take(tile, tile);  // (keys, queries)
  for (std::int64_t f = 0; state && f < F; ++f)
    std::copy_n(state_row<T>(state->sums, i, f), D + 1, head.sums + f * W);
  if (!shape.causal) head.enter_all_keys();

  const Rows<T> to = rows_of<T>(out, b, h);
  for (std::int64_t chunk = 0; chunk < shape.T; chunk += tile) {
    head.seek(chunk, shape.T);
    head.load_queries();
    std::fill_n(o_tile, tile * W, T(0));
    multiply_tile<T>(head.count, W, F, {head.q_tile, 1, tile}, head.sums, W, o_tile, W);
    if (shape.causal) {
      head.load_keys();
      if (!head.weights.equal) scale_rows(head.count, W, head.weights.carry.data() + chunk, o_tile);
      head.multiply_visible(RowsAre::keys, {head.k_tile, 1, tile}, head.q_tile, F, p);
      for_each_strip(head.count, [&](std::int64_t r, std::int64_t rows) {
        multiply_tile<T>(rows, W, r + rows, {p + r, 1, tile}, head.v_tile, W, o_tile + r * W, W);
      });
      head.enter();
    }
    for (std::int64_t r = 0; r < head.count; ++r) {
      T* row = o_tile + r * W;
      const T least = static_cast<T>(shape.floor) * head.weights.total[chunk + r];
      const bool floored = row[D] < least;
      const T sum = floored ? least : row[D], scale = sum == 0 ? T(0) : T(1) / sum;
      scales[chunk + r] = floored ? -scale : scale;
      map_span<T>(
          D, [scale](auto x) { return x * scale; }, to[chunk + r], row);
    }
  }
  if (!state) return;
  for (std::int64_t f = 0; f < F; ++f)
    std::copy_n(head.sums + f * W, D + 1, state_row<T>(state->sums, i, f));
  *unit = static_cast<T>(head.weights.last_unit);
  *total = static_cast<T>(head.weights.last_total);
}

// With w the weights, A = w (q · k) and n = A [v, 1], out = n[:D] / n[D]. Its gradient by n is dn,
// and then, S being the sums so far and R the same of queries to come, ⊗ dn in place of ⊗ [v, 1]:
//   dq = S dn, dk = R [v, 1], d[v, 1] = Rᵀ k.
// One pass over the chunks carries S on, another carries R back.
template <class T>
class BackwardHead {
 public:
  BackwardHead(const LinearAttentionShape& wanted, std::int64_t i, const FeaturesView& q,
               const FeaturesView& k, const HeadsView& v, const HeadsView& out,
               const HeadsView& dout, const T* one_over_sums)
      : shape_(wanted),
        b_(i / shape_.H),
        h_(i % shape_.H),
        head_(shape_, b_, h_, q, k, v, -infinity<double>, 0.0,
              2 * tile * padded<T>(shape_.D + 1) + (shape_.D + 1 + shape_.F + 2 * tile) * tile),
        outs_(rows_of<T>(out, b_, h_)),
        douts_(rows_of<T>(dout, b_, h_)),
        scales_(one_over_sums),
        dn_(head_.scratch.take(tile, head_.W)),
        value_gradients_(head_.scratch.take(tile, head_.W)),
        turned_(head_.scratch.take(shape_.D + 1, tile)),
        d_tile_(head_.scratch.take(shape_.F, tile)),
        p_(head_.scratch.take(tile, tile)),
        dp_(head_.scratch.take(tile, tile)),
        entered_(shape_.gate.empty() ? 0 : shape_.S) {}

  void run(const LinearAttentionGradients& gradients) {
    carry_keys_on(rows_of<T>(gradients.dq, b_, h_));
    carry_queries_back(rows_of<T>(gradients.dk, b_, h_), rows_of<T>(gradients.dv, b_, h_));
    if (!shape_.gate.empty()) open_gates(gradients.dgate);
  }

 private:
  T pull(std::int64_t t) const { return dot_span(shape_.D, douts_[t], outs_[t]); }

  void load_gradient() {
    for (std::int64_t r = 0; r < head_.count; ++r) {
      const std::int64_t t = head_.first + r;
      const T scale = std::abs(scales_[t]);
      T* row = dn_ + r * head_.W;
      map_span<T>(
          shape_.D, [scale](auto x) { return x * scale; }, row, douts_[t]);
      row[shape_.D] = std::signbit(scales_[t]) ? T(0) : -pull(t) * scale;
      std::fill(row + shape_.D + 1, row + head_.W, T(0));
    }
  }

  // turned (D + 1, tile) = values (tile, W)ᵀ.
  void turn(T* values) {
    load_transposed<T>({values, head_.W}, 0, head_.count, shape_.D + 1, T(1), turned_);
  }

  void carry_keys_on(Rows<T> dq) {
    const std::int64_t F = shape_.F, D = shape_.D;
    if (!shape_.causal) head_.enter_all_keys();
    for (std::int64_t chunk = 0; chunk < shape_.T; chunk += tile) {
      head_.seek(chunk, shape_.T);
      load_gradient();
      turn(dn_);
      std::fill_n(d_tile_, F * tile, T(0));
      if (shape_.causal) {
        head_.load_keys();
        head_.multiply_visible(RowsAre::keys, {head_.v_tile, head_.W, 1}, turned_, D + 1, dp_);
        multiply_tile<T>(F, tile, head_.count, {head_.k_tile, tile, 1}, dp_, tile, d_tile_, tile);
        if (!head_.weights.equal) scale_columns(D + 1, head_.weights.carry.data() + chunk, turned_);
      }
      multiply_tile<T>(F, tile, D + 1, {head_.sums, head_.W, 1}, turned_, tile, d_tile_, tile);
      store_columns(d_tile_, chunk, head_.count, F, dq);
      if (shape_.causal) head_.enter();
    }
  }

  // The head_'s sums become R.
  void carry_queries_back(Rows<T> dk, Rows<T> dv) {
    std::fill_n(head_.sums, shape_.F * head_.W, T(0));
    for (std::int64_t chunk = 0; chunk < shape_.T && !shape_.causal; chunk += tile) {
      head_.seek(chunk, shape_.T);
      head_.load_queries();
      load_gradient();
      enter_queries();
    }
    if (shape_.S == 0) return;
    for (std::int64_t chunk = (shape_.S - 1) / tile * tile; chunk >= 0; chunk -= tile) {
      head_.seek(chunk, shape_.S);
      send_to_keys(dk, dv);
      if (!shape_.causal) continue;
      if (!head_.weights.equal) {
        scale_rows(1, shape_.F * head_.W, &head_.weights.carry[chunk + head_.count - 1],
                   head_.sums);
        scale_rows(head_.count, head_.W, head_.weights.carry.data() + chunk, dn_);
      }
      enter_queries();
    }
  }

  void enter_queries() {
    multiply_tile<T>(shape_.F, head_.W, head_.count, {head_.q_tile, tile, 1}, dn_, head_.W,
                     head_.sums, head_.W);
  }

  void send_to_keys(Rows<T> dk, Rows<T> dv) {
    const std::int64_t F = shape_.F, D = shape_.D, W = head_.W, count = head_.count;
    const T* enter = head_.weights.enter.data() + head_.first;
    head_.load_keys();
    turn(head_.v_tile);
    std::fill_n(value_gradients_, tile * W, T(0));
    std::fill_n(d_tile_, F * tile, T(0));
    multiply_tile<T>(count, W, F, {head_.k_tile, 1, tile}, head_.sums, W, value_gradients_, W);
    if (!head_.weights.equal) scale_rows(count, W, enter, value_gradients_);
    if (shape_.causal) {
      head_.load_queries();
      load_gradient();
      head_.multiply_visible(RowsAre::queries, {head_.q_tile, 1, tile}, head_.k_tile, F, p_);
      head_.multiply_visible(RowsAre::queries, {dn_, W, 1}, turned_, D + 1, dp_);
      for_each_strip(count, [&](std::int64_t s, std::int64_t rows) {
        multiply_tile<T>(rows, W, count - s, {p_ + s * tile + s, 1, tile}, dn_ + s * W, W,
                         value_gradients_ + s * W, W);
      });
      multiply_tile<T>(F, tile, count, {head_.q_tile, tile, 1}, dp_, tile, d_tile_, tile);
    }
    if (!head_.weights.equal) scale_columns(D + 1, enter, turned_);
    multiply_tile<T>(F, tile, D + 1, {head_.sums, W, 1}, turned_, tile, d_tile_, tile);
    store_columns(d_tile_, head_.first, count, F, dk);
    for (std::int64_t r = 0; r < count; ++r) {
      const T* row = value_gradients_ + r * W;
      std::copy_n(row, D, dv[head_.first + r]);
      if (!entered_.empty()) entered_[head_.first + r] = dot_span(D + 1, head_.v_tile + r * W, row);
    }
  }

  // A step's log decay lowers the weights of all keys before it for all queries from it on. Of one
  // query the pulls of all weights add up to 0, but where the floor took the denominator's place:
  // there they leave the query's pull, by 1 - Π g, the weights' sum.
  void open_gates(Array dgate) const {
    double later = 0;
    for (std::int64_t t = shape_.S - 1; t >= 0; --t) {
      const double total = head_.weights.total[t] * std::exp(head_.weights.unit[t]);
      if (std::signbit(scales_[t]) && total > 0) later += static_cast<double>(pull(t)) / total;
      later -= entered_[t];
      const double g = 1 / (1 + std::exp(-head_.logs.gate(t)));
      dgate.mutable_values<T>()[(b_ * shape_.S + t) * shape_.H + h_] =
          head_.logs.hidden(t) ? T(0) : static_cast<T>((1 - g) * later - g * entered_[t]);
    }
  }

  const LinearAttentionShape& shape_;
  std::int64_t b_, h_;
  Head<T> head_;
  Rows<T> outs_, douts_;
  const T* scales_;
  T* dn_;                        // (tile, W)
  T* value_gradients_;           // (tile, W): d[v, 1]
  T* turned_;                    // (D + 1, tile): dnᵀ or [v, 1]ᵀ
  T* d_tile_;                    // (F, tile): dqᵀ or dkᵀ
  T *p_, *dp_;                   // (tile, tile): w (q · k) and its gradient
  std::vector<double> entered_;  // the gradient by each key's log weight, for the gate
};

// Of the forward pass: scores and values within chunks, sums read and added to.
double flops_of_forward(const LinearAttentionShape& shape) {
  const auto queries = static_cast<double>(shape.T), keys = static_cast<double>(shape.S),
             F = static_cast<double>(shape.F), values = static_cast<double>(shape.D + 1);
  const double within = shape.causal ? queries * static_cast<double>(tile) / 2 * (F + values) : 0;
  return 2 * static_cast<double>(shape.B * shape.H) * (within + (queries + keys) * F * values);
}

std::int64_t heads_a_piece(const LinearAttentionShape& shape) {
  constexpr std::int64_t flops_a_piece = 1'000'000;
  return 1 + flops_a_piece /
                 std::max<std::int64_t>(1, 2 * (shape.T + shape.S) * shape.F * (shape.D + 1));
}

}  // namespace

LinearAttentionState::LinearAttentionState(std::int64_t batch, std::int64_t heads,
                                           std::int64_t features, std::int64_t head_width,
                                           DType dtype)
    : sums(Array::zeros({batch, heads, features, head_width + 1}, dtype)),
      log_units(Array::full({batch, heads}, -infinity<double>, dtype)),
      weights(Array::zeros({batch, heads}, dtype)) {}

void LinearAttentionState::select(const std::vector<std::int64_t>& rows) {
  for (Array* array : {&sums, &log_units, &weights}) *array = array->select(rows);
}

void linear_attention_forward(const LinearAttentionShape& shape, const FeaturesView& q,
                              const FeaturesView& k, const HeadsView& v, const HeadsView& out,
                              Array& scales, LinearAttentionState* state) {
  profile::add_flops(flops_of_forward(shape));
  dispatch(shape.dtype, [&]<class T>() {
    T* scale = scales.mutable_values<T>().data();
    parallel_for(shape.B * shape.H, heads_a_piece(shape),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     forward_head<T>(shape, i, q, k, v, out, scale + i * shape.T, state);
                 });
  });
}

void linear_attention_backward(const LinearAttentionShape& shape, const FeaturesView& q,
                               const FeaturesView& k, const HeadsView& v, const HeadsView& out,
                               const HeadsView& dout, const Array& scales,
                               const LinearAttentionGradients& gradients) {
  profile::add_flops(2.5 * flops_of_forward(shape));
  dispatch(shape.dtype, [&]<class T>() {
    const T* scale = scales.values<T>().data();
    parallel_for(
        shape.B * shape.H, heads_a_piece(shape), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            BackwardHead<T>(shape, i, q, k, v, out, dout, scale + i * shape.T).run(gradients);
        });
  });
}

}  // namespace tapestry
