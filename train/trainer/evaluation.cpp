#include "train/trainer/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "autograd/buffer_pool.hpp"
#include "train/config/keys.hpp"
#include "train/distributed/order.hpp"

namespace tapestry {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  std::ranges::move(from, std::back_inserter(to));
}

// The metrics of a batch.
struct EvaluatedBatch {
  MetricSums averages{};
  GeneratedTexts generated{};
  ScoredExamples scored{};
  static void fields(auto& visit, auto& self) {
    visit(self.averages, self.generated.predictions, self.generated.references,
          self.generated.cut_sources, self.scored.scores, self.scored.targets);
  }
};

// The metrics of the batches that one rank evaluated, and whether a stop was requested.
struct EvaluatedBatches {
  std::vector<EvaluatedBatch> batches{};
  bool stopped = false;
  static void fields(auto& visit, auto& self) { visit(self.batches, self.stopped); }
};

// Returns the examples of a batch.
std::vector<std::int64_t> evaluation_batch(const Dataset& data, const EvaluationOptions& options,
                                           std::int64_t number) {
  const std::int64_t begin = number * options.batch_size;
  std::vector<std::int64_t> examples(std::min(data.size(), begin + options.batch_size) - begin);
  std::iota(examples.begin(), examples.end(), begin);
  return examples;
}

}  // namespace

EvaluationOptions::EvaluationOptions(const Config& config)
    : batch_size(config[key::eval_batch_size]),
      seed(seed_of(config)),
      origin(config.origin(key::eval_batch_size.name).text),
      check_finite(config[key::check_finite]) {}

std::int64_t evaluation_batches(const Dataset& data, const EvaluationOptions& options) {
  return (data.size() + options.batch_size - 1) / options.batch_size;
}

Loss evaluate_batch(Task& task, const Dataset& data, const EvaluationOptions& options,
                    std::int64_t number) {
  const std::vector<std::int64_t> examples = evaluation_batch(data, options, number);
  std::vector<Random> noise;
  for (const std::int64_t example : examples)
    noise.emplace_back(options.seed, Stream::eval, static_cast<std::uint64_t>(example));
  return loss_of(task, data.batch(examples), {.noise_of_examples = noise});
}

Metrics evaluate(Task& task, const Dataset& data, const EvaluationOptions& options) {
  Ranks alone;
  return evaluate(task, data, options, nullptr, alone);
}

// Adds the metrics in the order of the batches, whichever rank computed them, so that the bits are
// the same on any number of ranks.
Metrics evaluate(Task& task, const Dataset& data, const EvaluationOptions& options,
                 const std::atomic<bool>* stop, Ranks& ranks) try {
  const MicroBatchRange own =
      micro_batches_of_rank(evaluation_batches(data, options), ranks.rank(), ranks.size());
  EvaluatedBatches evaluated;
  for (std::int64_t batch = own.first; batch < own.last && !(stop && *stop); ++batch) {
    Loss loss = evaluate_batch(task, data, options, batch);
    evaluated.batches.push_back(
        {std::move(loss.averages), std::move(loss.generated), std::move(loss.scored)});
  }
  evaluated.stopped = stop && *stop;
  MetricSums averages;
  GeneratedTexts generated;
  ScoredExamples scored;
  bool stopped = false;
  for (EvaluatedBatches& of_rank :
       ranks.gather(std::move(evaluated), "the evaluation", Ranks::Late::fine)) {
    for (EvaluatedBatch& batch : of_rank.batches) {
      for (const auto& [name, average] : batch.averages) averages[name] += average;
      append(generated.predictions, std::move(batch.generated.predictions));
      append(generated.references, std::move(batch.generated.references));
      generated.cut_sources += batch.generated.cut_sources;
      append(scored.scores, std::move(batch.scored.scores));
      append(scored.targets, std::move(batch.scored.targets));
    }
    stopped |= of_rank.stopped;
  }
  if (stopped) return {};
  Metrics metrics = values_of(averages);
  task.add_derived_metrics(metrics);
  if (!generated.predictions.empty()) task.add_corpus_metrics(generated, metrics);
  if (!scored.targets.empty()) task.add_score_metrics(scored, metrics);
  expect_input(
      averages.empty() || metrics.contains("loss"),
      "Task::add_derived_metrics: removes the metric \"loss\", which every task has; keep it");
  return metrics;
} catch (const OutOfMemory& error) {
  throw ModelTooLarge(fmt::format("{}: {}; lower {}, or use a smaller model", options.origin,
                                  error.what(), key::eval_batch_size.name));
}

std::int64_t count_targets(const Dataset& data, const EvaluationOptions& options) {
  double count = 0;
  for (std::int64_t batch = 0; batch < evaluation_batches(data, options); ++batch)
    count += data.batch(evaluation_batch(data, options, batch)).count;
  return std::llround(count);
}

Estimates estimates_of(const std::vector<Metrics>& runs) {
  std::map<std::string, std::vector<double>> values;
  for (const Metrics& run : runs)
    for (const auto& [name, value] : run) values[name].push_back(value);
  Estimates estimates;
  for (const auto& [name, measured] : values) estimates[name] = estimate_of(measured);
  return estimates;
}

std::string show(const Metrics& values, const Signatures& signatures) {
  std::string text = fmt::format("loss {:.4f}", values.at("loss"));
  for (const auto& [name, value] : values) {
    if (name == "loss") continue;
    text += fmt::format("  {} {:.4g}", name, value);
    const auto signature = signatures.find(name);
    if (signature != signatures.end()) text += fmt::format(" ({})", signature->second);
  }
  return text;
}

std::string show(const std::vector<Baseline>& baselines, const Metrics& metrics) {
  std::string text;
  for (const Baseline& baseline : baselines)
    text += fmt::format("  baseline {}: {}\n", baseline.name, show(baseline.metrics));
  return baselines.empty() ? "" : text + comparison(baselines, metrics) + "\n";
}

std::string show(const Estimates& estimates) {
  const auto one = [&](const std::string& name) {
    const Estimate& estimate = estimates.at(name);
    return fmt::format("{} {:.4f} ± {:.4f}", name, estimate.mean, estimate.deviation);
  };
  std::string text = one("loss");
  for (const auto& [name, estimate] : estimates)
    if (name != "loss") text += "  " + one(name);
  return text;
}

}  // namespace tapestry
