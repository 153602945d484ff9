#include "train/tools/doctor/comparison.hpp"

#include <cmath>
#include <map>
#include <numeric>

#include "autograd/observe.hpp"

namespace tapestry {
namespace {

using Kind = Comparison::Kind;

// Takes what the first op of a loss reads.
class LossWatcher final : public Observer {
 public:
  explicit LossWatcher(const Batch& batch) : batch_(batch) {}

  void forward(const ObservedOp& op, const std::vector<Tensor>& inputs) override {
    if (seen.kind != Kind::unknown) return;
    const std::string name = op.op;
    if (name == "cross_entropy")
      seen = {Kind::cross_entropy, inputs[0].value().to(DType::float32), batch_.targets};
    else if (name == "binary_cross_entropy")
      take(Kind::binary_cross_entropy, inputs);
    else if (name == "squared_error")
      take(Kind::squared_error, inputs);
  }

  Comparison seen;

 private:
  void take(Kind kind, const std::vector<Tensor>& inputs) {
    seen = {kind, inputs[0].value().to(DType::float32), inputs[1].value().to(DType::float32)};
  }

  const Batch& batch_;
};

double log_sum(std::span<const float> logits) {
  const double high = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - high);
  return high + std::log(sum);
}

double cross_entropy_of(const Array& logits, const Array& targets) {
  const auto V = logits.dim(-1 + logits.rank());
  const auto classes = targets.values<std::int32_t>();
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] == ignored_target) continue;
    const auto row = logits.values<float>().subspan(i * V, V);
    sum += log_sum(row) - row[classes[i]];
    ++count;
  }
  return sum / std::max(1.0, count);
}

// In nats, of how often each of several things was seen; times how often they were in all.
double entropy_times_count(const std::map<std::int32_t, double>& counts) {
  double all = 0, sum = 0;
  for (const auto& [thing, count] : counts) all += count;
  for (const auto& [thing, count] : counts) sum += count * std::log(all / count);
  return sum;
}

// Mean entropy of classes, of all together or of each of so many places by itself.
double entropy(std::span<const std::int32_t> classes, std::size_t places) {
  std::vector<std::map<std::int32_t, double>> counts(places);
  double count = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] == ignored_target) continue;
    ++counts[i % places][classes[i]];
    ++count;
  }
  double sum = 0;
  for (const auto& place : counts) sum += entropy_times_count(place);
  return sum / std::max(1.0, count);
}

double binary_entropy(double p) {
  return p <= 0 || p >= 1 ? 0 : -p * std::log(p) - (1 - p) * std::log(1 - p);
}

// Of numbers, all together or of each of so many places by itself: the mean of what a constant
// leaves, the variance or the entropy of the mean.
double left_by_constants(Kind kind, std::span<const float> numbers, std::size_t places) {
  std::vector<double> sums(places), squares(places);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sums[i % places] += numbers[i];
    squares[i % places] += static_cast<double>(numbers[i]) * numbers[i];
  }
  const double count = static_cast<double>(numbers.size()) / static_cast<double>(places);
  double left = 0;
  for (std::size_t place = 0; place < places; ++place) {
    const double mean = sums[place] / count;
    left +=
        kind == Kind::squared_error ? squares[place] / count - mean * mean : binary_entropy(mean);
  }
  return left / static_cast<double>(places);
}

// Of an example, where the first axis is theirs.
std::size_t places_of(const Array& targets) {
  return std::max<std::int64_t>(1, targets.size() / std::max<std::int64_t>(1, targets.dim(0)));
}

double left_over(const Comparison& seen, std::size_t places) {
  switch (seen.kind) {
    case Kind::unknown:
      return 0;
    case Kind::cross_entropy:
      return entropy(seen.targets.values<std::int32_t>(), places);
    case Kind::binary_cross_entropy:
    case Kind::squared_error:
      return left_by_constants(seen.kind, seen.targets.values<float>(), places);
  }
  return 0;
}

template <class Term>
double mean_term(const Comparison& seen, Term term) {
  const auto outputs = seen.outputs.values<float>(), targets = seen.targets.values<float>();
  double sum = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) sum += term(outputs[i], targets[i]);
  return sum / static_cast<double>(targets.size());
}

// t softplus(-x) + (1 - t) softplus(x)
double binary_cross_entropy_of(double x, double t) {
  return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

double Comparison::error() const {
  switch (kind) {
    case Kind::unknown:
      return 0;
    case Kind::cross_entropy:
      return cross_entropy_of(outputs, targets);
    case Kind::binary_cross_entropy:
      return mean_term(*this, binary_cross_entropy_of);
    case Kind::squared_error:
      return mean_term(*this, [](double x, double t) { return (x - t) * (x - t); });
  }
  return 0;
}

double Comparison::naive() const {
  switch (kind) {
    case Kind::unknown:
      return 0;
    case Kind::cross_entropy:
      return std::log(static_cast<double>(outputs.dim(outputs.rank() - 1)));
    case Kind::binary_cross_entropy:
      return std::log(2.0);
    case Kind::squared_error:
      return mean_term(*this, [](double, double t) { return t * t; });
  }
  return 0;
}

double Comparison::floor() const {
  return kind == Kind::binary_cross_entropy
             ? mean_term(*this, [](double, double t) { return binary_entropy(t); })
             : 0;
}

double Comparison::blind() const { return left_over(*this, 1); }
double Comparison::blind_by_place() const { return left_over(*this, places_of(targets)); }

Comparison compare_outputs(Task& task, const Config& config, const Examples& examples) {
  LossWatcher watcher(examples.batch);
  quiet_loss(task, config, examples);
  return watcher.seen;
}

}  // namespace tapestry
