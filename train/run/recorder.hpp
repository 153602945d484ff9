#pragma once

#include <optional>
#include <string>

#include "autograd/tape.hpp"
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

  // step, split, loss, elapsed_s, then the rest by name; a signature as "bleu_signature", checksums
  // together as "parameters_xxh3"
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
  virtual void log(const std::string&) {}  // a text for whoever watches
  virtual void finish() {}                 // the last step is done; a test may follow
};

// A file of the run's folder, to which lines are added.
class LinesRecorder : public Recorder {
 public:
  void resume_at(std::int64_t step, bool evaluated = true) final;
  void write(const MetricsLine& line) final;
  void sync() final;

 protected:
  // `path`: of a file of the run; the lock outlives the recorder.
  LinesRecorder(RunLock& lock, std::string path) : lock_(lock), path_(std::move(path)) {}

 private:
  virtual std::string lines_of(const MetricsLine& line) const = 0;
  // Whether a line is one of those that resume_at has not to forget.
  virtual bool is_kept(const std::string& line, std::int64_t step, bool evaluated) const = 0;

  RunLock& lock_;
  std::string path_;
  std::optional<File> file_;
};

// metrics.jsonl
class JsonLinesRecorder final : public LinesRecorder {
 public:
  explicit JsonLinesRecorder(RunLock& lock) : LinesRecorder(lock, lock.run().metrics()) {}

 private:
  std::string lines_of(const MetricsLine& line) const override { return line.json() + "\n"; }
  bool is_kept(const std::string& line, std::int64_t step, bool evaluated) const override;
};

}  // namespace tapestry
