#include "train/run/recorded_checksums.hpp"

#include "data/json.hpp"

namespace tapestry {

std::string to_line(const RecordedChecksum& checksum) {
  return JsonValue{
             {"step", checksum.step}, {"tensor", checksum.tensor}, {"xxh3", checksum.checksum}}
             .dump() +
         "\n";
}

std::optional<RecordedChecksum> parse_checksum_line(const std::string& line) try {
  const JsonValue read = JsonValue::parse(line);
  return RecordedChecksum{.step = read.at("step").get_ref<const std::int64_t&>(),
                          .tensor = read.at("tensor").get<std::string>(),
                          .checksum = read.at("xxh3").get<std::string>()};
} catch (const JsonValue::exception&) {
  return std::nullopt;
}

const RecordedChecksum* RecordedChecksums::front() {
  if (front_ || !reader_.next()) return front_ ? &*front_ : nullptr;
  front_ = parse_checksum_line(reader_.text());
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
