#include <unordered_map>

#include "autograd/check.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

void Parameter::convert(DType dtype) {
  Tape::require_unused("Parameter::convert", {this});
  tensor = leaf(tensor.value().to(dtype), role);
}

void Parameter::fix() {
  Tape::require_unused("Parameter::fix", {this});
  tensor = leaf(tensor.value(), role = Role::fixed);
}

std::vector<Parameter*> distinct_parameters(std::vector<Parameter*> parameters) {
  std::unordered_map<const void*, const Parameter*> owners;  // keyed by memory
  std::erase_if(parameters, [&](const Parameter* parameter) {
    const void* memory = parameter->tensor.value().raw();
    const auto [owner, is_first] = owners.try_emplace(memory ? memory : parameter, parameter);
    const std::uint64_t id = parameter->tensor.id(), first = owner->second->tensor.id();
    require(id == first || id == 0 || first == 0,
            "parameters: {} {} and {} share memory but not a gradient, and would be updated twice; "
            "copy the Parameter to share it, or clone() its array",
            owner->second->name, parameter->tensor.shape(), parameter->name);
    return !is_first;
  });
  return parameters;
}

}  // namespace tapestry
