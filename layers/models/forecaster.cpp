#include "layers/models/forecaster.hpp"

#include "autograd/check.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::int64_t num_patches(std::int64_t context, std::int64_t patch, std::int64_t stride) {
  require(patch >= 1 && stride >= 1 && patch <= context && (context - patch) % stride == 0,
          "forecaster: patches of {} with stride {} do not end with a context of {}; expected a "
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
  if (options.layers == 0) return options.context;
  return num_patches(options.context, options.patch, options.stride) * options.block.width;
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

Forecaster::Forecaster(const ForecasterOptions& wanted, Random& init)
    : options(wanted),
      dropout(options.block.dropout),
      head(head_inputs(options), options.horizon, init) {
  if (options.layers > 0) patches.emplace(patch_options(options), init);
}

Tensor Forecaster::forward(const Tensor& x, Random* noise) const {
  const Scope scope(path());
  require(x.rank() == 3 && x.dim(1) == options.context, "forecaster: x {}; expected (B, {}, M)",
          x.shape(), options.context);
  const std::int64_t B = x.dim(0), T = x.dim(1), M = x.dim(2);
  const Tensor windows = reshape(permute(x, {0, 2, 1}), {B * M, T});
  const auto [offset, scale] = level_of(windows, options.norm);
  const Tensor y = predict((windows - offset) / scale, noise) * scale + offset;
  return permute(reshape(y, {B, M, options.horizon}), {0, 2, 1});
}

// Returns the forecasts of windows (R, T): (R, horizon).
Tensor Forecaster::predict(const Tensor& windows, Random* noise) const {
  if (!patches) return head.forward(windows);
  const Tensor y = patches->forward(cut_windows(windows, options.patch, options.stride), noise);
  return head.forward(dropout.forward(reshape(y, {y.dim(0), y.dim(1) * y.dim(2)}), noise));
}

void Forecaster::fields(FieldVisitor& visit) {
  if (patches) visit("patches", *patches);
  visit("dropout", dropout);
  visit("head", head);
}

}  // namespace tapestry
