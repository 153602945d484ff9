#include "train/proof/verify.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/checksum.hpp"
#include "autograd/parallel.hpp"
#include "train/proof/retraining.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/metrics_line.hpp"
#include "train/run/version.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

bool is_split(const Json& line, const char* split) { return line["split"] == split; }
std::int64_t step_of(const Json& line) { return line["step"].get<std::int64_t>(); }

// The lines of metrics.jsonl, whose steps only rise but for a test's, which is passed over.
class RecordedLines {
 public:
  explicit RecordedLines(const Run& run) : reader_(run.metrics()) {}

  // Those of this step. The next call is of a later one.
  std::vector<Json> of(std::int64_t step) {
    std::vector<Json> lines;
    for (; next_ || read(); next_.reset()) {
      if (step_of(*next_) > step) break;
      if (step_of(*next_) == step) lines.push_back(std::move(*next_));
    }
    return lines;
  }

  std::int64_t damaged() const { return damaged_; }

 private:
  bool read() {
    while (reader_.next()) {
      next_ = parse_metrics_line(reader_.text());
      if (!next_)
        ++damaged_;
      else if (is_split(*next_, "train") || is_split(*next_, "val"))
        return true;
    }
    next_.reset();
    return false;
  }

  LineReader reader_;
  std::optional<Json> next_;
  std::int64_t damaged_ = 0;
};

// The last step to compare, after `first`.
std::int64_t end_of(const Run& run, std::int64_t first, const VerifyOptions& options) {
  std::int64_t last = first, evaluated = -1;
  for (LineReader line(run.metrics()); line.next();)
    if (const auto entry = parse_metrics_line(line.text()); entry && !is_split(*entry, "test")) {
      last = std::max(last, step_of(*entry));
      if (evaluated < 0 && is_split(*entry, "val") && step_of(*entry) > first)
        evaluated = step_of(*entry);
    }
  if (options.all) return last;
  if (options.steps >= 0) return first + std::min(last - first, options.steps);
  return evaluated < 0 ? last : evaluated;
}

std::string with_digits(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// JSON has no numbers that are not finite: null stands for them.
bool is_same_figure(const Json& recorded, double computed) {
  if (recorded.is_null()) return !std::isfinite(computed);
  return recorded.is_number() && recorded.get<double>() == computed;
}

class Comparison {
 public:
  Comparison(const Retraining& again, Trainer& trainer, const Checkpoint* from, Verdict& verdict)
      : again_(again), trainer_(trainer), from_(from), verdict_(verdict) {}

  // What was recorded of the step that was done last, which was measured as `averages`; null: it
  // was not done here.
  void compare_lines(const std::vector<Json>& lines, const Averages* averages) {
    for (const Json& line : lines) {
      const bool trained = is_split(line, "train");
      if (trained && !averages) continue;
      compare(line, trained ? trainer_.training_line(*averages) : trainer_.evaluation_line());
      ++(trained ? verdict_.training_lines : verdict_.evaluations);
    }
  }

  // Those of the checkpoints of this step.
  void compare_tensors() {
    const std::int64_t step = trainer_.state().step;
    for (const Checkpoint* kept : {again_.best(), again_.last()})
      if (kept && kept != from_ && kept->state.step == step) compare_tensors(*kept);
  }

  // Whether a checkpoint that is still to come can name what differs.
  bool comes_to_tensors() const {
    return std::ranges::any_of(
        std::initializer_list<const Checkpoint*>{again_.best(), again_.last()},
        [&](const Checkpoint* kept) {
          return kept && kept != from_ && kept->state.step > trainer_.state().step &&
                 kept->state.step <= verdict_.last_step;
        });
  }

 private:
  void compare(const Json& recorded, const MetricsLine& computed) {
    for (const auto& [name, value] : computed.values)
      if (recorded.contains(name) && !is_same_figure(recorded[name], value))
        differs(fmt::format("{} {} was recorded, {} is computed", name, with_digits(recorded[name]),
                            Json(value).dump()));
    bool has_checksum = false;
    for (const auto& [name, checksum] : computed.checksums) {
      const Json found = recorded.value(name + "_xxh3", Json());
      if (found.is_null()) continue;
      has_checksum = true;
      if (found != checksum)
        differs(fmt::format("{}_xxh3 {} was recorded, {} is computed", name, with_digits(found),
                            checksum));
    }
    verdict_.checksums += has_checksum;
  }

  void compare_tensors(const Checkpoint& kept) {
    const Checksums computed = trainer_.checksums();
    DifferingTensors differing{.path = kept.path, .step = kept.state.step, .all = computed.size()};
    for (const auto& [name, own] : computed) {
      const auto& entries = kept.reader->entries();
      const auto entry = std::ranges::find(entries, name, &SafetensorsEntry::name);
      if (entry == entries.end() || checksum(kept.reader->read(*entry)) != own)
        differing.names.push_back(name);
    }
    verdict_.tensors += std::ssize(computed);
    verdict_.checkpoints.push_back(kept.path);
    if (differing.names.empty()) return;
    if (verdict_.is_same())
      differs(fmt::format("{} of the {} tensors of {}", differing.names.size(), differing.all,
                          kept.path));
    verdict_.tensors_that_differ.push_back(std::move(differing));
  }

  void differs(std::string what) {
    verdict_.differs_at = trainer_.state().step;
    verdict_.differences.push_back(std::move(what));
  }

  const Retraining& again_;
  Trainer& trainer_;
  const Checkpoint* from_;
  Verdict& verdict_;
};

// Those that trained some of these steps.
std::vector<Session> sessions_of(const Run& run, std::int64_t first, std::int64_t last) {
  const std::vector<Session> all = read_sessions(run);
  std::vector<Session> some;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].from_step < last && (i + 1 == all.size() || all[i + 1].from_step >= first))
      some.push_back(all[i]);
  return some;
}

Session this_process() {
  return {.version = version(),
          .engines = engines(),
          .processor = processor(),
          .threads = num_threads(),
          .ranks = 1};
}

// What of a session lets other bits be expected here.
std::vector<std::string> other_makers(const Verdict& verdict, const Config& config) {
  std::vector<std::string> reasons;
  const Session& own = verdict.computed_by;
  const auto add = [&](const std::string& reason) {
    if (std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
  };
  for (const Session& session : verdict.recorded_by) {
    if (session.engines != own.engines)
      add(fmt::format("it was computed by {}, here by {}", session.engines, own.engines));
    if (session.version != own.version)
      add(fmt::format("it was computed by tapestry {}, here by {}", session.version, own.version));
    if (session.processor != own.processor)
      add(fmt::format("it was computed on {}, here on {}", session.processor, own.processor));
  }
  if (verdict.recorded_by.size() > 1)
    add(
        fmt::format("it was trained in {} sessions, and config.toml is the last one's: others may "
                    "have had another schedule",
                    verdict.recorded_by.size()));
  if (!config[key::from].empty() && verdict.first_step == 1)
    add(fmt::format("it began with the weights of {}, which may have been trained on since",
                    config[key::from]));
  return reasons;
}

const Checkpoint* beginning(const Retraining& again, Begin from) {
  if (from == Begin::start) return nullptr;
  const Checkpoint* kept = from == Begin::best ? again.best() : again.last();
  expect_input(kept != nullptr, "{}: not there to begin from; give another --from",
               from == Begin::best ? again.run().best() : again.run().checkpoint());
  return kept;
}

}  // namespace

Verdict verify(const Run& run, const VerifyOptions& options) {
  Retraining again(run, options.overrides);
  const Checkpoint* from = beginning(again, options.from);
  const std::int64_t before = from ? from->state.step : 0;
  const std::int64_t steps_of_run = again.config()[key::steps];
  Verdict verdict{.from = from ? from->path : "the start",
                  .first_step = before + 1,
                  .last_step = std::min(end_of(run, before, options), steps_of_run),
                  .steps_of_run = steps_of_run};
  Trainer& trainer = again.begin(from);
  Comparison comparison(again, trainer, from, verdict);
  RecordedLines recorded(run);
  comparison.compare_lines(recorded.of(before), nullptr);
  while (trainer.state().step < verdict.last_step &&
         (verdict.is_same() || comparison.comes_to_tensors())) {
    const Averages averages = trainer.step();
    const std::int64_t step = trainer.state().step;
    if (options.watch) options.watch(step, verdict.last_step);
    if (verdict.is_same()) comparison.compare_lines(recorded.of(step), &averages);
    comparison.compare_tensors();
  }
  verdict.last_step = trainer.state().step;
  const std::int64_t steps = verdict.last_step - before;
  expect_input(verdict.training_lines + verdict.evaluations + verdict.tensors > 0,
               "{}: nothing was recorded {} step {} to compare with; {}", run.folder(),
               steps == 0 ? "after" : fmt::format("of the {} steps after", steps), before,
               steps > 0 ? "give more --steps"
               : from    ? "--from start begins with the first"
                         : "it has not come to a line of metrics.jsonl");
  if (verdict.evaluations > verdict.checksums)
    verdict.not_compared.push_back(
        fmt::format("parameters: of {} of {} evaluations an earlier version took down no checksum",
                    verdict.evaluations - verdict.checksums, verdict.evaluations));
  if (recorded.damaged() > 0)
    verdict.not_compared.push_back(
        fmt::format("damaged lines of metrics.jsonl: {}", recorded.damaged()));
  verdict.recorded_by = sessions_of(run, verdict.first_step, verdict.last_step);
  verdict.computed_by = this_process();
  verdict.other_makers = other_makers(verdict, again.config());
  return verdict;
}

}  // namespace tapestry
