#include "train/tools/doctor/observations.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/check.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"

namespace tapestry {
namespace {

using Kind = Comparison::Kind;

// An observer that keeps the operands of the first op of a loss, and the size of the first
// embedding.
class LossWatcher final : public Observer {
 public:
  explicit LossWatcher(const Batch& batch) : batch_(batch) {}

  void forward(const ObservedOp& op, const std::vector<Tensor>& inputs) override {
    if (seen.kind != Kind::unknown) return;
    const std::string name = op.op;
    if (name == "embedding" && seen.embedded == 0)
      seen.embedded = inputs[0].dim(0);
    else if (name == "cross_entropy")
      keep(Kind::cross_entropy, outputs_of(inputs[0].value()), targets_of(inputs[0]));
    else if (name == "binary_cross_entropy")
      keep(Kind::binary_cross_entropy, inputs[0].value(), inputs[1].value().to(DType::float32));
    else if (name == "squared_error")
      keep(Kind::squared_error, inputs[0].value(), inputs[1].value().to(DType::float32));
  }

  Comparison seen;

 private:
  // Returns the logits; where they exist for the positions with a target only (N, V), those of all
  // positions (…, V), with zeros for the others.
  Array outputs_of(const Array& logits) const {
    const Array& targets = batch_.targets;
    const std::int64_t V = logits.dim(-1);
    if (targets.dtype() != DType::int32 || logits.size() >= targets.size() * V) return logits;
    Shape shape = targets.shape();
    shape.push_back(V);
    Array all = Array::zeros(shape);
    const Array counted = logits.to(DType::float32);
    const auto target = targets.values<std::int32_t>();
    const float* from = counted.values<float>().data();
    for (std::int64_t i = 0; i < targets.size(); ++i)
      if (target[i] != ignored_target) {
        std::copy_n(from, V, all.mutable_values<float>().data() + i * V);
        from += V;
      }
    return all;
  }

  // Returns the targets; each M times for the logits of an ensemble of M (N · M, V).
  Array targets_of(const Tensor& logits) const {
    const std::int64_t M = logits.size() / logits.dim(logits.rank() - 1) / batch_.targets.size();
    if (M <= 1) return batch_.targets;
    std::vector<std::int32_t> all;
    for (const std::int32_t target : batch_.targets.values<std::int32_t>())
      all.insert(all.end(), static_cast<std::size_t>(M), target);
    return Array::of(all, {std::ssize(all)});
  }

  void keep(Kind kind, const Array& outputs, const Array& targets) {
    seen.kind = kind;
    seen.outputs = outputs.to(DType::float32);
    seen.targets = targets;
  }

  const Batch& batch_;
};

// Returns the mean loss of these outputs, computed by the op of the loss.
double mean_loss(const Comparison& seen, const Array& outputs) {
  switch (seen.kind) {
    case Kind::unknown:
      return 0;
    case Kind::cross_entropy:
      return cross_entropy(outputs, seen.targets).item();
    case Kind::binary_cross_entropy:
      return mean(binary_cross_entropy(outputs, seen.targets)).item();
    case Kind::squared_error:
      return mean(squared_error(outputs, seen.targets)).item();
  }
  throw_unhandled("kind of loss");
}

// Returns the mean entropy of the classes in nats over the `places` places of an example.
double entropy(std::span<const std::int32_t> classes, std::size_t places) {
  std::vector<std::map<std::int32_t, double>> counts(places);
  std::vector<double> counted(places);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] == ignored_target) continue;
    ++counts[i % places][classes[i]];
    ++counted[i % places];
  }
  double sum = 0, all = 0;
  for (std::size_t place = 0; place < places; all += counted[place++])
    for (const auto& [label, count] : counts[place])
      sum += count * std::log(counted[place] / count);
  return sum / std::max(1.0, all);
}

double binary_entropy(double p) {
  return p <= 0 || p >= 1 ? 0 : -p * std::log(p) - (1 - p) * std::log(1 - p);
}

// Returns the mean loss of the best constants, one for each of the `places` places of an example:
// the variance, or the entropy of the mean.
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

double left_over(const Comparison& seen, std::size_t places) {
  if (seen.kind == Kind::unknown) return 0;
  if (seen.kind == Kind::cross_entropy) return entropy(seen.targets.values<std::int32_t>(), places);
  return left_by_constants(seen.kind, seen.targets.values<float>(), places);
}

// Returns whether two arrays differ. If positions are compared, an array without an axis of that
// length does not differ.
bool differ(const Array& one, const Array& other, const ComparedPart& part) {
  if (one.dtype() != DType::float64 || other.dtype() != DType::float64) return false;
  if (one.rank() == 0 || other.size() % one.size() != 0) return false;
  const Shape& shape = one.shape();
  int axis = 1;
  while (part.places > 0 && axis < shape.rank() && shape[axis] != part.places) ++axis;
  if (part.places > 0 && axis >= shape.rank()) return false;
  std::int64_t stride = 1;
  for (int inner = axis + 1; inner < shape.rank(); ++inner) stride *= shape[inner];
  const auto a = one.values<double>(), b = other.values<double>();
  for (std::int64_t i = 0; i < one.size(); ++i) {
    const bool is_compared = part.places == 0 || i / stride % part.places <= part.last;
    if (is_compared && relative_difference(a[i], b[i]) > rounding_in_float64) return true;
  }
  return false;
}

}  // namespace

double Comparison::error() const { return mean_loss(*this, outputs); }
double Comparison::uniform() const {
  if (kind == Kind::unknown) return 0;
  if (kind == Kind::cross_entropy)
    return std::log(static_cast<double>(outputs.dim(outputs.rank() - 1)));
  return mean_loss(*this, Array::zeros(outputs.shape()));
}

double Comparison::floor() const {
  if (kind != Kind::binary_cross_entropy) return 0;
  double sum = 0;
  for (const float t : targets.values<float>()) sum += binary_entropy(t);
  return sum / static_cast<double>(targets.size());
}

double Comparison::constant() const { return left_over(*this, 1); }
double Comparison::constant_by_place() const {
  const std::int64_t examples = std::max<std::int64_t>(1, targets.dim(0));
  return left_over(*this, std::max<std::int64_t>(1, targets.size() / examples));
}

Comparison compare_outputs(Task& task, const Config& config, const Examples& examples) {
  LossWatcher watcher(examples.batch);
  quiet_loss(task, config, examples);
  return watcher.seen;
}

double relative_difference(double a, double b) {
  const double difference = std::abs(a - b) / std::max({1.0, std::abs(a), std::abs(b)});
  return std::isnan(difference) && !(std::isnan(a) && std::isnan(b)) && a != b ? HUGE_VAL
                                                                               : difference;
}

std::optional<std::string> first_difference(const Activations& one, const Activations& other,
                                            const ComparedPart& part) {
  if (one.outputs.size() != other.outputs.size()) return std::nullopt;
  for (std::size_t i = 0; i < one.outputs.size(); ++i)
    if (differ(one.outputs[i].array, other.outputs[i].array, part)) return one.outputs[i].where();
  return std::nullopt;
}

}  // namespace tapestry
