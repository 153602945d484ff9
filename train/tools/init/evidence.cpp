#include <algorithm>
#include <atomic>

#include "autograd/clock.hpp"
#include "train/config/keys.hpp"
#include "train/tools/init/init.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

constexpr double most_seconds = 10;  // of a training, without reading the data

// A short training, and the best value of its metric in four evaluations.
struct ShortTraining {
  std::string metric{};
  double best = 0;
  std::int64_t steps = 0;
  std::vector<Baseline> baselines{};
};

bool is_better(const std::string& metric, double value, double other) {
  return metric == "accuracy" ? value > other : value < other;
}

Config config_of_kind(const ConfigWith& with, const ModelKind& kind, std::int64_t steps) {
  std::vector<std::string> changes = {
      fmt::format("{}={}", key::learning_rate.name, kind.learning_rate),
      fmt::format("{}=\"constant\"", key::schedule.name),
      fmt::format("{}={}", key::steps.name, steps)};
  for (const auto& [name, value] : kind.settings)
    changes.push_back(fmt::format("{}={}", name, to_toml(value)));
  return with(changes);
}

ShortTraining train_briefly(const Config& config, bool with_baselines) {
  constexpr std::int64_t evaluations = 4;
  std::atomic<bool> stop = false;
  Ranks alone;
  const std::unique_ptr<Task> task = begin_task(config);
  Trainer trainer(*task, config, Run(""), nullptr, stop, alone);
  const Dataset& validation = task->validation_data();
  const std::int64_t steps = config[key::steps], every = (steps + evaluations - 1) / evaluations;
  ShortTraining result;
  const double begin_s = now_s();
  for (bool is_over = false; !is_over;) {
    trainer.step();
    result.steps = trainer.state().step;
    is_over = result.steps == steps || now_s() - begin_s > most_seconds;
    if (!is_over && result.steps % every != 0) continue;
    const Metrics metrics = evaluate(*task, validation, EvaluationOptions(config));
    const bool is_first = result.metric.empty();
    result.metric = metrics.contains("accuracy") ? "accuracy" : "rmse";
    const double value = metrics.at(result.metric);
    if (is_first || is_better(result.metric, value, result.best)) result.best = value;
  }
  const Dataset* const judged[] = {&validation};
  if (with_baselines)
    for (Baselines& found : task->baselines(judged)) result.baselines = std::move(found);
  return result;
}

}  // namespace

// The dearer kind is trained first: if the time limit ends its training, the other one has as many
// steps, so that the speed of the machine decides only how many these are.
std::optional<std::pair<ModelKind, Evidence>> compare_kinds(const ConfigWith& with,
                                                            const Recognized& data) try {
  constexpr double most_examples = 40'000;
  const Config base = with({});
  const std::vector<ModelKind> kinds = spec_of(base).kinds();
  if (kinds.size() < 2 || !data.is_small) return std::nullopt;
  const double examples = std::min(most_examples, data.most_epochs * data.examples);
  const std::int64_t batch = base[key::batch_size];
  const auto steps = std::max<std::int64_t>(10, std::llround(examples) / batch);
  const ShortTraining dear = train_briefly(config_of_kind(with, kinds[1], steps), true),
                      cheap = train_briefly(config_of_kind(with, kinds[0], dear.steps), false);
  Evidence found{.metric = dear.metric, .is_cut = std::min(dear.steps, cheap.steps) < steps};
  for (const auto& [name, metrics] : dear.baselines)
    found.tried.push_back({name, metrics.at(found.metric)});
  for (const auto& [kind, tried] : {std::pair(&kinds[0], &cheap), {&kinds[1], &dear}})
    found.tried.push_back({kind->name, tried->best, tried->steps * batch});
  const ModelKind& best = kinds[is_better(found.metric, dear.best, cheap.best)];
  found.chosen = best.name;
  return std::pair(best, std::move(found));
} catch (const InputError&) {  // a kind does not fit the data, such as patches these images
  return std::nullopt;
}

}  // namespace tapestry
