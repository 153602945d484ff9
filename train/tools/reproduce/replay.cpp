#include "train/tools/reproduce/replay.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/clock.hpp"
#include "autograd/counted.hpp"
#include "autograd/tape.hpp"
#include "train/config/keys.hpp"
#include "train/run/session.hpp"
#include "train/task_spec.hpp"
#include "train/tools/reproduce/retraining.hpp"
#include "train/trainer/callbacks/callbacks.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/explanation.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_shown_examples = 16, most_shown_numbers = 24;

double norm_of(const Array& array) {
  double squares = 0;
  if (array.dtype() != DType::int32)
    dispatch(array.dtype(), [&]<class T>() {
      for (const T value : array.values<T>()) squares += static_cast<double>(value) * value;
    });
  return std::sqrt(squares);
}

// Collects the entries of a thread's first tape. The time of a forward op ends, and that of a
// pullback begins, when the observer is called.
class TapeEntries {
 public:
  void forward(const ObservedOp& op, const std::vector<Tensor>& inputs, double now) {
    if (op.output == 0 || is_backward_) return;
    ReplayedEntry& entry = entries_.emplace_back(ReplayedEntry{.module = op.scope,
                                                               .op = op.op,
                                                               .shape = op.array.shape(),
                                                               .norm = norm_of(op.array),
                                                               .forward_s = now - last_});
    for (const Tensor& input : inputs)
      if (const auto found = places_.find(input.id()); found != places_.end())
        entry.inputs.push_back(found->second);
    places_.emplace(op.output, entries_.size() - 1);
  }

  void backward(const ObservedOp& op, double now) {
    is_backward_ = true;
    if (open_) open_->backward_s = now - last_;
    const auto found = places_.find(op.output);
    open_ = found == places_.end() ? nullptr : &entries_[found->second];
    if (open_) open_->gradient_norm = norm_of(op.array);
  }

  void restart_clock() { last_ = now_s(); }
  std::vector<ReplayedEntry> take() { return std::move(entries_); }

 private:
  std::vector<ReplayedEntry> entries_;
  std::map<std::uint64_t, std::size_t> places_;  // of outputs
  ReplayedEntry* open_ = nullptr;
  bool is_backward_ = false;
  double last_ = std::numeric_limits<double>::quiet_NaN();  // when an observed call ended
};

class OpTable final : public Observer {
 public:
  void forward(const ObservedOp& op, const std::vector<Tensor>& inputs) override {
    const double now = now_s();
    tape.forward(op, inputs, now);
    ReplayedOp& row = row_of(op);
    ++row.calls;
    row.outputs.add(op.array);
    tape.restart_clock();
  }
  void backward(const ObservedOp& op) override {
    tape.backward(op, now_s());
    row_of(op).gradients.add(op.array);
    tape.restart_clock();
  }

  TapeEntries tape;
  std::vector<ReplayedOp> take() { return std::move(rows_); }

 private:
  ReplayedOp& row_of(const ObservedOp& op) {
    const auto [at, is_new] = places_.try_emplace({op.scope, op.op}, rows_.size());
    if (is_new) rows_.push_back({.module = op.scope, .op = op.op});
    return rows_[at->second];
  }

  std::vector<ReplayedOp> rows_;
  std::map<std::pair<std::string, std::string>, std::size_t> places_;
};

// Returns the shape and the first numbers of an array: "(1, 8) 3 1 2 0 …".
std::string shown(const Array& array) {
  if (array.empty()) return "";
  const std::int64_t count = std::min(array.size(), most_shown_numbers);
  const Array numbers = array.part(0, count);
  std::string text = to_string(array.shape());
  if (array.dtype() == DType::int32)
    text += fmt::format(" {}", fmt::join(numbers.values<std::int32_t>(), " "));
  else
    dispatch(array.dtype(), [&]<class T>() {
      for (const T value : numbers.values<T>()) text += fmt::format(" {:.4g}", value);
    });
  return text + (count < array.size() ? " …" : "");
}

// Returns the first tokens of an example as text; empty if the inputs are not tokens.
std::string text_of(const Array& inputs, const TokenDecoder& decode) {
  if (!decode || inputs.empty() || inputs.dtype() != DType::int32) return "";
  const std::int64_t count = std::min(inputs.size(), most_shown_numbers);
  return decode(inputs.values<std::int32_t>().first(count));
}

std::vector<ReplayedExample> described(const std::vector<std::int64_t>& examples, Task& task,
                                       const Config& config) {
  const Inspector<TokenDecoder>& inspector = spec_of(config).token_decoder;
  const TokenDecoder decode = inspector ? inspector.show(task) : nullptr;
  std::vector<ReplayedExample> all;
  for (const std::int64_t index : examples) {
    all.push_back({.index = index});
    if (std::ssize(all) > most_shown_examples) continue;
    const Array inputs = task.training_data().batch(std::span(&index, 1)).inputs;
    all.back().shown = shown(inputs);
    all.back().text = text_of(inputs, decode);
  }
  return all;
}

std::vector<ReplayedParameter> ranges_of(Module& model, const Gradients& gradients) {
  std::vector<ReplayedParameter> all;
  for (const Parameter* parameter : model.parameters()) {
    ReplayedParameter& row = all.emplace_back(ReplayedParameter{.name = parameter->name});
    row.values.add(parameter->value());
    if (const Array* gradient = gradients.find(*parameter)) row.gradients.add(*gradient);
  }
  return all;
}

// Returns the last checkpoint before the step, or null.
const Checkpoint* beginning_before(const Retraining& again, std::int64_t step) {
  const Checkpoint* latest = nullptr;
  for (const Checkpoint* kept : {again.best(), again.last()})
    if (kept && kept->state.step < step && (!latest || kept->state.step > latest->state.step))
      latest = kept;
  return latest;
}

// Throws InputError if the training failed before it reached the step.
void expect_reached(const Retraining& again, std::int64_t step) {
  const std::vector<Session>& sessions = again.sessions();
  if (sessions.empty() || !sessions.back().end) return;
  const Session::End& end = *sessions.back().end;
  expect_input(!end.how.starts_with("failed") || step <= end.step + 1,
               "--step {}: {} failed after {}; expected a step up to {}", step,
               again.run().folder(), counted(end.step, "step"), end.step + 1);
}

}  // namespace

void ValueRange::add(const Array& array) {
  if (array.dtype() == DType::int32) return;
  dispatch(array.dtype(), [&]<class T>() {
    for (const T value : array.values<T>()) {
      if (std::isnan(value)) {
        ++nans;
        continue;
      }
      low = std::min(low, static_cast<double>(value));
      high = std::max(high, static_cast<double>(value));
      if (std::isinf(value)) {
        ++infinities;
        continue;
      }
      ++finite;
      magnitudes += std::abs(static_cast<double>(value));
    }
  });
}

Replay replay(const Run& run, std::int64_t step, const std::vector<std::string>& overrides) {
  Retraining again(run, overrides);
  const Config& config = again.config();
  expect_input(step >= 1 && step <= config[key::steps],
               "--step {0}: expected 1 to {2}, the steps of {1}", step, run.folder(),
               config[key::steps]);
  expect_reached(again, step);
  const Checkpoint* from = beginning_before(again, step);
  Trainer& trainer = again.begin(from);
  Replay replay{
      .from = from ? from->path : "the start", .from_step = trainer.state().step, .step = step};
  while (trainer.state().step < step - 1) again.step();
  std::optional<ComputedStep> computed;
  {
    OpTable table;
    computed.emplace(again.compute());
    replay.ops = table.take();
    replay.tape = table.tape.take();
  }
  replay.learning_rate = trainer.learning_rate();
  replay.values = values_of(computed->averages);
  computed->inputs.task.add_derived_metrics(replay.values);
  replay.gradient_norm = computed->clip.norm;
  replay.fault = fault_of_step(replay.values.at("loss"), replay.gradient_norm, config,
                               trainer.state().skipped);
  Ranks alone;
  if (!replay.fault.empty()) replay.fault += ": " + explain_step(computed->inputs, alone);
  replay.examples = described(computed->inputs.examples(), computed->inputs.task, config);
  replay.parameters = ranges_of(computed->inputs.task.model(), computed->gradients);
  return replay;
}

}  // namespace tapestry
