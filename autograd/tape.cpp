#include "autograd/tape.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/profile.hpp"

namespace tapestry {
namespace {

thread_local TapePosition* innermost_position = nullptr;
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

}  // namespace

Tensor Tensor::variable(Array value) {
  Tensor tensor(std::move(value));
  tensor.id_ = next_id();
  return tensor;
}

double Tensor::item() const {
  require(!value_.empty(), "item: an empty Tensor(); expected one element");
  require(size() == 1, "item: shape {}; expected one element", shape());
  return value_.to(DType::float64).values<double>()[0];
}

namespace {

// Returns the gradient of a loss with which backward() starts. Throws std::invalid_argument unless
// the loss has one element.
Array seed_of(const Tensor& loss, double seed) {
  require(!loss.value().empty() && loss.size() == 1,
          "backward: the loss has shape {}{}; expected one element", loss.shape(),
          loss.value().empty() ? " and no memory" : "");
  return Array::full(loss.shape(), seed, loss.dtype());
}

}  // namespace

TapePosition::TapePosition(Tape* tape) : tape_(tape), outer_(innermost_position) {
  innermost_position = this;
}

TapePosition::~TapePosition() {
  TapePosition** at = &innermost_position;
  while (*at && *at != this) at = &(*at)->outer_;
  if (*at) *at = outer_;
}

Tape::Tape() : TapePosition(this), number_(next_id()) {}

Tape::Tape(const InputGradients& into) : Tape() { passes_to_ = &into.tape_; }

Tape* Tape::innermost() { return innermost_position ? innermost_position->tape_ : nullptr; }

void Tape::require_unused(const char* function, const std::vector<Parameter*>& parameters) {
  for (const TapePosition* at = innermost_position; at; at = at->outer_) {
    if (!at->tape_ || at->tape_->entries_.empty()) continue;
    std::unordered_map<std::uint64_t, const Parameter*> changed;
    for (const Parameter* parameter : parameters)
      changed.emplace(parameter->tensor.id(), parameter);
    for (const Entry& entry : at->tape_->entries_) {
      require(!entry.reaches_others,
              "{}: a tape of this thread holds {}, which may read the parameters again; call "
              "backward() before, or end the tape's scope",
              function, entry.op);
      for (const InputRecord& input : entry.inputs)
        if (const auto found = changed.find(input.id); input.id != 0 && found != changed.end())
          throw std::invalid_argument(fmt::format(
              "{}: a tape of this thread holds {} of parameter {} {}, whose gradient needs the "
              "values of the forward pass; call backward() before, or end the tape's scope",
              function, entry.op, found->second->name, input.shape));
    }
  }
}

Tensor Tape::result(Array value) const {
  Tensor tensor = Tensor::variable(std::move(value));
  tensor.tape_ = number_;
  return tensor;
}

// Throws std::invalid_argument for a result whose entry neither this tape has nor one that receives
// its gradients.
void Tape::require_own(const char* function, const Tensor& input) const {
  for (const Tape* tape = this; tape; tape = tape->passes_to_) {
    const bool has_entry =
        input.id_ > tape->consumed_ && (tape == this || input.id_ < tape->walked_);
    if (input.tape_ == 0 || (input.tape_ == tape->number_ && has_entry)) return;
  }
  bool is_of_thread = false;
  for (const TapePosition* at = innermost_position; at; at = at->outer_)
    is_of_thread |= at->tape_ && at->tape_->number_ == input.tape_;
  throw std::invalid_argument(fmt::format(
      "{}: {} is a result {}, so its gradient would end there; compute it again on this tape, or "
      "cut the path with Tensor(x.value()) (truncated backpropagation)",
      function, input.value(),
      input.tape_ == number_ ? "from before an earlier backward() of this tape"
      : is_of_thread         ? "of another tape of this thread"
                             : "of a tape that was destroyed or is of another thread"));
}

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
  require(!gradient.empty(), "backward: an empty Tensor() or gradient; expected an array");
  require_own("backward", output);
  // Consumes the entries, also those that are left after an exception.
  struct Consume {
    Tape& tape;
    ~Consume() {
      tape.entries_.clear();
      tape.consumed_ = next_id();
    }
  } const consume{*this};
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
    walked_ = entry.output;
    const Array kept = check_finite ? received : Array();  // the pullback may overwrite it
    InputGradients into(*this, entry.op, entry.inputs, gradients);
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
  require(static_cast<bool>(pullback), "{}: record() without a pullback; expected a function", op);
  mark_forward(op, value, inputs);
  if (checks_finite()) {
    std::vector<const Array*> values;
    for (const Tensor& input : inputs) values.push_back(&input.value());
    require_finite(op, "the output", current_scope, value, values);
  }
  bool tracked = false;
  for (const Tensor& input : inputs) tracked |= input.id() != 0;
  Tape* const tape = Tape::innermost();
  const bool recorded = tape && tracked;
  if (recorded)
    for (const Tensor& input : inputs) tape->require_own(op, input);
  Tensor output = recorded ? tape->result(std::move(value)) : Tensor(std::move(value));
  if (Observer* observer = Observer::current()) [[unlikely]]
    observer->forward(
        {.op = op, .scope = name_of(current_scope), .output = output.id(), .array = output.value()},
        inputs);
  if (!recorded) return output;
  std::vector<InputRecord> records;
  for (const Tensor& input : inputs) records.push_back({input.id(), input.shape(), input.dtype()});
  tape->entries_.push_back({.op = op,
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

Observer::~Observer() = default;

Observer* Observer::current() { return current_observer; }

}  // namespace tapestry
