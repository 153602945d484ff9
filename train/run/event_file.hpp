#pragma once

#include <optional>
#include <string>

#include "autograd/array.hpp"
#include "train/run/run_lock.hpp"

namespace tapestry {

// A file of events as TensorBoard reads them: a TFRecord file of Event messages (tensorflow/core/
// util/event.proto, framework/summary.proto). Each call adds whole records by one write, so that a
// reader never meets half of one for long. Errors are std::runtime_error, as of File.
class EventFile {
 public:
  // Makes events.out.tfevents.<time>.tapestry in a run's folder, under the next time that is free.
  // Readers drop what earlier files hold from `first_step` on.
  EventFile(RunLock& lock, std::int64_t first_step);

  void add_scalar(std::int64_t step, const std::string& tag, double value);
  // Writes the text unchanged.
  void add_text(std::int64_t step, const std::string& tag, const std::string& text);
  void add_png(std::int64_t step, const std::string& tag, const std::string& png);
  // Adds a histogram of the finite numbers; none if there are none.
  void add_histogram(std::int64_t step, const std::string& tag, const Array& numbers);

  void sync() { file_->sync(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<File> file_;
};

// A record of a TFRecord file: its length and bytes, each with its masked CRC-32C.
std::string tf_record(const std::string& bytes);

}  // namespace tapestry
