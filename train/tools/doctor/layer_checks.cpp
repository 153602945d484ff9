#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/kernels/broadcast.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/observations.hpp"

// Checks of the layers' outputs and gradients.
namespace tapestry {
namespace {

constexpr std::int64_t most_examples_of_layers = 32;
constexpr double saturated = 0.99;      // an output of tanh or sigmoid beyond this is saturated
constexpr float tiny = 1e-6F;           // a smaller output belongs to a closed gate
constexpr double largest_output = 1e4;  // limit of the root mean square of an output
constexpr double largest_ratio = 1e6;  // limit of the ratio of the relative gradients of two layers
constexpr double most_dead = 0.9;      // limit of the fraction of dead units of a layer

double root_mean_square(const Array& array) {
  return std::sqrt(sum_of_squares(array) /
                   static_cast<double>(std::max<std::int64_t>(1, array.size())));
}

// An activation, and a function that returns whether an output is in a flat part of it.
struct FlatPart {
  std::string_view op;
  bool (*holds)(float);
};
constexpr auto is_zero = [](float y) { return y == 0; };
constexpr auto is_tiny = [](float y) { return std::abs(y) < tiny; };
constexpr auto is_at_either_end = [](float y) { return std::abs(y) > saturated; };
constexpr FlatPart flat_parts[] = {
    {"relu", is_zero},
    {"gelu", is_tiny},
    {"gelu_tanh", is_tiny},
    {"silu", is_tiny},
    {"swiglu", is_tiny},
    {"tanh", is_at_either_end},
    {"tanh_recurrence", is_at_either_end},
    {"sigmoid", [](float y) { return std::abs(2 * y - 1) > saturated; }},
};

// Returns the fraction of units (last axis) whose outputs are all in a flat part of the activation,
// so that they learn nothing; none for other ops.
std::optional<double> share_of_dead_units(const Activations::Output& output) {
  if (output.array.rank() == 0) return std::nullopt;
  const auto* part = std::ranges::find(flat_parts, output.op, &FlatPart::op);
  if (part == std::end(flat_parts)) return std::nullopt;
  const std::int64_t units = output.array.dim(-1);
  std::vector<bool> dead(units, true);
  const auto values = output.array.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!part->holds(values[i])) dead[i % units] = false;
  return static_cast<double>(std::ranges::count(dead, true)) / static_cast<double>(units);
}

// The activation with the most dead units, the largest output, and the first output that is not
// finite.
struct Flow {
  std::optional<double> dead{};  // none if there is no known activation
  double largest = 0;
  std::string dead_where{}, largest_where{}, not_finite_where{};
};

Flow flow_of(const Activations& activations) {
  Flow flow;
  for (const Activations::Output& output : activations.outputs) {
    if (output.array.dtype() != DType::float32 || output.scope.empty()) continue;
    const std::optional<double> dead = share_of_dead_units(output);
    const double size = root_mean_square(output.array);
    if (!std::isfinite(size) && flow.not_finite_where.empty() && output.op != "mask")
      flow.not_finite_where = output.where();
    if (dead && dead >= flow.dead) flow.dead = dead, flow.dead_where = output.where();
    if (size > flow.largest) flow.largest = size, flow.largest_where = output.where();
  }
  return flow;
}

std::optional<Fault> forward_fault(const Flow& flow) {
  if (!flow.not_finite_where.empty())
    return Fault{fmt::format("the output of {} is not finite", flow.not_finite_where),
                 "a number overflows, or is divided by 0",
                 "--set train.check_finite=true names the op"};
  if (flow.dead && *flow.dead > most_dead)
    return Fault{fmt::format("{:.0f} % of the units of {} are dead or saturated for every example",
                             100 * *flow.dead, flow.dead_where),
                 "weights or biases before this op saturate it, so that its gradient is 0",
                 "make the initial weights before this op smaller, and initialize biases with 0"};
  return std::nullopt;
}

struct Layer {
  std::string name;
  double gradient = 0, size = 0;  // root mean squares of the gradient and of the weights
  double relative() const { return gradient / size; }
};

// Returns the arrays of weights, without biases and norms.
std::vector<Layer> layers_of(const std::vector<Parameter*>& parameters,
                             const Gradients& gradients) {
  std::vector<Layer> layers;
  for (const Parameter* parameter : parameters) {
    if (!is_weight(parameter->role)) continue;
    const Array* gradient = gradients.find(*parameter);
    layers.push_back({parameter->name, gradient ? root_mean_square(*gradient) : 0,
                      root_mean_square(parameter->value())});
  }
  return layers;
}

std::optional<Fault> gradient_fault(const Layer& layer) {
  if (!std::isfinite(layer.gradient))
    return Fault{fmt::format("the gradient of {} is not finite", layer.name),
                 "a number overflows in the backward pass, or is divided by 0",
                 "--set train.check_finite=true names the op"};
  if (layer.gradient == 0)
    return Fault{
        fmt::format("the gradient of {} is 0 everywhere", layer.name),
        "its output does not affect the loss: an activation is saturated, or a factor is 0",
        "check the initial weights and biases of the next layer"};
  return std::nullopt;
}

// Returns the fault of gradients, relative to the weights, that differ too much between two layers.
std::optional<Fault> balance_fault(const Layer& least, const Layer& most) {
  if (least.relative() * largest_ratio > most.relative()) return std::nullopt;
  return Fault{fmt::format("the gradient of {} is {:.0e} times its weights, that of {} {:.0e}",
                           least.name, least.relative(), most.name, most.relative()),
               "gradients vanish or explode between these layers",
               "scale the initial weights; use residual connections, norms, or other activations"};
}

std::set<std::string> arrays_of_zeros(const std::vector<Parameter*>& parameters) {
  std::set<std::string> names;
  for (const Parameter* parameter : parameters)
    if (sum_of_squares(parameter->value()) == 0) names.insert(parameter->name);
  return names;
}

// Returns the fault of a parameter without a gradient, for which every optimizer throws an
// exception.
std::optional<Fault> unused_parameter(const std::vector<Parameter*>& parameters,
                                      const Gradients& gradients) {
  for (const Parameter* parameter : parameters)
    if (parameter->role != Role::fixed && !gradients.find(*parameter))
      return Fault{fmt::format("no gradient reaches {}", parameter->name),
                   "the loss does not depend on this parameter",
                   "use this parameter, or remove it from the model"};
  return std::nullopt;
}

}  // namespace

// Checks outputs, then gradients after two steps, when weights that are initialized with 0, as
// those of adapters, are no longer 0. The relative gradients of such weights are not compared.
CheckResult check_layers(TrainingUnderTest& under_test) {
  under_test.reset();
  const Examples examples = under_test.training_examples(
      std::min(most_examples_of_layers, under_test.config()[key::batch_size]));
  const Flow flow = [&] {
    Activations activations;
    quiet_loss(under_test.task(), under_test.config(), examples);
    return flow_of(activations);
  }();
  CheckResult result{.fault = forward_fault(flow)};
  if (result.fault) return result;
  if (flow.largest > largest_output)
    result.warnings.push_back(fmt::format(
        "the outputs of {} have a root mean square of {:.1e} (expected at most {:.0e}): "
        "the initial weights are too large, or a sum is not averaged",
        flow.largest_where, flow.largest, largest_output));
  const std::vector<Parameter*> parameters = under_test.parameters();
  TrialTraining training(under_test, examples);
  result.fault = unused_parameter(parameters, training.gradients());
  if (result.fault) return result;
  const std::set<std::string> zeros = arrays_of_zeros(parameters);
  for (int i = 0; i < 2; ++i) training.step(usual_rate);
  std::vector<Layer> layers = layers_of(parameters, training.gradients());
  for (const Layer& layer : layers)
    if (result.fault = gradient_fault(layer); result.fault) return result;
  std::erase_if(layers, [&](const Layer& layer) { return zeros.contains(layer.name); });
  if (layers.empty()) return {.said = "no weights are trained", .skipped = true};
  const auto [least, most] = std::ranges::minmax_element(layers, {}, &Layer::relative);
  result.fault = balance_fault(*least, *most);
  result.said = fmt::format(
      "largest output (RMS) {:.2g}; {}; gradient / weight (RMS) {:.0e} to {:.0e} in {} layers",
      flow.largest,
      flow.dead ? fmt::format("at most {:.0f} % dead units per layer", 100 * *flow.dead)
                : "no known activation",
      least->relative(), most->relative(), layers.size());
  return result;
}

}  // namespace tapestry
