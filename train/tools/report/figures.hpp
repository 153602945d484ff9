#pragma once

#include <string>
#include <vector>

namespace tapestry {

// A figure that a training measures: what it means, which way is better, and what it depends on
// besides the task and the data that it was measured on.
struct MeasuredFigure {
  enum class Better { lower, higher, neither };
  std::string name{};     // as in metrics.jsonl
  std::string meaning{};  // for a report
  Better better = Better::neither;
  bool is_per_token = false;            // comparable only between models of the same tokens
  std::vector<std::string> settings{};  // comparable only where these keys have the same values
};

const std::vector<MeasuredFigure>& known_figures();

// Returns the figure of that name, "test_loss" being "loss". One that is not listed has its name
// alone.
MeasuredFigure figure_named(const std::string& name);

}  // namespace tapestry
