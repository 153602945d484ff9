#pragma once

#include <optional>
#include <set>
#include <string>

#include "train/run/checksums.hpp"
#include "train/run/line_reader.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// One line of checksums.jsonl: {"step", "tensor", "xxh3"} of a tensor that was evaluated.
struct RecordedChecksum {
  std::int64_t step = 0;
  std::string tensor{}, checksum{};
};
std::string to_line(const RecordedChecksum& checksum);
std::optional<RecordedChecksum> parse_checksum_line(const std::string& line);  // none: damaged

// Those that a run has, from the first on. InputError of a line that is damaged, of an earlier step
// than the one before it, or of a tensor that the step has already.
class RecordedChecksums {
 public:
  explicit RecordedChecksums(const Run& run) : path_(run.checksums()), reader_(path_) {}

  // The first that was not taken; null: there is no other.
  const RecordedChecksum* front();
  // Those of this step. The next call is of a later one.
  Checksums of(std::int64_t step);

 private:
  void expect(bool holds, const char* what) const;

  std::string path_;
  LineReader reader_;
  std::optional<RecordedChecksum> front_;
  std::int64_t step_ = 0;            // of the line before,
  std::set<std::string> of_step_{};  // and the tensors that it has
};

}  // namespace tapestry
