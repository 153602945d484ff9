#include "autograd/tape.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

thread_local Tape* current_tape = nullptr;
thread_local const std::string* current_scope = nullptr;
std::atomic<bool> check_finite = false;

bool checks_finite() { return check_finite && !is_dry_run(); }

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

struct EntryRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool nan = false;

  explicit EntryRange(const Array& array) {
    if (array.dtype() == DType::int32 || array.dtype() == DType::q8_0) return;
    dispatch(array.dtype(), [&]<class T>() {
      for (const double value : array.values<T>()) {
        nan |= std::isnan(value);
        low = std::min(low, value);
        high = std::max(high, value);
      }
    });
  }
  double magnitude() const { return low > high ? 0 : std::max(-low, high); }
  bool has_minus_infinity() const { return low == -std::numeric_limits<double>::infinity(); }
  bool has_plus_infinity() const { return high == std::numeric_limits<double>::infinity(); }
};

std::string describe(const Array& array) {
  if (array.dtype() == DType::int32) return fmt::format("{} int32", to_string(array.shape()));
  if (array.size() == 0) return fmt::format("{} without elements", to_string(array.shape()));
  const EntryRange range(array);
  if (range.low > range.high) return fmt::format("{} of NaN alone", to_string(array.shape()));
  return fmt::format("{} in [{:.4g}, {:.4g}]{}", to_string(array.shape()), range.low, range.high,
                     range.nan ? " with NaN" : "");
}

void require_finite(const char* op, const char* what, const std::string* scope, const Array& output,
                    const std::vector<const Array*>& inputs) {
  const EntryRange range(output);
  bool minus_infinity_given = false;
  for (const Array* input : inputs) minus_infinity_given |= EntryRange(*input).has_minus_infinity();
  if (!range.nan && !range.has_plus_infinity() &&
      (!range.has_minus_infinity() || minus_infinity_given))
    return;
  std::string message = fmt::format("{} of {} in {} is not finite: {}", what, op,
                                    scope ? *scope : "the loss", describe(output));
  const auto widest = std::ranges::max_element(
      inputs, {}, [](const Array* input) { return EntryRange(*input).magnitude(); });
  if (widest != inputs.end()) message += "; from " + describe(**widest);
  throw NonFiniteError(message);
}

double bytes_of(const InputRecord& input) { return bytes_of(input.dtype, input.shape.elements()); }

void mark_forward(const char* op, const Array& output, const std::vector<Tensor>& inputs) {
  if (!profile::is_on()) return;
  double bytes = output.bytes();
  for (const Tensor& input : inputs) bytes += input.value().bytes();
  profile::mark(profile::Phase::forward, op, current_scope, bytes);
}

// Counts the bytes of the received gradient, of the inputs, and of the gradients of variables.
void mark_backward(const char* op, const std::string* scope, const Array& received,
                   const std::vector<InputRecord>& inputs) {
  if (!profile::is_on()) return;
  double bytes = received.bytes();
  for (const InputRecord& input : inputs) bytes += bytes_of(input) * (input.id != 0 ? 2 : 1);
  profile::mark(profile::Phase::backward, op, scope, bytes);
}

const std::string& name_of(const std::string* scope) {
  static const std::string of_loss;
  return scope ? *scope : of_loss;
}

// Copies a gradient that other handles share, because they must not see it change: `add` passes one
// array to two inputs.
void make_unique(Array& array) {
  if (!array.unique()) array = array.clone();
}

}  // namespace

Tensor Tensor::variable(Array value) {
  Tensor tensor(std::move(value));
  tensor.id_ = next_id();
  return tensor;
}

double Tensor::item() const {
  require(size() == 1, "item: shape {}; expected one element", shape());
  return value_.to(DType::float64).values<double>()[0];
}

const Array* Gradients::find(const Tensor& variable) const {
  const auto entry = by_id_.find(variable.id());
  return entry == by_id_.end() ? nullptr : &entry->second;
}

const Array& Gradients::operator[](const Tensor& variable) const {
  return by_id_.at(variable.id());
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
  by_id_.insert_or_assign(variable.id(), std::move(gradient));
}

Array Gradients::take(std::uint64_t id) {
  auto entry = by_id_.extract(id);
  return entry ? std::move(entry.mapped()) : Array();
}

void InputGradients::add(std::size_t input, const Array& gradient) {
  if (!wanted(input)) return;
  const InputRecord& to = inputs_[input];
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
}

namespace {

// Returns the gradient of a loss with which backward() starts. Throws std::invalid_argument unless
// the loss has one element.
Array seed_of(const Tensor& loss, double seed) {
  require(loss.size() == 1, "backward: the loss has shape {}; expected one element", loss.shape());
  return Array::full(loss.shape(), seed, loss.dtype());
}

}  // namespace

Tape::Tape() : current_(current_tape, this) {}

NoTape::NoTape() : Restore(current_tape, nullptr) {}

Gradients Tape::backward(const Tensor& loss, double seed) {
  return walk(loss, seed_of(loss, seed), nullptr);
}

Gradients Tape::backward(const Tensor& output, const Array& gradient) {
  return walk(output, gradient, nullptr);
}

void Tape::backward(const Tensor& loss, double seed, const TakeGradient& take) {
  Gradients rest = walk(loss, seed_of(loss, seed), &take);
  while (!rest.by_id_.empty()) {
    auto entry = rest.by_id_.extract(rest.by_id_.begin());
    take(entry.key(), std::move(entry.mapped()));
  }
}

namespace {

// The remaining uses of variables, which tell when the gradient of a variable is complete.
class Uses {
 public:
  void count(const std::vector<InputRecord>& inputs, bool reaches_others) {
    for (const InputRecord& input : inputs)
      if (input.id != 0) ++left_[input.id];
    reaching_ += reaches_others;
  }
  void is_computed(std::uint64_t value) { left_.erase(value); }

  // Removes an entry, and calls fn(variable) for variables that it completes.
  template <class Fn>
  void walked(const std::vector<InputRecord>& inputs, bool reaches_others, Fn fn) {
    for (const InputRecord& input : inputs)
      if (const auto found = left_.find(input.id); found != left_.end() && --found->second == 0) {
        left_.erase(found);
        final_.push_back(input.id);
      }
    reaching_ -= reaches_others;
    if (reaching_ > 0) return;
    for (const std::uint64_t variable : final_) fn(variable);
    final_.clear();
  }

 private:
  std::unordered_map<std::uint64_t, int> left_;  // number of remaining entries with this input
  std::int64_t reaching_ = 0;                    // number of entries that may add to any variable
  std::vector<std::uint64_t> final_;
};

}  // namespace

Gradients Tape::walk(const Tensor& output, const Array& gradient, const TakeGradient* take) {
  require(gradient.shape() == output.shape() && gradient.dtype() == output.dtype(),
          "backward: gradient {} for output {}: dtype or shape differ; expected equal ones",
          gradient, output.value());
  Gradients gradients;
  if (output.id() != 0) gradients.by_id_.emplace(output.id(), gradient);
  Uses uses;
  if (take) {
    for (const Entry& entry : entries_) uses.count(entry.inputs, entry.reaches_others);
    for (const Entry& entry : entries_) uses.is_computed(entry.output);
  }
  const auto hand_out = [&](const Entry& entry) {
    if (take)
      uses.walked(entry.inputs, entry.reaches_others, [&](std::uint64_t variable) {
        Array done = gradients.take(variable);
        if (!done.empty()) (*take)(variable, std::move(done));
      });
  };
  while (!entries_.empty()) {
    const Entry entry = std::move(entries_.back());
    entries_.pop_back();
    const Array received = gradients.take(entry.output);
    if (received.empty()) {
      hand_out(entry);
      continue;
    }
    const Array kept = check_finite ? received : Array();  // the pullback may overwrite it
    InputGradients into(entry.inputs, gradients);
    if (Observer* observer = Observer::current()) [[unlikely]]
      observer->backward({.op = entry.op,
                          .scope = name_of(entry.scope),
                          .output = entry.output,
                          .array = received});
    entry.pullback(received, into);
    mark_backward(entry.op, entry.scope, received, entry.inputs);
    if (checks_finite())
      for (const InputRecord& input : entry.inputs)
        if (const auto sent = gradients.by_id_.find(input.id); sent != gradients.by_id_.end())
          require_finite(entry.op, "the gradient", entry.scope, sent->second, {&received});
    hand_out(entry);
  }
  return gradients;
}

Tensor record(const char* op, Array value, const std::vector<Tensor>& inputs, Pullback pullback,
              bool reaches_others) {
  mark_forward(op, value, inputs);
  if (checks_finite()) {
    std::vector<const Array*> values;
    for (const Tensor& input : inputs) values.push_back(&input.value());
    require_finite(op, "the output", current_scope, value, values);
  }
  bool tracked = false;
  for (const Tensor& input : inputs) tracked |= input.id() != 0;
  const bool recorded = current_tape && tracked;
  Tensor output = recorded ? Tensor::variable(std::move(value)) : Tensor(std::move(value));
  if (Observer* observer = Observer::current()) [[unlikely]]
    observer->forward(
        {.op = op, .scope = name_of(current_scope), .output = output.id(), .array = output.value()},
        inputs);
  if (!recorded) return output;
  std::vector<InputRecord> records;
  for (const Tensor& input : inputs) records.push_back({input.id(), input.shape(), input.dtype()});
  current_tape->entries_.push_back({.op = op,
                                    .scope = current_scope,
                                    .output = output.id(),
                                    .inputs = std::move(records),
                                    .pullback = std::move(pullback),
                                    .reaches_others = reaches_others});
  return output;
}

Scope::Scope(const std::string& path) : Restore(current_scope, &path) {}

void set_check_finite(bool on) { check_finite = on; }

namespace {

thread_local Observer* current_observer = nullptr;

}  // namespace

Observer::Observer() : current_(current_observer, this) {}

Observer* Observer::current() { return current_observer; }

}  // namespace tapestry
