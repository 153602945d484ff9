#include "train/tools/reproduce/recorded_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/json.hpp"
#include "data/text/text.hpp"
#include "train/run/line_reader.hpp"

namespace tapestry {

bool is_split(const RecordedLine& line, const char* split) { return line["split"] == split; }

std::int64_t step_of(const RecordedLine& line) { return line["step"].get<std::int64_t>(); }

RecordedLines::RecordedLines(const Run& run, std::int64_t steps_of_run)
    : path_(run.metrics()), steps_of_run_(steps_of_run), reader_(path_) {}

const RecordedLine* RecordedLines::front() {
  while (!front_ && reader_.next()) {
    front_ = whole_line();
    if (!is_split(*front_, "test")) break;
    test_ = std::exchange(front_, std::nullopt);
  }
  return front_ ? &*front_ : nullptr;
}

RecordedLine RecordedLines::take() { return *std::exchange(front_, std::nullopt); }

std::vector<RecordedLine> RecordedLines::of(std::int64_t step) {
  std::vector<RecordedLine> lines;
  while (front() && step_of(*front()) <= step)
    if (RecordedLine line = take(); step_of(line) == step) lines.push_back(std::move(line));
  return lines;
}

RecordedLine RecordedLines::whole_line() {
  std::optional<RecordedLine> line = parse_metrics_line(reader_.text());
  expect(line.has_value(), "it is not what a training takes down");
  expect(!has_duplicate_keys(reader_.text()), "a key stands in it twice");
  if (is_split(*line, "test")) {
    expect(test_ != line, "it stands there twice");
    return *std::move(line);
  }
  const bool trained = is_split(*line, "train");
  expect(trained || is_split(*line, "val"),
         fmt::format("split \"{}\", expected train, val or test",
                     printable_beginning((*line)["split"].get<std::string>())));
  const std::int64_t step = step_of(*line), least = std::max<std::int64_t>(trained, last_step_);
  expect(step >= least && step <= steps_of_run_,
         fmt::format("step {}, expected {} to {}", step, least, steps_of_run_));
  const bool is_first = step > last_step_;
  expect(is_first || (!trained && !is_evaluated_),
         fmt::format("step {} has a line of this split already, or one that comes after it", step));
  expect(trained || line->contains("parameters_xxh3"), "an evaluation without parameters_xxh3");
  is_evaluated_ = !trained;
  last_step_ = step;
  return *std::move(line);
}

void RecordedLines::expect(bool holds, const std::string& what) const {
  expect_input(holds,
               "{}:{}: {}: the record is damaged, and cannot be vouched for; restore the file, or "
               "take the line out of a copy of the run",
               path_, reader_.number(), what);
}

}  // namespace tapestry
