#include <cmath>

#include "autograd/kernels/linear_attention_head.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// The backward pass of one (batch, head). The forward pass is y = n[:D] / n[D] with n = P [v, 1]
// and P = w (q · k), where w are the weights. dn is the gradient of n. Let S = Σ w k ⊗ [v, 1] over
// the keys that a query sees, and R = Σ w q ⊗ dn over the queries that see a key. Then dq = S dn,
// dk = R [v, 1] and d[v, 1] = Rᵀ k. One loop over the chunks, from the first, carries S; another,
// from the last, carries R.
template <class T>
class BackwardHead {
 public:
  BackwardHead(const LinearAttentionShape& shape, std::int64_t i, const LinearAttentionViews& views,
               const LinearAttentionGradients& gradients, const T* scales)
      : shape_(shape),
        b_(i / shape.H),
        h_(i % shape.H),
        gradients_(gradients),
        head_(shape, b_, h_, views, {},
              2 * tile * padded<T>(shape.D + 1) + (shape.D + 1 + shape.F + 2 * tile) * tile),
        y_(rows_of<T>(views.y, b_, h_)),
        dy_(rows_of<T>(gradients.dy, b_, h_)),
        scales_(scales),
        dn_(head_.scratch.take(tile, head_.W)),
        value_gradients_(head_.scratch.take(tile, head_.W)),
        transposed_(head_.scratch.take(shape.D + 1, tile)),
        d_tile_(head_.scratch.take(shape.F, tile)),
        p_(head_.scratch.take(tile, tile)),
        dp_(head_.scratch.take(tile, tile)),
        weight_gradients_(shape.gate.empty() ? 0 : shape.S) {}

  void run() {
    compute_query_gradients(rows_of<T>(gradients_.dq, b_, h_));
    compute_key_gradients(rows_of<T>(gradients_.dk, b_, h_), rows_of<T>(gradients_.dv, b_, h_));
    if (!shape_.gate.empty()) compute_gate_gradients(gradients_.dgate);
  }

 private:
  // Returns Σ dy y of a query: minus the gradient of the logarithm of its denominator.
  T pull(std::int64_t t) const { return dot_span(shape_.D, dy_[t], y_[t]); }

  // Computes dn of the chunk's queries.
  void load_gradient() {
    for (std::int64_t r = 0; r < head_.count; ++r) {
      const std::int64_t t = head_.first + r;
      const T scale = std::abs(scales_[t]);
      T* row = dn_ + r * head_.W;
      map_span(shape_.D, {dy_[t]}, row, [scale](auto x) { return x * scale; });
      row[shape_.D] = std::signbit(scales_[t]) ? T(0) : -pull(t) * scale;
      std::fill(row + shape_.D + 1, row + head_.W, T(0));
    }
  }

  // Computes transposed (D + 1, tile) = values (tile, W)ᵀ.
  void transpose(T* values) {
    load_transposed<T>({values, head_.W}, head_.count, shape_.D + 1, T(1), transposed_, tile);
  }

  // Computes dq = S dn chunk by chunk; the head's sums are S.
  void compute_query_gradients(Rows<T> dq) {
    const std::int64_t F = shape_.F, D = shape_.D;
    if (!shape_.causal) head_.add_all_keys();
    for (std::int64_t chunk = 0; chunk < shape_.T; chunk += tile) {
      head_.seek(chunk, shape_.T);
      load_gradient();
      transpose(dn_);
      std::fill_n(d_tile_, F * tile, T(0));
      if (shape_.causal) {
        head_.load_keys();
        head_.multiply_visible(RowsAre::keys, {head_.v_tile, head_.W, 1}, transposed_, D + 1, dp_);
        multiply_tile<T>(F, tile, head_.count, {head_.k_tile, tile, 1}, dp_, tile, d_tile_, tile);
        if (!head_.weights.equal)
          scale_columns(D + 1, head_.weights.carry.data() + chunk, transposed_);
      }
      multiply_tile<T>(F, tile, D + 1, {head_.sums, head_.W, 1}, transposed_, tile, d_tile_, tile);
      store_columns(d_tile_, chunk, head_.count, F, dq);
      if (shape_.causal) head_.add_keys();
    }
  }

  // Computes dk and dv from the last chunk to the first; the head's sums are R.
  void compute_key_gradients(Rows<T> dk, Rows<T> dv) {
    std::fill_n(head_.sums, shape_.F * head_.W, T(0));
    for (std::int64_t chunk = 0; chunk < shape_.T && !shape_.causal; chunk += tile) {
      head_.seek(chunk, shape_.T);
      head_.load_queries();
      load_gradient();
      add_queries();
    }
    if (shape_.S == 0) return;
    for (std::int64_t chunk = (shape_.S - 1) / tile * tile; chunk >= 0; chunk -= tile) {
      head_.seek(chunk, shape_.S);
      compute_key_gradients_of_chunk(dk, dv);
      if (!shape_.causal) continue;
      if (!head_.weights.equal) {
        scale_rows(1, shape_.F * head_.W, &head_.weights.carry[chunk + head_.count - 1],
                   head_.sums);
        scale_rows(head_.count, head_.W, head_.weights.carry.data() + chunk, dn_);
      }
      add_queries();
    }
  }

  // Computes R += q ⊗ dn of the chunk's queries.
  void add_queries() {
    multiply_tile<T>(shape_.F, head_.W, head_.count, {head_.q_tile, tile, 1}, dn_, head_.W,
                     head_.sums, head_.W);
  }

  // Computes the gradients of the chunk's keys, from R and, if causal, from the chunk's own
  // queries.
  void compute_key_gradients_of_chunk(Rows<T> dk, Rows<T> dv) {
    const std::int64_t F = shape_.F, D = shape_.D, W = head_.W, count = head_.count;
    const T* enter = head_.weights.enter.data() + head_.first;
    head_.load_keys();
    transpose(head_.v_tile);
    std::fill_n(value_gradients_, tile * W, T(0));
    std::fill_n(d_tile_, F * tile, T(0));
    multiply_tile<T>(count, W, F, {head_.k_tile, 1, tile}, head_.sums, W, value_gradients_, W);
    if (!head_.weights.equal) scale_rows(count, W, enter, value_gradients_);
    if (shape_.causal) {
      head_.load_queries();
      load_gradient();
      head_.multiply_visible(RowsAre::queries, {head_.q_tile, 1, tile}, head_.k_tile, F, p_);
      head_.multiply_visible(RowsAre::queries, {dn_, W, 1}, transposed_, D + 1, dp_);
      for_each_strip(count, [&](std::int64_t s, std::int64_t rows) {
        multiply_tile<T>(rows, W, count - s, {p_ + s * tile + s, 1, tile}, dn_ + s * W, W,
                         value_gradients_ + s * W, W);
      });
      multiply_tile<T>(F, tile, count, {head_.q_tile, tile, 1}, dp_, tile, d_tile_, tile);
    }
    if (!head_.weights.equal) scale_columns(D + 1, enter, transposed_);
    multiply_tile<T>(F, tile, D + 1, {head_.sums, W, 1}, transposed_, tile, d_tile_, tile);
    store_columns(d_tile_, head_.first, count, F, dk);
    for (std::int64_t r = 0; r < count; ++r) {
      const T* row = value_gradients_ + r * W;
      std::copy_n(row, D, dv[head_.first + r]);
      if (!weight_gradients_.empty())
        weight_gradients_[head_.first + r] = dot_span(D + 1, head_.v_tile + r * W, row);
    }
  }

  // Computes the gradient of the gate. The log decay of step t reduces the weights of all keys
  // before t for all queries from t on. Over all visible keys of a query, the gradients of their
  // log weights sum to 0. If the floor replaced the denominator, they and the gradient of the floor
  // sum to pull / (1 - Π g), where 1 - Π g is the sum of the weights.
  void compute_gate_gradients(Array dgate) const {
    double later = 0;
    for (std::int64_t t = shape_.S - 1; t >= 0; --t) {
      const double total = head_.weights.total[t] * std::exp(head_.weights.unit[t]);
      if (std::signbit(scales_[t]) && total > 0) later += pull(t) / total;
      later -= weight_gradients_[t];
      const double g = 1 / (1 + std::exp(-head_.logs.gate(t)));
      dgate.mutable_values<T>()[(b_ * shape_.S + t) * shape_.H + h_] =
          head_.logs.hidden(t) ? 0 : (1 - g) * later - g * weight_gradients_[t];
    }
  }

  const LinearAttentionShape& shape_;
  std::int64_t b_, h_;
  const LinearAttentionGradients& gradients_;
  LinearAttentionHead<T> head_;
  Rows<T> y_, dy_;
  const T* scales_;                       // (T) of this head
  T* dn_;                                 // (tile, W)
  T* value_gradients_;                    // (tile, W): d[v, 1]
  T* transposed_;                         // (D + 1, tile): dnᵀ or [v, 1]ᵀ
  T* d_tile_;                             // (F, tile): dqᵀ or dkᵀ
  T *p_, *dp_;                            // (tile, tile): P and its gradient
  std::vector<double> weight_gradients_;  // gradient of each key's log weight, used by the gate
};

}  // namespace

void linear_attention_backward(const LinearAttentionShape& shape, const LinearAttentionViews& views,
                               const Array& scales, const LinearAttentionGradients& gradients) {
  profile::add_flops(2.5 * flops_of_forward(shape));
  dispatch(shape.dtype, [&]<class T>() {
    const T* scale = scales.values<T>().data();
    parallel_for(shape.B * shape.H, heads_a_piece(shape),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     BackwardHead<T>(shape, i, views, gradients, scale + i * shape.T).run();
                 });
  });
}

}  // namespace tapestry
