#include "train/run/recorder.hpp"

#include <fcntl.h>

#include "train/run/line_reader.hpp"

namespace tapestry {

std::string MetricsLine::json() const {
  JsonValue object{{"step", step}, {"split", split}};
  if (const auto loss = values.find("loss"); loss != values.end()) object["loss"] = loss->second;
  object["elapsed_s"] = elapsed_s;
  for (const auto& [name, value] : values) object[name] = value;
  for (const auto& [name, signature] : signatures) object[name + "_signature"] = signature;
  for (const auto& [name, tensors] : checksums) object[name + "_xxh3"] = combined(tensors);
  return object.dump();
}

// What stands before the last line that is kept stays, damaged lines among it.
void LinesRecorder::resume_at(std::int64_t step, bool evaluated) {
  std::int64_t kept = 0;
  if (step > 0)
    for (LineReader line(path_); line.next();)
      if (is_kept(line.text(), step, evaluated)) kept = line.end();
  lock_.expect_in_place();
  const FilePlace place = lock_.place(path_);
  file_.emplace(place, O_WRONLY | O_CREAT | O_APPEND);
  file_->truncate(kept);
  sync_folder_of(place);
}

void LinesRecorder::sync() {
  lock_.expect_in_place();
  file_->sync();
}

void LinesRecorder::write(const MetricsLine& line) {
  if (const std::string lines = lines_of(line); !lines.empty()) file_->write(lines);
}

// It was measured at this step or before; of the step itself, where it is yet to be evaluated, only
// in training. A damaged one is nobody's, and a test, which ends a training, is to be made again.
bool JsonLinesRecorder::is_kept(const std::string& line, std::int64_t step, bool evaluated) const {
  const auto entry = parse_metrics_line(line);
  if (!entry || (*entry)["split"] == "test") return false;
  const std::int64_t own = (*entry)["step"].get<std::int64_t>();
  return own < step || (own == step && (evaluated || (*entry)["split"] == "train"));
}

}  // namespace tapestry
