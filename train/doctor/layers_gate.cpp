#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/kernels/broadcast.hpp"
#include "optim/clip.hpp"
#include "train/doctor/activations.hpp"
#include "train/doctor/gate.hpp"
#include "train/doctor/steps.hpp"
#include "train/settings/keys.hpp"

// What flows through the layers, forward and back.
namespace tapestry {
namespace {

constexpr std::int64_t most_examples_at_once = 32;
constexpr double saturated = 0.99;        // of tanh and sigmoid, from either end
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

// Units of an activation that give the same whatever comes in, and so learn nothing.
double share_of_dead_units(const Activations::Output& output) {
  if (output.array.rank() == 0 || output.array.dtype() != DType::float32) return 0;
  if (output.op == "relu") return share_of_units(output.array, [](float y) { return y == 0; });
  if (output.op == "tanh")
    return share_of_units(output.array, [](float y) { return std::abs(y) > saturated; });
  if (output.op == "sigmoid")
    return share_of_units(output.array, [](float y) { return std::abs(2 * y - 1) > saturated; });
  return 0;
}

// The worst activation, and the largest output.
struct Flow {
  double dead = 0, largest = 0;
  std::string dead_where{}, largest_where{}, not_finite_where{};
};

Flow flow_of(const Activations& activations) {
  Flow flow;
  for (const Activations::Output& output : activations.outputs) {
    if (output.array.dtype() != DType::float32 || output.scope.empty()) continue;
    const double dead = share_of_dead_units(output), size = root_mean_square(output.array);
    if (!std::isfinite(size) && flow.not_finite_where.empty() && output.op != "mask")
      flow.not_finite_where = output.where();
    if (dead > flow.dead) flow.dead = dead, flow.dead_where = output.where();
    if (size > flow.largest) flow.largest = size, flow.largest_where = output.where();
  }
  return flow;
}

std::optional<Fault> forward_fault(const Flow& flow) {
  if (!flow.not_finite_where.empty())
    return Fault{fmt::format("the output of {} is not finite", flow.not_finite_where),
                 "a number overflows, or is divided by 0",
                 "--set train.check_finite=true shows what it comes from"};
  if (flow.dead > mostly)
    return Fault{fmt::format("{:.0f} % of the units of {} give the same for every example",
                             100 * flow.dead, flow.dead_where),
                 "the weights or biases before it drive it to its flat part, where no gradient "
                 "passes",
                 "scale the first weights before it down, and begin with biases of 0"};
  if (flow.largest > largest_output)
    return Fault{
        fmt::format("the outputs of {} are of size {:.1e}", flow.largest_where, flow.largest),
        "first weights that are too large, or sums that are not divided by what they are "
        "over",
        "scale the first weights down, or put a norm before it"};
  return std::nullopt;
}

struct Layer {
  std::string name;
  double gradient = 0;  // its root mean square over that of the weights
};

// Of weights alone: biases and norms may begin as they like.
std::vector<Layer> layers_of(const std::vector<Parameter*>& parameters,
                             const Gradients& gradients) {
  std::vector<Layer> layers;
  for (const Parameter* parameter : parameters) {
    if (parameter->role != Role::weight) continue;
    const Array* gradient = gradients.find(*parameter);
    const double size = root_mean_square(parameter->value());
    layers.push_back(
        {parameter->name, gradient ? root_mean_square(*gradient) / (size > 0 ? size : 1.0) : 0});
  }
  return layers;
}

Fault no_gradient(const std::string& name) {
  return {fmt::format("no gradient reaches {}", name),
          "the loss does not depend on it: it is left out, or cut off",
          "use its output, or take it out of the model"};
}

std::optional<Fault> backward_fault(const std::vector<Layer>& layers) {
  const auto [least, most] = std::ranges::minmax_element(layers, {}, &Layer::gradient);
  if (least->gradient == 0) return no_gradient(least->name);
  if (!(most->gradient < largest_gradient))
    return Fault{
        fmt::format("the gradient of {} is {:.0e} times its weights", most->name, most->gradient),
        "gradients explode on their way back",
        "scale the first weights down, add norms, and clip: optim.clip_norm = 1.0"};
  if (least->gradient * furthest < most->gradient)
    return Fault{fmt::format("the gradient of {} is {:.0e} times its weights, that of {} {:.0e}",
                             least->name, least->gradient, most->name, most->gradient),
                 "gradients vanish on their way back, as through many saturated layers",
                 "use residual connections, norms, or activations that do not saturate"};
  return std::nullopt;
}

// No optimiser takes a parameter without a gradient.
std::optional<Fault> cut_off(Patient& patient, const Examples& examples) {
  Tape tape;
  const Loss loss = quiet_loss(patient.task(), patient.config(), examples);
  const Gradients gradients = tape.backward(loss.objective, 1 / examples.batch.count);
  for (const Parameter* parameter : patient.parameters())
    if (parameter->role != Role::fixed && !gradients.find(*parameter))
      return no_gradient(parameter->name);
  return std::nullopt;
}

}  // namespace

// Gradients are looked at after two steps: what begins with 0 by intent, as adapters do, has left
// it by then.
GateVerdict check_layers(Patient& patient) {
  patient.begin_anew();
  const Examples examples =
      patient.training_examples(std::min(most_examples_at_once, patient.config()[key::batch_size]));
  const Flow flow = [&] {
    Activations activations;
    quiet_loss(patient.task(), patient.config(), examples);
    return flow_of(activations);
  }();
  GateVerdict verdict{.fault = forward_fault(flow)};
  if (verdict.fault) return verdict;
  verdict.fault = cut_off(patient, examples);
  if (verdict.fault) return verdict;
  Steps steps(patient);
  for (int i = 0; i < 2; ++i) steps.without_dropout(examples, patient.config()[key::learning_rate]);
  Tape tape;
  const Loss loss = quiet_loss(patient.task(), patient.config(), examples);
  const std::vector<Layer> layers =
      layers_of(patient.parameters(), tape.backward(loss.objective, 1 / examples.batch.count));
  if (layers.empty()) return {.said = "no weights are trained", .skipped = true};
  verdict.fault = backward_fault(layers);
  const auto [least, most] = std::ranges::minmax_element(layers, {}, &Layer::gradient);
  verdict.said = fmt::format(
      "outputs up to {:.2g}, {:.0f} % dead units at most, gradients {:.0e} "
      "to {:.0e} of {} arrays of weights",
      flow.largest, 100 * flow.dead, least->gradient, most->gradient, layers.size());
  return verdict;
}

}  // namespace tapestry
