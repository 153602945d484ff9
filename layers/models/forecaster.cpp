#include "layers/models/forecaster.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::int64_t num_patches(std::int64_t context, std::int64_t patch, std::int64_t stride) {
  require(
      patch >= 1 && stride >= 1 && patch <= context && (context - patch) % stride == 0,
      "forecaster: patches of {} with stride {} do not cover a context of {} exactly; expected a "
      "stride that divides context - patch",
      patch, stride, context);
  return (context - patch) / stride + 1;
}

PatchEncoderOptions patch_options(const ForecasterOptions& options) {
  return {.patches = num_patches(options.context, options.patch, options.stride),
          .values = options.patch,
          .layers = options.layers,
          .block = options.block};
}

std::int64_t head_inputs(const ForecasterOptions& options) {
  const std::int64_t M = options.targets.empty() ? 1 : options.series;
  if (options.recurrent) return M * options.recurrent->width;
  if (options.layers == 0) return M * options.context;
  return M * num_patches(options.context, options.patch, options.stride) * options.block.width;
}

std::int64_t head_outputs(const ForecasterOptions& options) {
  return std::max<std::int64_t>(1, std::ssize(options.targets)) * options.horizon;
}

// The offset and scale of each of R windows, (R, 1).
struct Level {
  Tensor offset, scale;
};

Level level_of(const Tensor& windows, WindowNorm norm) {
  constexpr double epsilon = 1e-5;  // avoids a division by 0 for constant series
  const std::int64_t T = windows.dim(1);
  switch (norm) {
    case WindowNorm::instance: {
      const Tensor center = mean(windows, {1}, Keep::yes), centered = windows - center;
      const Tensor variance = mean(centered * centered, {1}, Keep::yes);
      return {.offset = center,
              .scale = sqrt(variance + Array::full({1, 1}, epsilon, windows.dtype()))};
    }
    case WindowNorm::last:
      return {.offset = slice(windows, 1, T - 1, T),
              .scale = Array::full({1, 1}, 1, windows.dtype())};
  }
  throw_unhandled("window norm");
}

}  // namespace

Tensor cut_windows(const Tensor& windows, std::int64_t patch, std::int64_t stride) {
  const std::int64_t R = windows.dim(0), T = windows.dim(1);
  num_patches(T, patch, stride);  // throws unless the last patch ends with the window
  return unfold(reshape(windows, {R, T, 1}), {.width = patch, .stride = stride});
}

Tensor select_series(const Tensor& x, int axis, const std::vector<std::int64_t>& series) {
  if (series.empty()) return x;
  std::vector<Tensor> parts;
  for (const std::int64_t m : series) parts.push_back(slice(x, axis, m, m + 1));
  return concat(parts, axis);
}

Forecaster::Forecaster(const ForecasterOptions& wanted, Random& init)
    : options(wanted),
      dropout(options.block.dropout),
      head(head_inputs(options), head_outputs(options), init) {
  if (options.layers > 0) patches.emplace(patch_options(options), init);
  if (options.recurrent) recurrent.emplace(*options.recurrent, init);
  head.weight.role = Role::head;
  if (options.cycle > 0)
    cycle.emplace(Array::zeros({options.cycle, options.series}), Role::embedding);
}

Tensor Forecaster::forward(const Tensor& x, Random* noise, const Array& places) const {
  const Scope scope(path());
  const bool is_joint = !options.targets.empty(), is_known = is_joint || cycle;
  require(x.rank() == 3 && x.dim(1) == options.context && (!is_known || x.dim(2) == options.series),
          "forecaster: x {}; expected (B, {}, {})", x.shape(), options.context,
          is_known ? fmt::format("{}", options.series) : "M");
  require(!cycle || places.shape() == Shape{x.dim(0)},
          "forecaster: places {} in the cycle; expected one for each of {} windows", places.shape(),
          x.dim(0));
  const std::int64_t B = x.dim(0), T = x.dim(1), M = x.dim(2);
  const Tensor series = permute(x, {0, 2, 1}), own = select_series(series, 1, options.targets);
  const std::int64_t K = own.dim(1);
  const Tensor windows = reshape(series, {B * M, T});
  const Level level = level_of(windows, options.norm);
  Tensor normal = (windows - level.offset) / level.scale;
  if (cycle) normal = normal - reshape(cycle_at(places, 0, T), {B * M, T});
  Tensor y = predict(normal, noise);
  if (cycle) {
    const Tensor ahead = select_series(cycle_at(places, T, options.horizon), 1, options.targets);
    y = y + reshape(ahead, {B * K, options.horizon});
  }
  const auto [offset, scale] = is_joint ? level_of(reshape(own, {B * K, T}), options.norm) : level;
  return permute(reshape(y * scale + offset, {B, K, options.horizon}), {0, 2, 1});
}

// Returns the forecasts of normalized windows: (B · M, T) -> (B · K, horizon), with K = M without
// targets.
Tensor Forecaster::predict(const Tensor& windows, Random* noise) const {
  const auto cut = [&] { return cut_windows(windows, options.patch, options.stride); };
  const Tensor y = patches     ? patches->forward(cut(), noise)
                   : recurrent ? last_state(recurrent->forward(cut(), noise))
                               : windows;
  const Tensor flat = reshape(y, {-1, head_inputs(options)});
  return reshape(head.forward(patches ? dropout.forward(flat, noise) : flat),
                 {-1, options.horizon});
}

// Returns the cycle of each series at the steps [first, first + steps) of windows that begin at
// `places`: (B) -> (B, M, steps).
Tensor Forecaster::cycle_at(const Array& places, std::int64_t first, std::int64_t steps) const {
  const std::int64_t B = places.size();
  Array at = Array::zeros({B, steps}, DType::int32);
  if (!is_dry_run()) {
    const auto begin = places.values<std::int32_t>();
    const auto out = at.mutable_values<std::int32_t>();
    for (std::int64_t i = 0; i < B * steps; ++i)
      out[i] = static_cast<std::int32_t>((begin[i / steps] + first + i % steps) % options.cycle);
  }
  return permute(embedding(*cycle, at), {0, 2, 1});
}

TAPESTRY_FIELDS(Forecaster, patches, recurrent, dropout, head, cycle)

}  // namespace tapestry
