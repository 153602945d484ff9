#include "train/loop/evaluation.hpp"

#include <cmath>
#include <numeric>

#include "autograd/buffer_pool.hpp"
#include "train/settings/keys.hpp"

namespace tapestry {
namespace {

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Metrics evaluate(Task& task, const Dataset& data, const Config& config,
                 const std::atomic<bool>* stop) try {
  Averages averages;
  Transcript transcript;
  const std::int64_t size = data.size(), batch_size = config[key::eval_batch_size];
  for (std::int64_t begin = 0; begin < size; begin += batch_size) {
    if (stop && *stop) return {};
    std::vector<std::int64_t> examples(std::min(batch_size, size - begin));
    std::iota(examples.begin(), examples.end(), begin);
    std::vector<Random> noise;
    for (const std::int64_t example : examples)
      noise.emplace_back(seed_of(config), Stream::eval, static_cast<std::uint64_t>(example));
    const Loss loss = task.loss(data.batch(examples), {.noise_of_examples = noise});
    for (const auto& [name, average] : loss.averages) averages[name] += average;
    append(transcript.written, loss.transcript.written);
    append(transcript.wanted, loss.transcript.wanted);
    transcript.cut_sources += loss.transcript.cut_sources;
  }
  Metrics metrics = values_of(averages);
  task.derive(metrics);
  if (!transcript.written.empty()) task.judge(transcript, metrics);
  return metrics;
} catch (const OutOfMemory& error) {
  config.fail(key::eval_batch_size, fmt::format("{}; lower it", error.what()));
}

Metrics values_of(const Averages& averages) {
  Metrics values;
  for (const auto& [name, average] : averages) values[name] = average.value();
  return values;
}

Metrics mean_of(const std::vector<Metrics>& runs) {
  Metrics means;
  for (const Metrics& run : runs)
    for (const auto& [name, value] : run) means[name] += value / static_cast<double>(runs.size());
  return means;
}

Metrics deviation_of(const std::vector<Metrics>& runs) {
  const Metrics means = mean_of(runs);
  Metrics deviations;
  for (const Metrics& run : runs)
    for (const auto& [name, value] : run) deviations[name] += std::pow(value - means.at(name), 2);
  for (auto& [name, squares] : deviations)
    squares = std::sqrt(squares / std::max(1.0, static_cast<double>(runs.size()) - 1));
  return deviations;
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

std::string show(const Metrics& means, const Metrics& deviations) {
  const auto one = [&](const std::string& name) {
    return fmt::format("{} {:.4f} ± {:.4f}", name, means.at(name), deviations.at(name));
  };
  std::string text = one("loss");
  for (const auto& [name, mean] : means)
    if (name != "loss") text += "  " + one(name);
  return text;
}

}  // namespace tapestry
