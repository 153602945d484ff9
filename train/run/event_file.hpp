#pragma once

#include <optional>
#include <string>

#include "autograd/array.hpp"
#include "train/run/run_lock.hpp"

namespace tapestry {

// A file of events for TensorBoard: a TFRecord file of Event messages
// (tensorflow/core/util/event.proto, framework/summary.proto). Each call appends whole records with
// one write, so that a reader rarely sees an incomplete record. All functions throw FileError as
// File does.
class EventFile {
 public:
  // Creates events.out.tfevents.<time>.tapestry in a run's folder, with the first unused time from
  // now on. TensorBoard then drops the records of earlier files from `first_step` on. Throws
  // FolderLost as RunLock::expect_in_place() does.
  EventFile(RunLock& lock, std::int64_t first_step);

  void add_scalar(std::int64_t step, const std::string& tag, double value);
  // Adds a text, which TensorBoard shows unchanged, without interpreting it as Markdown.
  void add_text(std::int64_t step, const std::string& tag, const std::string& text);
  void add_png(std::int64_t step, const std::string& tag, const std::string& png);
  // Adds a histogram of the finite elements, if there are any.
  void add_histogram(std::int64_t step, const std::string& tag, const Array& numbers);

  void sync() { file_->sync(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<File> file_;
};

// Returns a record of a TFRecord file: the length and the bytes, each followed by its masked
// CRC-32C.
std::string tf_record(const std::string& bytes);

}  // namespace tapestry
