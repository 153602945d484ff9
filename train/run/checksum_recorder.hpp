#pragma once

#include <string>

#include "train/run/line_reader.hpp"
#include "train/run/recorder.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// checksums.jsonl: of each evaluation, {"step", "tensor", "xxh3"} a line of each tensor, those that
// the checksums of its line in metrics.jsonl are of.
class ChecksumRecorder final : public LinesRecorder {
 public:
  explicit ChecksumRecorder(const Run& run) : LinesRecorder(run.checksums()) {}

 private:
  std::string lines_of(const MetricsLine& line) const override;
  bool is_kept(const std::string& line, std::int64_t step, bool evaluated) const override;
};

struct RecordedChecksum {
  std::int64_t step = 0;
  std::string tensor{}, checksum{};
};

// Those that a run has, from the first on; lines that are damaged are left out.
class RecordedChecksums {
 public:
  explicit RecordedChecksums(const Run& run) : reader_(run.checksums()) {}

  // The first that was not taken; null: there is no other.
  const RecordedChecksum* front();
  // Those of this step. The next call is of a later one.
  Checksums of(std::int64_t step);

 private:
  LineReader reader_;
  std::optional<RecordedChecksum> front_;
};

}  // namespace tapestry
