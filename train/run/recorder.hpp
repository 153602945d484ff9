#pragma once

#include <optional>
#include <string>

#include "autograd/tape.hpp"
#include "train/run/checksums.hpp"
#include "train/run/file.hpp"
#include "train/task.hpp"

namespace tapestry {

// What is measured at one step, as one JSON object.
struct MetricsLine {
  std::int64_t step = 0;
  std::string split;  // "train", "val" or "test"
  Metrics values;
  double elapsed_s = 0;
  Signatures signatures{};
  Checksums checksums{};  // of what was evaluated

  // step, split, loss, elapsed_s, then the rest by name; a signature as "bleu_signature", a
  // checksum as "parameters_xxh3"
  std::string json() const;
};

// Takes down what is measured while a run trains.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Comes first: the training goes on after this step, 0 for a new run. What was taken down of a
  // later one, before the run was interrupted, is to be forgotten; the step's own evaluation as
  // well, where it is still to be made.
  virtual void resume_at(std::int64_t step, bool evaluated) = 0;
  virtual void write(const MetricsLine& line) = 0;
  // A checkpoint is about to be written: what was taken down before it has to last as long.
  virtual void sync() {}
  // The model has done a step that is evaluated next, by these gradients; null: no rank has them
  // all.
  virtual void look(std::int64_t, const Gradients*) {}
  virtual void note(const std::string&) {}  // a text for whoever watches
  virtual void finish() {}                  // the last step is done; a test may follow
};

// metrics.jsonl, written a line at a time.
class JsonLinesRecorder final : public Recorder {
 public:
  explicit JsonLinesRecorder(std::string path) : path_(std::move(path)) {}

  void resume_at(std::int64_t step, bool evaluated = true) override;
  void write(const MetricsLine& line) override;
  void sync() override;

 private:
  std::string path_;
  std::optional<File> file_;
};

}  // namespace tapestry
