#include "autograd/kernels/attention.hpp"
#include "autograd/kernels/linear_attention_head.hpp"
#include "autograd/kernels/rows.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

// The forward pass of one (batch, head), the i-th of B · H.
template <class T>
class ForwardHead {
 public:
  ForwardHead(const LinearAttentionShape& shape, std::int64_t i, const LinearAttentionViews& views,
              T* scales, LinearAttentionState* state)
      : shape_(shape),
        i_(i),
        y_(rows_of<T>(views.y, i / shape.H, i % shape.H)),
        scales_(scales),
        floored_(shape.floored.empty() ? nullptr : shape.floored.values<T>().data() + i * shape.T),
        state_(state),
        head_(shape, i / shape.H, i % shape.H, views, carried(),
              tile * (padded<T>(shape.D + 1) + tile)),
        n_tile_(head_.scratch.take(tile, head_.W)),
        p_(head_.scratch.take(tile, tile)) {}

  void run() {
    if (state_) load_state();
    if (!shape_.causal) head_.add_all_keys();
    for (std::int64_t chunk = 0; chunk < shape_.T; chunk += tile) {
      head_.seek(chunk, shape_.T);
      head_.load_queries();
      read_sums();
      if (shape_.causal) {
        head_.load_keys();
        read_chunk();
        head_.add_keys();
      }
      divide();
    }
    if (state_) store_state();
  }

 private:
  typename KeyWeights<T>::Carried carried() const {
    if (!state_) return {};
    return {.unit = state_->log_units.values<T>()[i_], .total = state_->weights.values<T>()[i_]};
  }

  T* state_row(std::int64_t f) {
    return state_->sums.mutable_values<T>().data() + (i_ * head_.F + f) * (head_.D + 1);
  }

  void load_state() {
    for (std::int64_t f = 0; f < head_.F; ++f)
      std::copy_n(state_row(f), head_.D + 1, head_.sums + f * head_.W);
  }

  void store_state() {
    for (std::int64_t f = 0; f < head_.F; ++f)
      std::copy_n(head_.sums + f * head_.W, head_.D + 1, state_row(f));
    state_->log_units.mutable_values<T>()[i_] = head_.weights.last_unit;
    state_->weights.mutable_values<T>()[i_] = head_.weights.last_total;
  }

  // Computes N = carry · Qᵀ sums, the part of the keys before the chunk, or of all keys.
  void read_sums() {
    const std::int64_t W = head_.W;
    std::fill_n(n_tile_, tile * W, T(0));
    multiply_tile<T>(head_.count, W, head_.F, {head_.q_tile, 1, tile}, head_.sums, W, n_tile_, W);
    if (shape_.causal && !head_.weights.equal)
      scale_rows(head_.count, W, head_.weights.carry.data() + head_.first, n_tile_);
  }

  // Computes N += P [v, 1] with P = w (q · k), the part of the chunk's own keys.
  void read_chunk() {
    const std::int64_t W = head_.W;
    head_.multiply_visible(RowsAre::keys, {head_.k_tile, 1, tile}, head_.q_tile, head_.F, p_);
    for_each_strip(head_.count, [&](std::int64_t r, std::int64_t rows) {
      multiply_tile<T>(rows, W, r + rows, {p_ + r, 1, tile}, head_.v_tile, W, n_tile_ + r * W, W);
    });
  }

  // Computes y = n[:D] / n[D].
  void divide() {
    const std::int64_t D = head_.D;
    const T floor = shape_.floor;
    for (std::int64_t r = 0; r < head_.count; ++r) {
      const T* n = n_tile_ + r * head_.W;
      const T least = floor * head_.weights.total[head_.first + r];
      const bool floored = floored_ ? floored_[head_.first + r] != 0 : n[D] < least;
      const T scale = inverse_of_sum(floored ? least : n[D]);
      scales_[head_.first + r] = floored ? -scale : scale;
      map_span(D, {n}, y_[head_.first + r], [scale](auto x) { return x * scale; });
    }
  }

  const LinearAttentionShape& shape_;
  std::int64_t i_;
  Rows<T> y_;
  T* scales_;         // (T) of this head
  const T* floored_;  // (T) of this head, or null
  LinearAttentionState* state_;
  LinearAttentionHead<T> head_;
  T* n_tile_;  // (tile, W)
  T* p_;       // (tile, tile): (keys, queries)
};

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

void linear_attention_forward(const LinearAttentionShape& shape, const LinearAttentionViews& views,
                              Array& scales, LinearAttentionState* state) {
  profile::add_flops(flops_of_forward(shape));
  dispatch(shape.dtype, [&]<class T>() {
    T* scale = scales.mutable_values<T>().data();
    parallel_for(shape.B * shape.H, heads_a_piece(shape),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     ForwardHead<T>(shape, i, views, scale + i * shape.T, state).run();
                 });
  });
}

}  // namespace tapestry
