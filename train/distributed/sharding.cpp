#include "train/distributed/sharding.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/profile.hpp"

namespace tapestry {
namespace {

std::span<std::byte> bytes_of(const Array& array, std::int64_t begin, std::int64_t end) {
  Array elements = array.part(begin, end);
  return {elements.mutable_raw(), elements.bytes()};
}

}  // namespace

void pass_parameters_on(GradientSum& sum, const std::vector<Parameter*>& parameters) {
  std::vector<Array> values;
  for (const Parameter* parameter : parameters)
    if (parameter->role != Role::fixed) values.push_back(parameter->value());
  sum.exchange(
      [&](const ArrayPart& part) { return bytes_of(values[part.array], part.begin, part.end); },
      GradientSum::To::all, "the parameters");
  profile::mark(profile::Phase::step, "parameters of ranks", nullptr, 0);
}

OptimizerState gather_state(GradientSum& sum, const Optimizer& optimizer, const Ranks& ranks) {
  const std::vector<Optimizer::Slot> slots = optimizer.state();
  const bool is_first = ranks.rank() == 0;
  std::set<std::string> kinds;
  // Per parameter: slots by kind; without values on other ranks than the first.
  std::vector<std::map<std::string, Array>> whole;
  for (const Parameter* parameter : optimizer.parameters()) {
    std::map<std::string, Array>& arrays = whole.emplace_back();
    for (const std::string& kind : optimizer.slot_names(*parameter)) {
      kinds.insert(kind);
      arrays[kind] =
          is_first ? Array::zeros(parameter->tensor.shape(), parameter->tensor.dtype()) : Array();
    }
  }
  for (const std::string& kind : kinds) {
    const auto own = [&](const ArrayPart& part) -> const Optimizer::Slot& {
      return *std::ranges::find_if(slots, [&](const Optimizer::Slot& slot) {
        return slot.kind == kind && slot.part.array == part.array &&
               slot.part.begin <= part.begin && part.end <= slot.part.end;
      });
    };
    for (const ArrayPart& part : sum.own_shard())
      if (is_first && whole[part.array].contains(kind))
        whole[part.array][kind]
            .part(part.begin, part.end)
            .copy_from(own(part).values.reshaped({part.size()}));
    sum.exchange(
        [&](const ArrayPart& part) {
          if (!whole[part.array].contains(kind)) return std::span<std::byte>();
          if (is_first) return bytes_of(whole[part.array][kind], part.begin, part.end);
          const Optimizer::Slot& slot = own(part);
          return bytes_of(slot.values, part.begin - slot.part.begin, part.end - slot.part.begin);
        },
        GradientSum::To::first, "the optimizer's state");
  }
  if (!is_first) return {};
  OptimizerState state;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const Parameter& parameter = *optimizer.parameters()[i];
    for (const std::string& kind : optimizer.slot_names(parameter))
      state.emplace_back(kind + "." + parameter.name, whole[i][kind]);
  }
  for (const auto& number : optimizer.numbers()) state.push_back(number);
  return state;
}

}  // namespace tapestry
