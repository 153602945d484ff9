#pragma once

#include <set>
#include <string>

#include "train/run/line_reader.hpp"
#include "train/run/recorder.hpp"
#include "train/run/run.hpp"

namespace tapestry {

// checksums.jsonl: of each evaluation, {"step", "tensor", "xxh3"} a line of each tensor, those that
// the checksums of its line in metrics.jsonl are of.
class ChecksumRecorder final : public LinesRecorder {
 public:
  explicit ChecksumRecorder(RunLock& lock) : LinesRecorder(lock, lock.run().checksums()) {}

 private:
  std::string lines_of(const MetricsLine& line) const override;
  bool is_kept(const std::string& line, std::int64_t step, bool evaluated) const override;
};

struct RecordedChecksum {
  std::int64_t step = 0;
  std::string tensor{}, checksum{};
};

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
