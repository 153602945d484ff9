#include "optim/optimizer.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/profile.hpp"
#include "optim/parts.hpp"

namespace tapestry {

Optimizer::Optimizer(std::vector<Parameter*> parameters, const WeightDecay& decay)
    : decay_(decay), parameters_(std::move(parameters)) {
  std::erase_if(parameters_, [](const Parameter* p) { return p->role == Role::fixed; });
}

// Late, because slot_names() belongs to the subclass.
void Optimizer::make_slots() const {
  if (!slots_.empty()) return;
  for (const Parameter* parameter : parameters_) {
    std::vector<Array>& slots = slots_.emplace_back();
    for (std::size_t i = 0; i < slot_names().size(); ++i)
      slots.push_back(Array::zeros(parameter->tensor.shape(), parameter->tensor.dtype()));
  }
}

void Optimizer::step(const Gradients& gradients, double learning_rate, double scale) {
  make_slots();
  for (const Parameter* parameter : parameters_)
    require(gradients.find(*parameter) != nullptr, "optimizer: parameter {} {} has no gradient",
            parameter->name, to_string(parameter->tensor.shape()));
  ++steps_;
  std::vector<std::int64_t> sizes;
  sizes.reserve(parameters_.size());
  double bytes = 0;  // a gradient is read; a parameter and its slots are read and written
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    sizes.push_back(parameters_[i]->tensor.size());
    bytes += parameters_[i]->value().bytes() * (3 + 2 * slots_[i].size());
  }
  for_each_part(sizes, [&](auto, auto i, std::int64_t begin, std::int64_t end) {
    const Parameter& parameter = *parameters_[i];
    const bool decays = decay_.all || parameter.role == Role::weight;
    update({.parameter = parameter.value(),
            .gradient = gradients[parameter],
            .slots = slots_[i],
            .begin = begin,
            .end = end,
            .scale = scale,
            .learning_rate = learning_rate,
            .weight_decay = decays ? decay_.rate : 0,
            .step = steps_});
  });
  profile::mark(profile::Phase::step, "optimizer", nullptr, bytes);
}

std::vector<std::pair<std::string, Array>> Optimizer::state() const {
  make_slots();
  std::vector<std::pair<std::string, Array>> state;
  const std::vector<std::string> names = slot_names();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (std::size_t slot = 0; slot < names.size(); ++slot)
      state.emplace_back(names[slot] + "." + parameters_[i]->name, slots_[i][slot]);
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
