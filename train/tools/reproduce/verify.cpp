#include "train/tools/reproduce/verify.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/run/lines.hpp"
#include "train/task_spec.hpp"
#include "train/tools/reproduce/retraining.hpp"
#include "train/trainer/evaluation.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr std::size_t most_not_computed = 8;  // maximum number of metrics to name

// Returns the last step to compare, from `first` on.
std::int64_t end_of(const Retraining& again, std::int64_t first, const VerifyOptions& options) {
  std::int64_t last = first, evaluated = -1;
  for (RecordedMetrics lines(again.run(), again.config()[key::steps]); lines.front();) {
    const Json line = lines.take();
    last = std::max(last, step_of(line));
    if (evaluated < 0 && is_split(line, "val") && step_of(line) > first) evaluated = step_of(line);
  }
  for (const Checkpoint* kept : {again.best(), again.last()})
    if (kept) last = std::max(last, kept->state.step);
  if (options.all) return last;
  if (options.steps >= 0) return first + std::min(last - first, options.steps);
  return evaluated < 0 ? last : evaluated;
}

std::string with_digits(const Json& value) {
  return printable_beginning(value.is_string() ? value.get<std::string>() : value.dump());
}

// Returns whether a metric measures time, which differs between two trainings.
bool is_of_time(const std::string& name) {
  return name == "elapsed_s" || !unit_of_throughput(name).empty();
}

// Returns whether a number is equal to the recorded one. JSON has null for numbers that are not
// finite.
bool is_same_figure(const Json& recorded, double computed) {
  if (recorded.is_null()) return !std::isfinite(computed);
  return recorded.is_number() && recorded.get<double>() == computed;
}

class Comparison {
 public:
  Comparison(const Retraining& again, Trainer& trainer, const Checkpoint* from,
             VerifyResult& result)
      : again_(again), trainer_(trainer), from_(from), verdict_(result), evaluated_(again.run()) {
    if (from) best_loss_ = from->state.best_loss;
  }

  // Compares the recorded lines of the last step with its `averages`; compares only evaluations if
  // these are null, because the step was not computed here.
  void compare_lines(const std::vector<Json>& lines, const MetricSums* averages) {
    best_loss_before_ = best_loss_;
    for (const Json& line : lines) {
      const bool trained = is_split(line, "train");
      if (trained && !averages) continue;
      const MetricsLine computed =
          trained ? trainer_.training_line(*averages) : trainer_.evaluation_line();
      if (!trained) best_loss_ = std::min(best_loss_, computed.values.at("loss"));
      compare(line, computed);
      if (!trained) compare_tensors(computed.checksums);
      ++(trained ? verdict_.training_lines : verdict_.evaluations);
      if (!trained) evaluated_steps_.insert(step_of(line));
      compared_at_ = trainer_.state().step;
    }
  }

  // Compares the recorded evaluation of the test split with that of the run's best model, or of the
  // last one if there is no best. Changes the task's parameters.
  void compare_test(const Json& line, Task& task) {
    const Checkpoint* ended_with = again_.best() ? again_.best() : again_.last();
    if (!ended_with || !task.test_data()) return;
    restore_parameters(*ended_with, task.model());
    compare(line, {.step = ended_with->state.step,
                   .split = "test",
                   .values = evaluate(task, *task.test_data(), EvaluationOptions(again_.config())),
                   .signatures = task.signatures()});
    ++verdict_.tests;
  }

  // Compares the tensors of the next evaluation after a difference, to name those that differ.
  void compare_evaluated() {
    if (verdict_.is_same() || is_looked_into_) return;
    const Checksums& recorded = recorded_checksums();
    if (recorded.empty()) return;
    is_looked_into_ = true;
    const Checksums computed = trainer_.checksums();
    const auto is_computed = [&](const std::string& tensor, const std::string& checksum) {
      const auto own = computed.find(tensor), of_weights = computed.find("optimizer." + tensor);
      return (own != computed.end() && own->second == checksum) ||
             (of_weights != computed.end() && of_weights->second == checksum);
    };
    DifferingTensors differing{
        .path = again_.run().checksums(), .step = trainer_.state().step, .all = recorded.size()};
    for (const auto& [name, checksum] : recorded)
      if (!is_computed(name, checksum)) differing.names.push_back(name);
    if (!differing.names.empty()) verdict_.tensors_that_differ.push_back(std::move(differing));
  }

  // Compares the tensors and the state of the checkpoints of this step.
  void compare_checkpoints() {
    const std::int64_t step = trainer_.state().step;
    for (const Checkpoint* kept : {again_.best(), again_.last()}) {
      if (!kept || kept == from_ || kept->state.step != step) continue;
      if (verdict_.is_same() || verdict_.differs_at == step) compare_state(*kept);
      is_looked_into_ |= !verdict_.is_same();
      compare_tensors(*kept);
      compared_at_ = step;
    }
  }

  // Counts the step if any record of it was compared.
  void end_step() {
    if (compared_at_ != trainer_.state().step) return;
    ++verdict_.recorded_steps;
    if (verdict_.is_same()) verdict_.last_same = compared_at_;
  }

  // Returns the recorded metrics that are not computed.
  const std::set<std::string>& not_computed() const { return not_computed_; }

  // Returns the number of evaluations without a tensor in checksums.jsonl.
  std::int64_t without_tensors() const { return without_tensors_; }

  // Returns whether a later evaluation or checkpoint can name the tensors that differ.
  bool comes_to_tensors() {
    if (is_looked_into_) return false;
    const RecordedChecksum* evaluated = evaluated_.front();
    if (evaluated && evaluated->step <= verdict_.last_step) return true;
    return std::ranges::any_of(
        std::initializer_list<const Checkpoint*>{again_.best(), again_.last()},
        [&](const Checkpoint* kept) {
          return kept && kept != from_ && kept->state.step > trainer_.state().step &&
                 kept->state.step <= verdict_.last_step;
        });
  }

 private:
  void compare(const Json& recorded, const MetricsLine& computed) {
    std::set<std::string> names = {"step", "split"};
    const std::string of = is_split(recorded, "test") ? "test " : "";
    if (step_of(recorded) != computed.step) differs(of + "step", recorded["step"], computed.step);
    for (const auto& [name, value] : computed.values) {
      names.insert(name);
      if (name == "bad_steps" && !recorded.contains(name) && value == 0) continue;
      const Json found = recorded.value(name, Json("nothing"));
      if (!is_same_figure(found, value)) differs(of + name, found, Json(value));
    }
    for (const auto& [name, signature] : computed.signatures)
      compare_text(recorded, *names.insert(name + "_signature").first, signature);
    for (const auto& [name, tensors] : computed.checksums)
      compare_text(recorded, *names.insert(name + "_xxh3").first, combined(tensors));
    for (const auto& [name, unused] : recorded.items())
      if (!names.contains(name) && !is_of_time(name) && not_computed_.size() <= most_not_computed)
        not_computed_.insert(name);
  }

  // Returns the checksums of the last step in checksums.jsonl.
  const Checksums& recorded_checksums() {
    if (const std::int64_t step = trainer_.state().step; checksums_of_ != step)
      checksums_ = evaluated_.of(checksums_of_ = step);
    return checksums_;
  }

  // Compares the tensors of an evaluation with checksums.jsonl.
  void compare_tensors(const std::map<std::string, Checksums>& computed) {
    const Checksums& recorded = recorded_checksums();
    without_tensors_ += recorded.empty();
    if (recorded.empty()) return;
    Checksums all;
    for (const auto& [kind, tensors] : computed) all.insert(tensors.begin(), tensors.end());
    const std::size_t differing = differing_tensors(recorded, all).size();
    const bool is_cut = recorded.size() + differing == all.size() && evaluated_.front() == nullptr;
    if (differing > 0 && is_cut)  // the process was killed while writing the checksums
      verdict_.not_compared.push_back(
          fmt::format("{} of {} tensors of the evaluation of step {}: {} lacks their checksums",
                      differing, all.size(), trainer_.state().step, again_.run().checksums()));
    else if (differing > 0)
      differs(fmt::format("{} of the {} tensors of {}", differing, all.size(),
                          again_.run().checksums()));
  }

  void compare_text(const Json& recorded, const std::string& name, const std::string& computed) {
    const Json found = recorded.value(name, Json("nothing"));
    if (found != computed) differs(name, found, Json(computed));
  }

  void compare_state(const Checkpoint& kept) {
    const TrainingState &found = kept.state, &own = trainer_.state();
    const auto compare = [&](const char* name, const Json& recorded, const Json& computed) {
      if (recorded != computed)
        differs(fmt::format("{} of {}", name, kept.path), recorded, computed);
    };
    compare("position", found.position, own.position);
    compare("bad_steps", found.skipped.count, own.skipped.count);
    compare("gradient_norms", found.skipped.norms, own.skipped.norms);
    const double best = found.evaluation_due ? best_loss_before_ : best_loss_;
    if (found.best_loss == best) return;
    if (const Checkpoint* of_best = again_.best(); of_best && of_best->state.step <= own.step &&
                                                   !evaluated_steps_.contains(of_best->state.step))
      verdict_.not_compared.push_back(
          fmt::format("best_loss of {}: no evaluation of step {} was recorded", kept.path,
                      of_best->state.step));
    else if (verdict_.evaluations == 0 && !from_)
      verdict_.not_compared.push_back(
          fmt::format("best_loss of {}: no evaluation was recorded", kept.path));
    else
      differs(fmt::format("best_loss of {}", kept.path), Json(fmt::format("{}", found.best_loss)),
              Json(fmt::format("{}", best)));
  }

  void compare_tensors(const Checkpoint& kept) {
    const Checksums computed = trainer_.checksums();
    Checksums written, all = computed;
    for (const SafetensorsEntry& entry : kept.reader->entries())
      written[entry.name] = checksum_of(kept, entry);
    all.insert(written.begin(), written.end());
    DifferingTensors differing{.path = kept.path,
                               .step = kept.state.step,
                               .all = all.size(),
                               .names = differing_tensors(computed, written)};
    verdict_.tensors += std::ssize(computed);
    verdict_.checkpoints.push_back(kept.path);
    if (differing.names.empty()) return;
    if (verdict_.is_same())
      differs(fmt::format("{} of the {} tensors of {}", differing.names.size(), differing.all,
                          kept.path));
    verdict_.tensors_that_differ.push_back(std::move(differing));
  }

  void differs(const std::string& name, const Json& recorded, const Json& computed) {
    differs(fmt::format("{}: recorded {}, computed {}", name, with_digits(recorded),
                        with_digits(computed)));
  }
  void differs(std::string what) {
    verdict_.differs_at = trainer_.state().step;
    verdict_.differences.push_back(std::move(what));
  }

  const Retraining& again_;
  Trainer& trainer_;
  const Checkpoint* from_;
  VerifyResult& verdict_;
  double best_loss_ = std::numeric_limits<double>::infinity();  // lowest validation loss so far
  double best_loss_before_ = best_loss_;                        // without the current step
  std::int64_t compared_at_ = -1;                               // last step that was compared
  std::set<std::int64_t> evaluated_steps_;
  std::set<std::string> not_computed_;
  RecordedChecksums evaluated_;
  Checksums checksums_;             // recorded checksums
  std::int64_t checksums_of_ = -1;  // step of checksums_; -1: none yet
  std::int64_t without_tensors_ = 0;
  bool is_looked_into_ = false;  // whether tensors were compared after a difference
};

// Returns the checkpoint at a path, such as a copy that was made during the training. Throws
// InputError if the path does not exist, is no checkpoint, or was trained with another config.
Checkpoint given_beginning(const Retraining& again, const std::string& path) {
  expect_input(
      is_there(path),
      "--from {}: does not exist; expected start, best, checkpoint, or the path of a checkpoint",
      path);
  Checkpoint given = load_checkpoint_metadata(path);
  again.expect_trained_alike(given);
  return given;
}

// Returns the checkpoint from which to start; null for the first step. Throws InputError if the
// checkpoint does not exist.
const Checkpoint* beginning(const Retraining& again, const std::string& from,
                            std::optional<Checkpoint>& given) {
  if (from == "start") return nullptr;
  if (from != "best" && from != "checkpoint") return &given.emplace(given_beginning(again, from));
  const Checkpoint* kept = from == "best" ? again.best() : again.last();
  expect_input(kept != nullptr, "{}: does not exist; give another --from",
               from == "best" ? again.run().best() : again.run().checkpoint());
  return kept;
}

// Throws InputError if a record exists that is not a file, or if a checkpoint is after the last
// step.
void expect_whole(const Retraining& again, const Checkpoint* from) {
  for (const std::string& path :
       {again.run().metrics(), again.run().sessions(), again.run().checksums()})
    has_file(path);
  const std::int64_t steps = again.config()[key::steps];
  for (const Checkpoint* kept : {again.best(), again.last(), from})
    expect_input(!kept || (kept->state.step >= 0 && kept->state.step <= steps),
                 "{0}: is at step {1}, after the last step, {2} = {3}; set {2} to the number of "
                 "steps of the training",
                 kept ? kept->path : "", kept ? kept->state.step : 0, key::steps.name, steps);
}

// Returns the steps in (first, last] that a session should have recorded, and that `recorded`
// lacks.
std::vector<std::int64_t> missing_steps(const std::set<std::int64_t>& recorded, std::int64_t first,
                                        std::int64_t last, const auto& is_due) {
  std::vector<std::int64_t> missing;
  for (std::int64_t step = first + 1; step <= last; ++step)
    if (is_due(step) && !recorded.contains(step)) missing.push_back(step);
  return missing;
}

// Adds which lines of the steps (first, last] metrics.jsonl lacks. train.log_every is recorded of
// the last session alone; before, it is the greatest common divisor of the recorded steps.
void add_missing_lines(const Retraining& again, std::int64_t first, std::int64_t last,
                       std::vector<std::string>& to) {
  std::set<std::int64_t> trained, evaluated;
  for (RecordedMetrics lines(again.run(), again.config()[key::steps]); lines.front();) {
    const Json line = lines.take();
    (is_split(line, "train") ? trained : evaluated).insert(step_of(line));
  }
  // A process may have been killed in the evaluation of its last step.
  const Checkpoint* kept = again.last();
  const std::int64_t ended = kept ? kept->state.step - kept->state.evaluation_due : 0;
  const std::int64_t begun = std::max(trained.empty() ? 0 : *trained.rbegin() - 1, ended);
  std::vector<std::int64_t> of_training, of_evaluations;
  const auto sessions = again.configs_of_sessions({});
  for (auto session = sessions.rbegin(); session != sessions.rend(); ++session) {
    const auto& [from, config] = *session;
    const std::int64_t begin = std::max(first, from);
    std::int64_t every = session == sessions.rbegin() ? config[key::log_every] : 0;
    if (every == 0)
      for (auto step = trained.upper_bound(begin); step != trained.end() && *step <= last; ++step)
        every = std::gcd(every, *step);
    std::ranges::move(
        missing_steps(trained, begin, last, [&](auto step) { return every && step % every == 0; }),
        std::back_inserter(of_training));
    std::ranges::move(missing_steps(evaluated, begin, std::min(last, begun),
                                    [&](auto step) { return is_evaluated(step, config); }),
                      std::back_inserter(of_evaluations));
    last = std::min(last, from);
  }
  for (auto& [what, steps] :
       {std::pair("training", &of_training), std::pair("evaluation", &of_evaluations)}) {
    if (steps->empty()) continue;
    std::ranges::sort(*steps);
    to.push_back(fmt::format("{}: metrics.jsonl lacks {}, {} step {}", what,
                             counted(std::ssize(*steps), "line"),
                             steps->size() == 1 ? "of" : "first of", steps->front()));
  }
}

// Returns what is recorded for the steps up to `last` and was not compared.
std::vector<std::string> not_compared(RecordedMetrics& recorded, const Comparison& comparison,
                                      const VerifyResult& result, std::int64_t last, bool is_all) {
  std::vector<std::string> all;
  if (result.training_lines + result.evaluations == 0)
    all.push_back("metrics: metrics.jsonl has no line of these steps");
  if (comparison.without_tensors() > 0)
    all.push_back(fmt::format("tensors of {} of {} evaluations: checksums.jsonl has none of them",
                              comparison.without_tensors(), result.evaluations));
  std::vector<std::string> names;
  for (const std::string& name : comparison.not_computed())
    names.push_back(names.size() < most_not_computed ? printable_beginning(name) : "and more");
  if (!names.empty())
    all.push_back(fmt::format("metrics that are not computed: {}", fmt::join(names, ", ")));
  std::int64_t after = 0;
  for (; recorded.front() && step_of(*recorded.front()) <= last; ++after) recorded.take();
  if (after > 0)
    all.push_back(fmt::format("lines of metrics.jsonl after step {}, which differs: {}",
                              result.differs_at, after));
  if (recorded.test() && result.tests == 0)
    all.push_back(
        !is_all ? "test metrics: add --all to compare them"
        : result.is_same()
            ? "test metrics: the checkpoint of the tested model does not exist"
            : fmt::format("test metrics: step {}, before the test, differs", result.differs_at));
  return all;
}

}  // namespace

VerifyResult verify(const Run& run, const VerifyOptions& options) {
  Retraining again(run, options.overrides);
  std::optional<Checkpoint> given;
  const Checkpoint* from = beginning(again, options.from, given);
  expect_whole(again, from);
  const std::int64_t before = from ? from->state.step : 0;
  const std::int64_t steps_of_run = again.config()[key::steps];
  const std::int64_t last = end_of(again, before, options);
  VerifyResult result{.from = from ? from->path : "the start",
                      .first_step = before + 1,
                      .last_step = last,
                      .steps_of_run = steps_of_run};
  Trainer& trainer = again.begin(from);
  Comparison comparison(again, trainer, from, result);
  RecordedMetrics recorded(run, steps_of_run);
  comparison.compare_lines(recorded.of(before), nullptr);
  comparison.compare_evaluated();
  comparison.end_step();
  while (trainer.state().step < last && (result.is_same() || comparison.comes_to_tensors())) {
    const MetricSums averages = again.step();
    const std::int64_t step = trainer.state().step;
    if (options.watch) options.watch(step, last);
    if (result.is_same()) comparison.compare_lines(recorded.of(step), &averages);
    comparison.compare_evaluated();
    comparison.compare_checkpoints();
    comparison.end_step();
  }
  result.last_step = trainer.state().step;
  if (options.all && result.is_same() && !recorded.front() && recorded.test())
    comparison.compare_test(*recorded.test(), again.task());
  const std::int64_t steps = result.last_step - before;
  expect_input(result.training_lines + result.evaluations + result.tensors > 0,
               "{}: nothing was recorded {} step {} to compare with; {}", run.folder(),
               steps == 0 ? "after" : fmt::format("of the {} after", counted(steps, "step")),
               before,
               steps > 0 || options.steps == 0 ? "give more --steps"
               : from ? "use --from start, which begins with the first step"
                      : "verify after the run has written to metrics.jsonl");
  for (std::string& what : not_compared(recorded, comparison, result, last, options.all))
    result.not_compared.push_back(std::move(what));
  add_missing_lines(again, before, result.last_step, result.not_compared);
  result.recorded_by = sessions_within(again.sessions(), result.first_step, result.last_step);
  result.computed_by = this_process();
  result.other_makers = other_makers(again.sessions(), result, again.config());
  return result;
}

}  // namespace tapestry
