#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/process.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/import.hpp"

// Models saved by other programs (tests/golden), and outputs of models.
namespace tapestry {

inline std::string published(const std::string& name) { return golden_path("published/" + name); }

inline const LanguageModel& language_model(const Task& task) {
  return dynamic_cast<const LanguageModel&>(task);
}

// tokens (B, T) -> (B, T, V)
inline Array logits_of(const Task& task, const Array& tokens) {
  return std::visit([&](const auto& model) { return model.forward(tokens).value(); },
                    language_model(task).network());
}

// Returns the logits of one row of tokens.
inline Array logits_of(const Task& task, const std::vector<std::int32_t>& tokens) {
  return logits_of(task, Array::of(tokens, {1, std::ssize(tokens)}));
}

inline double largest_difference(const Array& a, const Array& b) {
  REQUIRE(a.shape() == b.shape());
  double largest = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a.values<float>()[i] - b.values<float>()[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

// The largest difference of the logits of two models, for a row of tokens that both know.
inline double logits_difference(const Task& a, const Task& b,
                                const std::vector<std::int32_t>& tokens = {5, 1, 2, 7, 9, 3}) {
  return largest_difference(logits_of(a, tokens), logits_of(b, tokens));
}

// The largest difference of the parameters of two models, whose numbers of parameters are the same.
inline double parameters_difference(Task& a, Task& b) {
  const std::vector<Parameter*> parameters = a.model().parameters(),
                                others = b.model().parameters();
  REQUIRE(parameters.size() == others.size());
  double largest = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    largest = std::max(largest, largest_difference(parameters[i]->value(), others[i]->value()));
  return largest;
}

inline TrainedModel model_of(const std::string& run) { return load_trained(run, {}, false); }

// Trains a small language model for two steps, and returns its folder "run".
inline std::string trained_run(const TemporaryFolder& folder, const Words& settings) {
  const std::string run = folder.path("run");
  must_run(Words("train {} --out {} --quiet model.layers=1 model.heads=2 model.width=32 "
                 "model.context=8 train.steps=2 train.batch_size=2 model.activation=gelu_tanh",
                 folder.write("text.toml", "task = \"language-model\"\n"), run) +
           settings);
  return run;
}

// Changes fields of a JSON file; null removes one.
inline void change_json(const std::string& path, const Json& fields) {
  auto json = Json::parse(read_bytes(path));
  for (const auto& [name, value] : fields.items())
    if (value.is_null())
      json.erase(name);
    else
      json[name] = value;
  std::ofstream(path) << json.dump();
}

}  // namespace tapestry
