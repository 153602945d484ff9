#include "train/trainer/explanation.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/restore.hpp"
#include "autograd/tape.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

constexpr std::size_t most_faulty = 8;  // maximum number of examples that a message names
// Maximum number of shown examples of a micro-batch; `replay` shows all.
constexpr std::size_t most_examples = 2;
constexpr std::size_t most_largest = 2;
constexpr const char* lower_rate = "lower optim.learning_rate, or set optim.clip_norm = 1.0";

bool is_finite(const Array& array) {
  return array.empty() || array.dtype() == DType::int32 || std::isfinite(sum_of_squares(array));
}

std::string list_of(std::span<const std::int64_t> examples, std::size_t most = most_examples) {
  const std::size_t shown = std::min(examples.size(), most);
  return fmt::format("{}{}", fmt::join(examples.first(shown), ", "),
                     shown < examples.size() ? ", …" : "");
}

// Returns "training examples 3, 1, …" of the step, or the call with which a function gave its first
// batch.
std::string examples_of_step(const StepInputs& inputs) {
  return inputs.are_given
             ? fmt::format("batches({})", inputs.step * inputs.config[key::micro_batches])
             : "training examples " + list_of(inputs.examples());
}

std::string parameter_fault(Task& task) {
  for (const Parameter* parameter : task.model().parameters())
    if (!is_finite(parameter->value()))
      return fmt::format(
          "parameter {} is not finite after an earlier step; lower the learning rate",
          parameter->name);
  return "";
}

// Returns text on inputs that are not finite, with the examples if each has a row of its own; "" if
// all inputs are finite.
std::string input_fault(const Batch& batch, std::span<const std::int64_t> examples) {
  if (is_finite(batch.inputs)) return "";
  std::vector<std::int64_t> faulty;
  const std::int64_t rows = batch.inputs.dim(0), width = batch.inputs.size() / rows;
  for (std::int64_t row = 0; row < rows && rows == std::ssize(examples); ++row)
    if (!is_finite(batch.inputs.part(row * width, (row + 1) * width)))
      faulty.push_back(examples[row]);
  return faulty.empty()
             ? "the batch's inputs are not finite"
             : "the data are not finite: training example " + list_of(faulty, most_faulty);
}

// Returns the first op whose output or gradient is not finite; "" if there is none.
std::string op_fault(const StepInputs& inputs, std::size_t i) try {
  const RestoreSetting<bool> checked(set_check_finite, true, inputs.config[key::check_finite]);
  Tape tape;
  const Loss loss = inputs.loss(i);
  tape.backward(loss.objective, 1 / inputs.count);
  return "";
} catch (const NonFiniteError& error) {
  return error.what();
}

// Returns what is not finite in the first such micro-batch of this rank; empty if there is none.
std::string micro_batch_fault(const StepInputs& inputs) {
  for (std::size_t i = 0; i < inputs.batches.size(); ++i) {
    const std::vector<std::int64_t> examples =
        inputs.are_given ? std::vector<std::int64_t>() : inputs.examples(i);
    const std::string data = input_fault(inputs.batches[i], examples);
    const std::string fault = data.empty() ? op_fault(inputs, i) : data;
    if (fault.empty()) continue;
    return fmt::format("{}; {}; {}", fault, examples_of_micro_batch(inputs, i),
                       data.empty() ? lower_rate : "correct the data, or leave them out");
  }
  return "";
}

double largest_of(const Array& array) {
  double largest = 0;
  dispatch(array.dtype(), [&]<class T>() {
    for (const T value : array.values<T>())
      largest = std::max(largest, std::abs(static_cast<double>(value)));
  });
  return largest;
}

// Returns the largest gradient of each parameter in this rank's micro-batches.
std::vector<double> largest_gradients(const StepInputs& inputs) {
  const std::vector<Parameter*> parameters = inputs.task.model().parameters();
  std::vector<double> largest(parameters.size(), 0);
  for (std::size_t i = 0; i < inputs.batches.size(); ++i) {
    Tape tape;
    const Loss loss = inputs.loss(i);
    const Gradients gradients = tape.backward(loss.objective, 1 / inputs.count);
    for (std::size_t p = 0; p < parameters.size(); ++p)
      if (const Array* gradient = gradients.find(*parameters[p]))
        largest[p] = std::max(largest[p], largest_of(*gradient));
  }
  return largest;
}

// Returns the largest gradients of all ranks: "12 of encoder.weight, ...".
std::string name_largest(const StepInputs& inputs, Ranks& ranks) {
  std::vector<std::pair<double, std::string>> all;
  for (const Parameter* parameter : inputs.task.model().parameters())
    all.emplace_back(0, parameter->name);
  for (const std::vector<double>& of_rank :
       ranks.gather(largest_gradients(inputs), "the largest gradients", Ranks::Late::fine))
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].first = std::max(all[i].first, of_rank.at(i));
  std::ranges::stable_sort(all, std::greater(), &std::pair<double, std::string>::first);
  all.resize(std::min(all.size(), most_largest));
  std::string text;
  for (const auto& [largest, name] : all)
    text += fmt::format("{}{:.4g} of {}", text.empty() ? "" : ", ", largest, name);
  return text;
}

// Returns a line on the first op that is not finite in an evaluation; "" if all ops are finite.
std::string explain_evaluation(Task& task, const Dataset& data,
                               const EvaluationOptions& options) try {
  const RestoreSetting<bool> checked(set_check_finite, true, options.check_finite);
  evaluate(task, data, options);
  return "";
} catch (const NonFiniteError& error) {
  return error.what();
}

}  // namespace

std::string examples_of_micro_batch(const StepInputs& inputs, std::size_t i) {
  const std::int64_t all = inputs.config[key::micro_batches],
                     number = inputs.first_micro_batch + static_cast<std::int64_t>(i) + 1;
  if (inputs.are_given) return fmt::format("batches({})", inputs.step * all + number - 1);
  return fmt::format("{}training examples {}",
                     all == 1 ? "" : fmt::format("micro-batch {} of {}: ", number, all),
                     list_of(inputs.examples(i)));
}

std::string explain_step(const StepInputs& inputs, Ranks& ranks) {
  const std::string moved = parameter_fault(inputs.task);
  if (!moved.empty()) return moved;  // the same on all ranks, which have the same parameters
  if (inputs.count == 0)             // as well
    return fmt::format(
        "no target of {} has a loss (Batch::count is 0); correct the data, or leave them out",
        examples_of_step(inputs));
  const std::vector<std::string> found =
      ranks.gather(micro_batch_fault(inputs), "the explanation", Ranks::Late::fine);
  for (int rank = 0; rank < ranks.size(); ++rank)
    if (!found[rank].empty()) return (rank == 0 ? "" : ranks.name(rank) + ": ") + found[rank];
  return fmt::format("every op of each micro-batch is finite; the largest gradients are {}; {}; {}",
                     name_largest(inputs, ranks), examples_of_step(inputs), lower_rate);
}

void expect_finite(const Metrics& values, const std::string& split, const Dataset& data, Task& task,
                   const EvaluationOptions& options, Ranks& ranks) {
  const auto found =
      std::ranges::find_if(values, [](const auto& one) { return !std::isfinite(one.second); });
  if (found == values.end()) return;
  std::string op;
  ranks.agree("the explanation", [&] {
    if (ranks.rank() == 0) op = explain_evaluation(task, data, options);
  });
  ranks.found_by_all();
  throw Diverged(fmt::format("the {} {} is {}{}{}; expected a finite number", split, found->first,
                             found->second, op.empty() ? "" : ": ", op));
}

}  // namespace tapestry
