#include "autograd/gradients.hpp"

#include <stdexcept>

#include "autograd/check.hpp"
#include "autograd/kernels/broadcast.hpp"

namespace tapestry {
namespace {

// Copies a gradient that other handles share, because they must not see it change: `add` passes one
// array to two inputs.
void make_unique(Array& array) {
  if (!array.unique()) array = array.clone();
}

}  // namespace

const Array* Gradients::find(const Tensor& variable) const {
  const auto entry = by_id_.find(variable.id());
  return entry == by_id_.end() ? nullptr : &entry->second;
}

const Array& Gradients::operator[](const Tensor& variable) const {
  if (const Array* gradient = find(variable)) return *gradient;
  throw std::out_of_range(
      fmt::format("gradients: none for {} {}; expected a variable that the loss depends on",
                  variable.id() != 0 ? "variable" : "constant", variable.value()));
}

Gradients& Gradients::operator+=(const Gradients& other) {
  for (const auto& [id, gradient] : other.by_id_) {
    auto [mine, added] = by_id_.try_emplace(id, gradient);
    if (added) continue;
    make_unique(mine->second);
    add_in_place(mine->second, gradient);
  }
  return *this;
}

Array Gradients::take(const Tensor& variable) { return take(variable.id()); }

void Gradients::set(const Tensor& variable, Array gradient) {
  require(variable.id() != 0 && !gradient.empty() && gradient.shape() == variable.shape() &&
              gradient.dtype() == variable.dtype(),
          "Gradients::set: gradient {} for {} {}; expected a variable, and its dtype and shape",
          gradient, variable.id() != 0 ? "variable" : "constant", variable.value());
  by_id_.insert_or_assign(variable.id(), std::move(gradient));
}

Array Gradients::take(std::uint64_t id) {
  auto entry = by_id_.extract(id);
  return entry ? std::move(entry.mapped()) : Array();
}

bool InputGradients::wanted(std::size_t input) const {
  if (input < inputs_.size()) return inputs_[input].id != 0;
  throw std::out_of_range(fmt::format("{}: the pullback names input {} of {}; they count from 0",
                                      op_, input, inputs_.size()));
}

void InputGradients::require_fitting(bool fits, std::size_t input, const Array& gradient) const {
  const InputRecord& to = inputs_[input];
  require(fits && !gradient.empty() && gradient.dtype() == to.dtype,
          "{}: the pullback returns a gradient {} for input {}, which is {} {}; expected its dtype "
          "and shape",
          op_, gradient, input, to.dtype, to.shape);
}

void InputGradients::add(std::size_t input, const Array& gradient) {
  if (!wanted(input)) return;
  const InputRecord& to = inputs_[input];
  const Shape& given = gradient.shape();
  require_fitting(given == to.shape ||
                      (broadcasts(given, to.shape) && broadcast(op_, given, to.shape) == given),
                  input, gradient);
  const Array own = sum_to(gradient, to.shape);
  auto [sum, added] = gradients_.by_id_.try_emplace(to.id, own);
  if (added) return;
  make_unique(sum->second);
  add_in_place(sum->second, own);
}

void InputGradients::accumulate(std::size_t input,
                                const std::function<void(Array& into, bool accumulate)>& kernel) {
  if (!wanted(input)) return;
  const InputRecord& to = inputs_[input];
  Array& into = gradients_.by_id_[to.id];
  const bool first = into.empty();
  if (first)
    into = Array(to.shape, to.dtype);
  else
    make_unique(into);
  kernel(into, !first);
  require_fitting(into.shape() == to.shape, input, into);
}

}  // namespace tapestry
