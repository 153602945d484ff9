#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/process.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/import.hpp"

// Models that other programs saved (tests/golden), and what models compute.
namespace tapestry {

inline std::string golden_path(const std::string& name) {
  return TAPESTRY_SOURCE_DIR "/tests/golden/" + name;
}
inline std::string published(const std::string& name) { return golden_path("published/" + name); }

inline const LanguageModel& language_model(const Task& task) {
  return dynamic_cast<const LanguageModel&>(task);
}

// tokens (B, T) -> (B, T, V)
inline Array logits_of(const Task& task, const Array& tokens) {
  return std::visit([&](const auto& model) { return model.forward(tokens).value(); },
                    language_model(task).network());
}

// Of one row of tokens.
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

// Changes fields of a JSON file; null takes one away.
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
