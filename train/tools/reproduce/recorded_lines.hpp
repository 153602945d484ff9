#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/run.hpp"

namespace tapestry {

using RecordedLine = JsonValue;

bool is_split(const RecordedLine& line, const char* split);
std::int64_t step_of(const RecordedLine& line);

// The lines of metrics.jsonl of training and evaluations, whose steps never fall. A test's, which
// comes last, is kept apart. InputError of a line that no training writes, or not there, or twice.
class RecordedLines {
 public:
  RecordedLines(const Run& run, std::int64_t steps_of_run);

  // The first that was not taken; null: there is no other.
  const RecordedLine* front();
  RecordedLine take();

  // Those of this step. The next call is of a later one.
  std::vector<RecordedLine> of(std::int64_t step);

  // The last of those that were met so far, by all trainings that came to an end.
  const std::optional<RecordedLine>& test() const { return test_; }

 private:
  RecordedLine whole_line();
  void expect(bool holds, const std::string& what) const;

  std::string path_;
  std::int64_t steps_of_run_, last_step_ = 0;
  bool is_evaluated_ = false;  // there was a line of the last step's evaluation
  LineReader reader_;
  std::optional<RecordedLine> front_, test_;
};

}  // namespace tapestry
