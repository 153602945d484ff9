#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/kernels/broadcast.hpp"
#include "optim/clip.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/activations.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/tools/doctor/steps.hpp"

// What flows through the layers, forward and back.
namespace tapestry {
namespace {

constexpr std::int64_t most_examples_at_once = 32;
constexpr double saturated = 0.99;        // of tanh and sigmoid, from either end
constexpr float tiny = 1e-6F;             // output of a gate that is shut
constexpr double largest_output = 1e4;    // root mean square
constexpr double largest_gradient = 1e4;  // of a layer, in its weights
constexpr double furthest = 1e6;          // of a layer's gradient from another's
constexpr double mostly = 0.9;            // units of a layer

double root_mean_square(const Array& array) {
  return std::sqrt(sum_of_squares(array) /
                   static_cast<double>(std::max<std::int64_t>(1, array.size())));
}

// Of the last axis' units, the share of which all outputs are as `quiet` says.
template <class Quiet>
double share_of_units(const Array& output, Quiet quiet) {
  const std::int64_t units = output.shape()[-1];
  std::vector<bool> all(units, true);
  const auto values = output.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!quiet(values[i])) all[i % units] = false;
  return static_cast<double>(std::ranges::count(all, true)) / static_cast<double>(units);
}

// What an activation gives where it is flat.
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

// Of units that give the same whatever comes in, and so learn nothing. Nothing of other ops.
std::optional<double> share_of_dead_units(const Activations::Output& output) {
  if (output.array.rank() == 0) return std::nullopt;
  const auto* part = std::ranges::find(flat_parts, output.op, &FlatPart::op);
  if (part == std::end(flat_parts)) return std::nullopt;
  return share_of_units(output.array, part->holds);
}

// The worst activation, and the largest output.
struct Flow {
  std::optional<double> dead{};  // none: there is no activation that is known here
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
                 "--set train.check_finite=true shows what it comes from"};
  if (flow.dead && *flow.dead > mostly)
    return Fault{fmt::format("{:.0f} % of the units of {} give the same for every example",
                             100 * *flow.dead, flow.dead_where),
                 "the weights or biases before it drive it to its flat part, where no gradient "
                 "passes",
                 "scale the first weights before it down, and begin with biases of 0"};
  return std::nullopt;
}

struct Layer {
  std::string name;
  double gradient = 0, size = 0;  // root mean squares, the size that of the weights
  double share() const { return gradient / size; }
};

// Of weights alone: biases and norms may begin as they like.
std::vector<Layer> layers_of(const std::vector<Parameter*>& parameters,
                             const Gradients& gradients) {
  std::vector<Layer> layers;
  for (const Parameter* parameter : parameters) {
    if (parameter->role != Role::weight) continue;
    const Array* gradient = gradients.find(*parameter);
    layers.push_back({parameter->name, gradient ? root_mean_square(*gradient) : 0,
                      root_mean_square(parameter->value())});
  }
  return layers;
}

std::optional<Fault> gradient_fault(const Layer& layer) {
  if (!std::isfinite(layer.gradient))
    return Fault{fmt::format("the gradient of {} is not finite", layer.name),
                 "a number overflows on the way back, or is divided by 0",
                 "--set train.check_finite=true shows what it comes from"};
  if (layer.gradient == 0)
    return Fault{fmt::format("all of the gradient of {} is 0", layer.name),
                 "what comes behind it is dead: the flat part of an activation, or a factor of 0",
                 "look at the first weights and biases of what reads it"};
  return std::nullopt;
}

// Of layers whose gradients are finite and not 0.
std::optional<Fault> balance_fault(const Layer& least, const Layer& most) {
  if (most.share() > largest_gradient)
    return Fault{
        fmt::format("the gradient of {} is {:.0e} times its weights", most.name, most.share()),
        "gradients explode on their way back",
        "scale the first weights down, add norms, and clip: optim.clip_norm = 1.0"};
  if (least.share() * furthest > most.share()) return std::nullopt;
  return Fault{fmt::format("the gradient of {} is {:.0e} times its weights, that of {} {:.0e}",
                           least.name, least.share(), most.name, most.share()),
               "gradients vanish on their way back, as through many saturated layers",
               "use residual connections, norms, or activations that do not saturate"};
}

Fault no_gradient(const std::string& name) {
  return {fmt::format("no gradient reaches {}", name),
          "the loss does not depend on it: it is left out, or cut off",
          "use its output, or take it out of the model"};
}

std::set<std::string> arrays_of_zeros(const std::vector<Parameter*>& parameters) {
  std::set<std::string> names;
  for (const Parameter* parameter : parameters)
    if (sum_of_squares(parameter->value()) == 0) names.insert(parameter->name);
  return names;
}

// No optimiser takes a parameter without a gradient.
std::optional<Fault> cut_off(TrainingUnderTest& under_test, const Examples& examples) {
  Tape tape;
  const Loss loss = quiet_loss(under_test.task(), under_test.config(), examples);
  const Gradients gradients = tape.backward(loss.objective, 1 / examples.batch.count);
  for (const Parameter* parameter : under_test.parameters())
    if (parameter->role != Role::fixed && !gradients.find(*parameter))
      return no_gradient(parameter->name);
  return std::nullopt;
}

}  // namespace

// Gradients are looked at after two steps: what begins with 0 by intent, as adapters do, has left
// it by then. Its size is what two steps make it, and is compared with none.
CheckResult check_layers(TrainingUnderTest& under_test) {
  under_test.begin_anew();
  const Examples examples = under_test.training_examples(
      std::min(most_examples_at_once, under_test.config()[key::batch_size]));
  const Flow flow = [&] {
    Activations activations;
    quiet_loss(under_test.task(), under_test.config(), examples);
    return flow_of(activations);
  }();
  CheckResult result{.fault = forward_fault(flow)};
  if (result.fault) return result;
  if (flow.largest > largest_output)
    result.warnings.push_back(
        fmt::format("the outputs of {} are of size {:.1e}: first weights that are too large, or "
                    "sums that are not divided by what they are over",
                    flow.largest_where, flow.largest));
  result.fault = cut_off(under_test, examples);
  if (result.fault) return result;
  const std::set<std::string> zeros = arrays_of_zeros(under_test.parameters());
  Steps steps(under_test);
  for (int i = 0; i < 2; ++i) steps.without_dropout(examples, usual_rate);
  Tape tape;
  const Loss loss = quiet_loss(under_test.task(), under_test.config(), examples);
  std::vector<Layer> layers =
      layers_of(under_test.parameters(), tape.backward(loss.objective, 1 / examples.batch.count));
  for (const Layer& layer : layers)
    if (result.fault = gradient_fault(layer); result.fault) return result;
  std::erase_if(layers, [&](const Layer& layer) { return zeros.contains(layer.name); });
  if (layers.empty()) return {.said = "no weights are trained", .skipped = true};
  const auto [least, most] = std::ranges::minmax_element(layers, {}, &Layer::share);
  result.fault = balance_fault(*least, *most);
  result.said = fmt::format(
      "outputs up to {:.2g}, {}, gradients {:.0e} to {:.0e} of {} arrays of weights", flow.largest,
      flow.dead ? fmt::format("{:.0f} % dead units at most", 100 * *flow.dead)
                : "no activation of a known kind",
      least->share(), most->share(), layers.size());
  return result;
}

}  // namespace tapestry
