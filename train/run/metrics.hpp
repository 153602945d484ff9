#pragma once

#include <functional>
#include <optional>
#include <string>

#include "train/run/checksums.hpp"
#include "train/run/run_lock.hpp"
#include "train/task.hpp"

namespace tapestry {

// What is measured at one step, as one JSON object.
struct MetricsLine {
  std::int64_t step = 0;
  std::string split;  // "train", "val" or "test"
  Metrics values;
  double elapsed_s = 0;
  Signatures signatures{};
  std::map<std::string, Checksums> checksums{};  // of what was evaluated, by what it is

  // Returns step, split, loss, elapsed_s, then the rest by name; a signature as "bleu_signature",
  // checksums together as "parameters_xxh3".
  std::string json() const;
};

// A file of a run's folder to which lines are added while the run trains.
class LinesFile final {
 public:
  // `path` is a file of the run that the lock holds; the lock outlives this.
  LinesFile(RunLock& lock, std::string path) : lock_(lock), path_(std::move(path)) {}

  // Opens the file and cuts off what follows the last line that `is_kept` accepts; everything, if
  // the run begins (step 0). Damaged lines before that one stay.
  using IsKept = std::function<bool(const std::string& line)>;
  void open(std::int64_t step, const IsKept& is_kept);

  void write(const std::string& lines) { file_->write(lines); }
  void sync();  // returns when the lines are on the disk

 private:
  RunLock& lock_;
  std::string path_;
  std::optional<File> file_;
};

}  // namespace tapestry
