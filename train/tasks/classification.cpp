#include "train/tasks/classification.hpp"

#include "autograd/array.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {

std::vector<std::int32_t> likeliest(const Array& logits) {
  const Array scores = logits.to(DType::float32);
  const auto V = scores.dim(1);
  std::vector<std::int32_t> classes(scores.dim(0));
  for (std::size_t row = 0; row < classes.size(); ++row)
    classes[row] = static_cast<std::int32_t>(argmax(scores.values<float>().subspan(row * V, V)));
  return classes;
}

MetricSum accuracy(const Array& logits, const Array& targets) {
  if (is_dry_run()) return {};
  const std::vector<std::int32_t> said = likeliest(logits);
  const auto wanted = targets.values<std::int32_t>();
  MetricSum right;
  for (std::size_t i = 0; i < said.size(); ++i)
    if (wanted[i] != ignored_target) right += {static_cast<double>(said[i] == wanted[i]), 1};
  return right;
}

std::vector<MetricInfo> classification_metrics() {
  using enum MetricInfo::Better;
  return {{"loss", "nats", lower, "the negative log likelihood of the class"},
          {"accuracy", "", higher, "the share of correct classes"}};
}

}  // namespace tapestry
