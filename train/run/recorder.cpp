#include "train/run/recorder.hpp"

#include <fcntl.h>

#include "train/run/line_reader.hpp"
#include "train/run/metrics_line.hpp"

namespace tapestry {
namespace {

// Whether a line was measured at this step or before; of the step itself, where it is yet to be
// evaluated, only in training. A damaged one is nobody's, and a test, which ends a training, is to
// be made again.
bool is_of_step(const std::string& line, std::int64_t step, bool evaluated) {
  const auto entry = parse_metrics_line(line);
  if (!entry || (*entry)["split"] == "test") return false;
  const std::int64_t own = (*entry)["step"].get<std::int64_t>();
  return own < step || (own == step && (evaluated || (*entry)["split"] == "train"));
}

// How many bytes stand before what was measured after this step: up to the last line that was not.
std::int64_t bytes_until(const std::string& path, std::int64_t step, bool evaluated) {
  std::int64_t kept = 0;
  for (LineReader line(path); line.next();)
    if (is_of_step(line.text(), step, evaluated)) kept = line.end();
  return kept;
}

}  // namespace

std::string MetricsLine::json() const {
  nlohmann::ordered_json object{{"step", step}, {"split", split}};
  if (const auto loss = values.find("loss"); loss != values.end()) object["loss"] = loss->second;
  object["elapsed_s"] = elapsed_s;
  for (const auto& [name, value] : values) object[name] = value;
  for (const auto& [name, signature] : signatures) object[name + "_signature"] = signature;
  for (const auto& [name, checksum] : checksums) object[name + "_xxh3"] = checksum;
  return object.dump();
}

void JsonLinesRecorder::resume_at(std::int64_t step, bool evaluated) {
  const std::int64_t kept = step > 0 ? bytes_until(path_, step, evaluated) : 0;
  file_.emplace(path_, O_WRONLY | O_CREAT | O_APPEND);
  file_->truncate(kept);
  sync_folder(folder_of(path_), path_);
}

void JsonLinesRecorder::write(const MetricsLine& line) { file_->write(line.json() + "\n"); }

void JsonLinesRecorder::sync() { file_->sync(); }

}  // namespace tapestry
