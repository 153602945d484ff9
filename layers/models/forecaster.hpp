#pragma once

#include "layers/patch_encoder.hpp"
#include "layers/recurrent.hpp"

namespace tapestry {

// The normalization of a window of a series, (x - offset) / scale; the forecast is transformed
// back.
enum class WindowNorm {
  instance,  // subtract the mean, divide by the standard deviation (Kim et al. 2022, RevIN, without
             // affine map)
  last,      // subtract the last value (Zeng et al. 2022, arXiv 2205.13504, NLinear)
};

struct ForecasterOptions {
  std::int64_t context = 96, horizon = 96;  // T, number of input steps; number of forecast steps
  std::int64_t patch = 16, stride = 8;      // the last patch ends with the context
  std::int64_t layers = 3;                  // 0: linear, without patches, or recurrent layers
  TransformerBlockOptions block{};
  std::optional<RecurrentStackOptions> recurrent{};  // only with 0 layers; it reads the patches
  WindowNorm norm = WindowNorm::instance;
  std::int64_t series = 1;              // M, number of series; used with targets or a cycle
  std::vector<std::int64_t> targets{};  // K indices of the series to forecast from all M series;
                                        // empty: all, each from its own past by the same weights
  std::int64_t cycle = 0;               // length of the learned cycle of each series; 0: none
};

// A forecaster of time series: x (B, T, M) -> (B, horizon, K), or (B, horizon, M) without targets.
// With layers it is the channel-independent patch transformer (Nie et al. 2022, arXiv 2211.14730,
// figure 1b): patches of a normalized window are encoded, flattened and projected. Recurrent layers
// read the patches in turn, and the last output is projected. Without layers the window is
// projected (Zeng et al. 2022). With targets, the flattened windows of all series are projected
// together. With a cycle (Lin et al. 2024, CycleNet, arXiv 2409.18479, eqs. 2 to 4) its values at
// the time of each step are subtracted from the normalized window and added to the forecast before
// it is transformed back. Throws std::invalid_argument unless the last patch ends with the context.
class Forecaster final : public Module {
 public:
  ForecasterOptions options;
  std::optional<PatchEncoder> patches;
  std::optional<RecurrentStack> recurrent;
  Dropout dropout;
  Linear head;  // (horizon, F), F = N · C, C or T; with targets (K · horizon, M · F)
  std::optional<Parameter> cycle;  // (cycle, M), from 0

  Forecaster(const ForecasterOptions& wanted, Random& init);

  // Returns (B, horizon, K or M). `noise` is for dropout; null: evaluation. `places` (B) int32 are
  // those of the first steps in the cycle, if there is one.
  Tensor forward(const Tensor& x, Random* noise = nullptr, const Array& places = {}) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor predict(const Tensor& windows, Random* noise) const;
  Tensor cycle_at(const Array& places, std::int64_t first, std::int64_t steps) const;
};

// Returns the values [n · stride, n · stride + patch) of each window: (R, T) -> (R, N, patch).
// Throws std::invalid_argument unless the last patch ends with the window.
Tensor cut_windows(const Tensor& windows, std::int64_t patch, std::int64_t stride);

// Returns x with the elements `series` of one axis, in this order; empty: x.
Tensor select_series(const Tensor& x, int axis, const std::vector<std::int64_t>& series);

}  // namespace tapestry
