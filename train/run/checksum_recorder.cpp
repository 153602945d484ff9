#include "train/run/checksum_recorder.hpp"

#include <nlohmann/json.hpp>

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

std::optional<RecordedChecksum> parsed(const std::string& line) try {
  const Json read = Json::parse(line);
  return RecordedChecksum{.step = read.at("step").get_ref<const std::int64_t&>(),
                          .tensor = read.at("tensor").get<std::string>(),
                          .checksum = read.at("xxh3").get<std::string>()};
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace

std::string ChecksumRecorder::lines_of(const MetricsLine& line) const {
  std::string lines;
  for (const auto& [name, tensors] : line.checksums)
    for (const auto& [tensor, checksum] : tensors)
      lines += Json{{"step", line.step}, {"tensor", tensor}, {"xxh3", checksum}}.dump() + "\n";
  return lines;
}

bool ChecksumRecorder::is_kept(const std::string& line, std::int64_t step, bool evaluated) const {
  const auto entry = parsed(line);
  return entry && entry->step >= 0 && entry->step < step + evaluated;
}

const RecordedChecksum* RecordedChecksums::front() {
  while (!front_ && reader_.next()) front_ = parsed(reader_.text());
  return front_ ? &*front_ : nullptr;
}

Checksums RecordedChecksums::of(std::int64_t step) {
  Checksums checksums;
  for (; front() && front_->step <= step; front_.reset())
    if (front_->step == step) checksums[front_->tensor] = front_->checksum;
  return checksums;
}

}  // namespace tapestry
