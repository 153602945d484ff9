#include "train/tools/reproduce/replay.hpp"

#include <fmt/ranges.h>

#include <cmath>

#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/config/keys.hpp"
#include "train/run/terminal.hpp"
#include "train/trainer/evaluation.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

Json to_json(const ValueRange& range) {
  if (range.count() == 0) return nullptr;
  const bool has_magnitude = range.finite > 0;
  return {{"min", range.low},  // null if all are NaN
          {"max", range.high},
          {"mean_magnitude", has_magnitude ? Json(range.mean_magnitude()) : Json()},
          {"nan", range.nans},
          {"infinite", range.infinities}};
}

Json to_json(const ReplayedEntry& entry) {
  return {{"module", entry.module},
          {"op", entry.op},
          {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())},
          {"inputs", entry.inputs},
          {"norm", entry.norm},
          {"gradient_norm", entry.gradient_norm},
          {"forward_s", entry.forward_s},  // null if it was not measured
          {"backward_s", entry.backward_s}};
}

Json json_of(const std::string& run, const Replay& replay) {
  Json examples = Json::array(), ops = Json::array(), parameters = Json::array();
  Json tape = Json::array();
  for (const ReplayedExample& example : replay.examples) {
    examples.push_back({{"index", example.index}});
    if (!example.shown.empty()) examples.back()["inputs"] = example.shown;
    if (!example.text.empty()) examples.back()["text"] = example.text;
  }
  for (const ReplayedOp& op : replay.ops)
    ops.push_back({{"module", op.module},
                   {"op", op.op},
                   {"calls", op.calls},
                   {"outputs", to_json(op.outputs)},
                   {"gradients", to_json(op.gradients)}});
  for (const ReplayedEntry& entry : replay.tape) tape.push_back(to_json(entry));
  for (const ReplayedParameter& parameter : replay.parameters)
    parameters.push_back({{"parameter", parameter.name},
                          {"values", to_json(parameter.values)},
                          {"gradients", to_json(parameter.gradients)}});
  Json object{
      {"run", run}, {"step", replay.step}, {"from", replay.from}, {"from_step", replay.from_step}};
  for (const auto& [name, value] : replay.values) object[name] = value;
  object["grad_norm"] = replay.gradient_norm;
  object["lr"] = replay.learning_rate;
  object["fault"] = replay.fault.empty() ? Json() : Json(replay.fault);
  object["examples"] = examples;
  object["ops"] = ops;
  object["tape"] = tape;
  object["parameters"] = parameters;
  return object;
}

// Returns the minimum and maximum, the mean magnitude of the finite values, and the numbers of NaN
// and infinite ones; "-" if there are no values.
std::string columns_of(const ValueRange& range) {
  if (range.count() == 0) return fmt::format("{:>32}", "-");
  std::string text = fmt::format("{:>10} {:>10} {:>10}", "-", "-", "-");
  if (range.low <= range.high)
    text =
        fmt::format("{:>10.3g} {:>10.3g} {:>10.3g}", range.low, range.high, range.mean_magnitude());
  if (range.nans > 0) text += fmt::format("  {} NaN", range.nans);
  if (range.infinities > 0) text += fmt::format("  {} infinite", range.infinities);
  return text;
}

void print_row(const std::string& name, std::size_t width, const ValueRange& left,
               const ValueRange& right) {
  say("{:<{}} {}  |{}\n", name, width, columns_of(left), columns_of(right));
}

void print_head(const std::string& name, std::size_t width) {
  say("\n{:<{}} {:>10} {:>10} {:>10}  |{:>10} {:>10} {:>10}\n", name, width, "min", "max",
      "mean |x|", "grad min", "max", "mean |x|");
}

void print_ops(const std::vector<ReplayedOp>& ops) {
  say("\nThe ops below compute the sum of the loss over the targets; the loss above is the "
      "mean.\n");
  std::vector<std::string> names;
  std::size_t width = 0;
  for (const ReplayedOp& op : ops) {
    names.push_back(fmt::format("{} {}{}", op.module.empty() ? "loss:" : op.module + ":", op.op,
                                op.calls == 1 ? "" : fmt::format(" ×{}", op.calls)));
    width = std::max(width, names.back().size());
  }
  print_head("outputs in the order of computation", width);
  for (std::size_t i = 0; i < ops.size(); ++i)
    print_row(names[i], width, ops[i].outputs, ops[i].gradients);
}

void print_parameters(const std::vector<ReplayedParameter>& parameters) {
  std::size_t width = 0;
  for (const ReplayedParameter& parameter : parameters)
    width = std::max(width, parameter.name.size());
  print_head("parameters before the update", width);
  for (const ReplayedParameter& parameter : parameters)
    print_row(parameter.name, width, parameter.values, parameter.gradients);
}

void print(const std::string& run, const Replay& replay) {
  say("{}: step {}, trained again from step {} ({})\n", run, replay.step, replay.from_step,
      printable(replay.from));
  say("{}  grad_norm {:.6g}  lr {:.4g}\n", show(replay.values), replay.gradient_norm,
      replay.learning_rate);
  say("{}\n", replay.fault.empty() ? "loss and gradient are finite" : replay.fault);
  say("\ntraining examples\n");
  std::vector<std::int64_t> others;
  for (const ReplayedExample& example : replay.examples)
    if (example.shown.empty())
      others.push_back(example.index);
    else
      say("{:>8}: {}{}\n", example.index, example.shown,
          example.text.empty() ? "" : fmt::format("  {:?}", example.text));
  if (!others.empty()) say("    more: {}\n", fmt::join(others, " "));
  print_ops(replay.ops);
  print_parameters(replay.parameters);
}

std::string milliseconds(double seconds) {
  return std::isnan(seconds) ? "-" : fmt::format("{:.3f}", 1e3 * seconds);
}

// Returns the tape as a figure: a row for each op, in the order in which it was recorded, and an
// arc for each output that a later op reads.
ArcTable figure_of(const std::string& run, const Replay& replay) {
  ArcTable table{
      .title = fmt::format("The tape of step {} of {}, first micro-batch: forward from top to "
                           "bottom, gradients from bottom to top",
                           replay.step, run),
      .columns = {"op", "output", "norm", "gradient norm", "ms", "pullback ms"}};
  for (const ReplayedEntry& entry : replay.tape) {
    for (const std::size_t input : entry.inputs)
      table.arcs.push_back({.from = input, .to = table.rows.size()});
    table.rows.push_back(
        {fmt::format("{}: {}", entry.module.empty() ? "loss" : entry.module, entry.op),
         to_string(entry.shape), fmt::format("{:.4g}", entry.norm),
         fmt::format("{:.4g}", entry.gradient_norm), milliseconds(entry.forward_s),
         milliseconds(entry.backward_s)});
  }
  return table;
}

class ReplayStep final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("RUN", run_, "the folder of a run");
    arguments.option("--step", step_, "number of the step to print, from 1 (required)", {.low = 1});
    arguments.overrides(overrides_);
    arguments.threads(threads_);
    arguments.flag("--json", json_, "print one JSON object");
    arguments.option("--graph", graph_,
                     "draw the ops of the step, with shapes, norms and times, and what each reads: "
                     "NAME.svg, NAME.png, or NAME for both (default: none)");
  }

  int run() override {
    expect_input(step_ > 0, "--step is required; expected the number of a step, from 1");
    expect_input(!json_ || graph_.empty(),
                 "--graph: is not used with --json; leave out one of them");
    if (threads_ > 0) overrides_.push_back(fmt::format("{}={}", key::threads.name, threads_));
    const Replay replayed = replay(Run(run_), step_, overrides_);
    if (json_)
      print_json(json_of(run_, replayed));
    else
      print(printable(run_), replayed);
    if (!graph_.empty()) write_figure(graph_, figure_of(printable(run_), replayed));
    return 0;
  }

 private:
  std::string run_, graph_;
  std::vector<std::string> overrides_;
  std::int64_t step_ = 0, threads_ = 0;
  bool json_ = false;
};

const RegisterCommand<ReplayStep> replay_command(
    "replay",
    "train a run again up to a step, and print the step's examples, outputs and gradients");

}  // namespace
}  // namespace tapestry
