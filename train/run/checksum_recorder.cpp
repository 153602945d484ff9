#include "train/run/checksum_recorder.hpp"

#include "data/json.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

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
  if (front_ || !reader_.next()) return front_ ? &*front_ : nullptr;
  front_ = parsed(reader_.text());
  expect(front_ && !has_duplicate_keys(reader_.text()), "it is not a tensor's checksum");
  expect(front_->step >= step_, "its step is before that of the line before it");
  if (front_->step > step_) of_step_.clear();
  step_ = front_->step;
  expect(of_step_.insert(front_->tensor).second, "its step has this tensor already");
  return &*front_;
}

void RecordedChecksums::expect(bool holds, const char* what) const {
  expect_input(holds,
               "{}:{}: {}: the record is damaged, and cannot be vouched for; restore the file, or "
               "take it out of a copy of the run",
               path_, reader_.number(), what);
}

Checksums RecordedChecksums::of(std::int64_t step) {
  Checksums checksums;
  for (; front() && front_->step <= step; front_.reset())
    if (front_->step == step) checksums[front_->tensor] = front_->checksum;
  return checksums;
}

}  // namespace tapestry
