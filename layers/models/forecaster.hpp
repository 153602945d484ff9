#pragma once

#include "layers/patch_encoder.hpp"

namespace tapestry {

// How a window of a series is normalised before the model sees it, x -> (x - offset) / scale; the
// forecast is scaled and shifted back.
enum class WindowNorm {
  instance,  // by its own mean and standard deviation (Kim et al. 2022, RevIN, without its affine)
  last,      // offset by its last value (Zeng et al. 2022, arXiv 2205.13504, NLinear)
};

struct ForecasterOptions {
  std::int64_t context = 96, horizon = 96;  // T steps seen, steps to come
  std::int64_t patch = 16, stride = 8;      // the last patch ends with the context
  std::int64_t layers = 3;                  // 0: linear, without patches
  TransformerBlockOptions block{};
  WindowNorm norm = WindowNorm::instance;
};

// What comes next in M series, each forecast from its own past by the same weights:
//   x (B, T, M) -> (B, horizon, M).
// With layers, the channel-independent patch transformer (Nie et al. 2022, arXiv 2211.14730,
// figure 1b): patches of a normalised window, encoded, flattened and projected. Without, the
// window itself is projected: the linear forecasters of Zeng et al. 2022.
class Forecaster final : public Module {
 public:
  ForecasterOptions options;
  std::optional<PatchEncoder> patches;
  Dropout dropout;
  Linear head;  // (horizon, N · C), or (horizon, T)

  Forecaster(const ForecasterOptions& wanted, Random& init);

  // `noise` is dropout's; null: evaluate.
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor predict(const Tensor& windows, Random* noise) const;
};

// windows (R, T) -> (R, N, patch): the values [n · stride, n · stride + patch) of each.
Tensor cut_windows(const Tensor& windows, std::int64_t patch, std::int64_t stride);

}  // namespace tapestry
