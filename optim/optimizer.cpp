#include "optim/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/profile.hpp"
#include "optim/array_part.hpp"

namespace tapestry {

Optimizer::Optimizer(std::vector<Parameter*> parameters, const WeightDecay& decay)
    : decay_(decay), parameters_(distinct_parameters(std::move(parameters))) {
  std::erase_if(parameters_, [](const Parameter* p) { return p->role == Role::fixed; });
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    share_.push_back({i, 0, parameters_[i]->tensor.size()});
  options_.resize(parameters_.size());
}

Optimizer::~Optimizer() = default;

void Optimizer::set_options(const Parameter& parameter, const ParameterOptions& options) {
  const auto found = std::ranges::find(parameters_, &parameter);
  require(found != parameters_.end(),
          "optimizer: set_options() with parameter {}; expected one that is not fixed",
          parameter.name);
  options_[found - parameters_.begin()] = options;
}

void Optimizer::keep_to(std::vector<ArrayPart> share) {
  require(slots_.empty() && steps_ == 0,
          "optimizer: keep_to() was called after step() or state(); call keep_to() first");
  for (const ArrayPart& part : share) {
    require(part.array < parameters_.size() && part.begin >= 0 && part.begin < part.end &&
                part.end <= parameters_[part.array]->tensor.size(),
            "optimizer: keep_to() with [{}, {}) of parameter {}; expected a nonempty range of its "
            "elements",
            part.begin, part.end, part.array);
    const Parameter& parameter = *parameters_[part.array];
    require(part.size() == parameter.tensor.size() || !updates_whole(parameter),
            "optimizer: keep_to() with [{}, {}) of parameter {}; expected all of its elements",
            part.begin, part.end, parameter.name);
  }
  share_ = std::move(share);
}

// Allocates the slots at the first step or call of state(), because slot_names() belongs to the
// subclass.
void Optimizer::make_slots() const {
  if (!slots_.empty()) return;
  for (const ArrayPart& part : share_) {
    const Tensor& parameter = parameters_[part.array]->tensor;
    const bool whole = part.size() == parameter.size();
    std::vector<Array>& slots = slots_.emplace_back();
    for (std::size_t i = 0; i < slot_names(*parameters_[part.array]).size(); ++i)
      slots.push_back(
          Array::zeros(whole ? parameter.shape() : Shape{part.size()}, parameter.dtype()));
  }
}

// Returns the update of all elements of one of the parts in share_.
Optimizer::Update Optimizer::update_of(std::size_t part, const Gradients& gradients,
                                       double learning_rate, double scale) const {
  const ArrayPart& own = share_[part];
  const Parameter& parameter = *parameters_[own.array];
  const ParameterOptions& options = options_[own.array];
  const bool decays = decay_.all || is_weight(parameter.role);
  return {.parameter = parameter.value(),
          .gradient = gradients[parameter],
          .slots = slots_[part],
          .slots_begin = own.begin,
          .begin = own.begin,
          .end = own.end,
          .scale = scale,
          .learning_rate = learning_rate * options.rate_factor,
          .weight_decay = options.weight_decay.value_or(decays ? decay_.rate : 0),
          .step = steps_};
}

void Optimizer::step(const Gradients& gradients, double learning_rate, double scale) {
  require(std::isfinite(learning_rate) && std::isfinite(scale),
          "optimizer: step() with learning rate {} and scale {}; expected finite numbers",
          learning_rate, scale);
  Tape::require_unused("optimizer: step()", parameters_);
  for (const Parameter* parameter : parameters_)
    require(
        !parameter->value().empty(),
        "optimizer: a parameter has no values: its model was moved; make the optimizer after it");
  make_slots();
  for (std::size_t i = 0; i < share_.size(); ++i) {
    const Parameter& parameter = *parameters_[share_[i].array];
    const auto fits = [&](const Array& slot) { return slot.dtype() == parameter.tensor.dtype(); };
    require(share_[i].end <= parameter.tensor.size() && std::ranges::all_of(slots_[i], fits),
            "optimizer: parameter {} {} has another size or dtype than in the first step; expected "
            "the same, or a new optimizer",
            parameter.name, parameter.value());
  }
  for (const Parameter* parameter : parameters_)
    require(gradients.find(*parameter) != nullptr,
            "optimizer: parameter {} {} has no gradient; expected one for each that is not fixed",
            parameter->name, parameter->tensor.shape());
  ++steps_;
  begin_step(learning_rate);
  std::vector<std::int64_t> sizes;  // of the parts that are cut into fragments; 0 for whole ones
  sizes.reserve(share_.size());
  double bytes = 0;  // reads the gradient; reads and writes parameter and slots
  for (std::size_t i = 0; i < share_.size(); ++i) {
    const Parameter& parameter = *parameters_[share_[i].array];
    sizes.push_back(updates_whole(parameter) ? 0 : share_[i].size());
    bytes += static_cast<double>(share_[i].size() * size_of(parameter.tensor.dtype()) *
                                 (3 + 2 * slots_[i].size()));
  }
  for_each_fragment(sizes, [&](const Fragment& fragment) {
    Update part = update_of(fragment.array, gradients, learning_rate, scale);
    part.end = part.begin + fragment.end;
    part.begin += fragment.begin;
    update(part);
  });
  for (std::size_t i = 0; i < share_.size(); ++i)
    if (updates_whole(*parameters_[share_[i].array]))
      update_whole(update_of(i, gradients, learning_rate, scale));
  profile::mark(profile::Phase::step, "optimizer", nullptr, bytes);
}

std::vector<Optimizer::Slot> Optimizer::state() const {
  make_slots();
  std::vector<Slot> state;
  for (std::size_t i = 0; i < share_.size(); ++i) {
    const Parameter& parameter = *parameters_[share_[i].array];
    const std::vector<std::string> names = slot_names(parameter);
    for (std::size_t slot = 0; slot < names.size(); ++slot)
      state.push_back({.name = names[slot] + "." + parameter.name,
                       .kind = names[slot],
                       .parameter = parameter,
                       .part = share_[i],
                       .values = slots_[i][slot]});
  }
  return state;
}

OptimizerState whole_state(const Optimizer& optimizer) {
  OptimizerState state;
  for (const Optimizer::Slot& slot : optimizer.state()) {
    require(slot.part.size() == slot.parameter.tensor.size(),
            "whole_state: {} is only a shard of the state; expected an optimizer without keep_to()",
            slot.name);
    state.emplace_back(slot.name, slot.values);
  }
  for (const auto& number : optimizer.numbers()) state.push_back(number);
  return state;
}

bool OptimizerType::has(const std::string& setting) const {
  return std::ranges::find(settings, setting, &OptimizerSetting::name) != settings.end();
}

std::map<std::string, OptimizerType>& optimizer_registry() {
  static std::map<std::string, OptimizerType> registry;
  return registry;
}

}  // namespace tapestry
