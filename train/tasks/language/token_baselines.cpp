#include "train/tasks/language/token_baselines.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tapestry {
namespace {

// The counts of tokens and of bigrams.
class BigramCounts {
 public:
  explicit BigramCounts(std::int64_t vocabulary)
      : counts_(vocabulary), before_(vocabulary), followers_(vocabulary) {}

  void add(std::int32_t before, std::int32_t token) {
    ++total_;
    ++counts_[token];
    ++before_[before];
    followers_[before] += ++bigrams_[key(before, token)] == 1;
  }

  double probability(std::int32_t token) const {
    return (counts_[token] + 1) / (total_ + static_cast<double>(counts_.size()));
  }
  double probability(std::int32_t before, std::int32_t token) const {
    const auto found = bigrams_.find(key(before, token));
    const double count = found == bigrams_.end() ? 0 : found->second, all = before_[before],
                 different = followers_[before];
    return all == 0 ? probability(token)
                    : (count + different * probability(token)) / (all + different);
  }

 private:
  std::uint64_t key(std::int32_t before, std::int32_t token) const {
    return static_cast<std::uint64_t>(before) * counts_.size() + static_cast<std::uint64_t>(token);
  }

  double total_ = 0;
  std::vector<double> counts_, before_, followers_;  // by token
  std::unordered_map<std::uint64_t, double> bigrams_{};
};

// Calls take(batch) for examples that are `every` apart, with several at once.
void for_each_batch(const Dataset& data, std::int64_t every, const auto& take) {
  constexpr std::int64_t at_once = 64;
  std::vector<std::int64_t> examples;
  for (std::int64_t example = 0; example < data.size(); example += every) {
    examples.push_back(example);
    if (std::ssize(examples) < at_once && example + every < data.size()) continue;
    take(data.batch(examples));
    examples.clear();
  }
}

// Calls take(input, target) for each target of a batch that is not ignored.
void for_each_target(const Batch& batch, const auto& take) {
  const auto inputs = batch.inputs.values<std::int32_t>(),
             targets = batch.targets.values<std::int32_t>();
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] != ignored_target) take(inputs[i], targets[i]);
}

}  // namespace

std::vector<Baselines> token_baselines(Task& task, JudgedSplits judged,
                                       const TokenBaselineOptions& options) {
  constexpr double most_tokens = 1e7;
  const Dataset& training = task.training_data();
  const std::int64_t first[] = {0};
  const double tokens = static_cast<double>(training.batch(first).inputs.size()) *
                        static_cast<double>(training.size() / options.every + 1);
  const auto every = options.every * std::max<std::int64_t>(1, std::llround(tokens / most_tokens));
  BigramCounts counts(options.vocabulary);
  for_each_batch(training, every, [&](const Batch& batch) {
    for_each_target(batch,
                    [&](std::int32_t input, std::int32_t target) { counts.add(input, target); });
  });
  std::vector<Baselines> all;
  for (const Dataset* split : judged) {
    MetricSums of_tokens, of_bigrams;
    const auto add = [&](MetricSums& sums, double nats, const Batch& batch) {
      for (const auto& [name, sum] : options.measure(nats, batch)) sums[name] += sum;
    };
    for_each_batch(*split, 1, [&](const Batch& batch) {
      double nats = 0, bigram_nats = 0;
      for_each_target(batch, [&](std::int32_t input, std::int32_t target) {
        nats -= std::log(counts.probability(target));
        bigram_nats -= std::log(counts.probability(input, target));
      });
      add(of_tokens, nats, batch);
      add(of_bigrams, bigram_nats, batch);
    });
    all.push_back(
        {{"token frequencies", values_of(of_tokens)}, {"bigrams", values_of(of_bigrams)}});
    for (Baseline& baseline : all.back()) task.add_derived_metrics(baseline.metrics);
  }
  return all;
}

}  // namespace tapestry
