#include "train/run/recorder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "train/run/metrics_line.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Whether a line was measured at this step or before. A damaged one is nobody's, and a test, which
// ends a training, is to be made again.
bool is_of_step(const std::string& line, std::int64_t step) {
  const auto entry = parse_metrics_line(line);
  return entry && (*entry)["split"] != "test" && (*entry)["step"].get<std::int64_t>() <= step;
}

// How many bytes stand before what was measured after this step: up to the last line that was not.
std::int64_t bytes_until(const std::string& path, std::int64_t step) {
  std::ifstream file(path, std::ios::binary);
  std::int64_t bytes = 0, kept = 0;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // without its end: one that was being written
    bytes += std::ssize(line) + 1;
    if (is_of_step(line, step)) kept = bytes;
  }
  return kept;
}

}  // namespace

std::string MetricsLine::json() const {
  nlohmann::ordered_json object{{"step", step}, {"split", split}};
  if (const auto loss = values.find("loss"); loss != values.end()) object["loss"] = loss->second;
  object["elapsed_s"] = elapsed_s;
  for (const auto& [name, value] : values) object[name] = value;
  for (const auto& [name, signature] : signatures) object[name + "_signature"] = signature;
  return object.dump();
}

void JsonLinesRecorder::resume_at(std::int64_t step) {
  if (fs::exists(path_)) fs::resize_file(path_, step > 0 ? bytes_until(path_, step) : 0);
  file_.reset(std::fopen(path_.c_str(), "a"));
  if (!file_)
    throw std::runtime_error(fmt::format("{}: cannot open: {}", path_, std::strerror(errno)));
}

void JsonLinesRecorder::write(const MetricsLine& line) {
  const std::string text = line.json() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
      std::fflush(file_.get()) != 0)
    throw std::runtime_error(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
}

}  // namespace tapestry
