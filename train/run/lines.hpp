#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/json.hpp"
#include "train/run/run_lock.hpp"
#include "train/task.hpp"

// The files of a run with one JSON object per line: metrics.jsonl, checksums.jsonl, samples.jsonl,
// baselines.jsonl and sessions.jsonl (session.hpp).
namespace tapestry {

// A line of metrics.jsonl: the metrics of one split at one step.
struct MetricsLine {
  std::int64_t step = 0;
  std::string split;  // "train", "val" or "test"
  Metrics values;
  double elapsed_s = 0;
  Signatures signatures{};
  std::map<std::string, Checksums> checksums{};  // of the evaluated tensors, by kind
  std::vector<Baseline> baselines{};
  JsonValue more = JsonValue::object();  // further members of the object

  // Returns the JSON object: step, split, loss and elapsed_s, then the other metrics by
  // name, signatures as "bleu_signature" and the like, a combined checksum per kind as
  // "parameters_xxh3" and the like, and the metrics of baselines, if there are any, by name in
  // "baselines".
  std::string json() const;
};

// A line of checksums.jsonl: the checksum of a tensor at an evaluation.
struct RecordedChecksum {
  std::int64_t step = 0;
  std::string tensor{}, checksum{};

  std::string json() const;
};

// A line of samples.jsonl: text that the model generated at an evaluation.
struct KeptSample {
  std::int64_t step = 0;
  std::string name{}, text{};

  std::string json() const;
};

// The baselines of a run by split, "test" before "val"; baselines.jsonl has a line for each. A run
// is compared with those of the first split.
using SplitBaselines = std::map<std::string, std::vector<Baseline>>;
std::string lines_of(const SplitBaselines& baselines);
JsonValue json_of(const std::vector<Baseline>& baselines);  // their metrics by name

// A reader of the lines of a file in bounded memory, also while the file grows. A last line without
// its line end is still being written and is not returned.
class LineReader {
 public:
  static constexpr std::int64_t max_bytes = 1 << 14;  // maximum size of a line

  // Opens a file; a missing file has no lines. Throws InputError if the path is not a regular file.
  explicit LineReader(const std::string& path);

  bool next();  // reads the next line; returns false if there is none yet
  const std::string& text() const { return text_; }  // empty if the line exceeds max_bytes
  std::int64_t end() const { return end_; }  // byte offset of the end of this line in the file

  // Throws InputError that names the line and the reason `what` unless `holds`.
  void expect(bool holds, std::string_view what) const;
  // Returns parse_metrics_line() of this line. Throws InputError if the line is damaged.
  JsonValue metrics() const;

 private:
  std::string path_;
  std::ifstream file_;
  std::string text_;
  std::int64_t number_ = 0, end_ = 0;
};

// Returns `read` of the JSON value of a line. Returns nothing if the line is damaged: it exceeds
// LineReader::max_bytes, is nested too deeply, or lacks a field that `read` expects.
template <class Read>
auto parse_line(std::string_view line, const Read& read)
    -> std::optional<decltype(read(JsonValue()))> {
  if (std::ssize(line) > LineReader::max_bytes || json_depth(line) > max_json_depth)
    return std::nullopt;
  try {
    return read(JsonValue::parse(line));
  } catch (const JsonValue::exception&) {
    return std::nullopt;
  }
}

// Return the parsed line, or nothing if it is damaged. A line of metrics must have step, split and
// elapsed_s.
std::optional<JsonValue> parse_metrics_line(std::string_view line);
std::optional<RecordedChecksum> parse_checksum_line(std::string_view line);
std::optional<KeptSample> parse_sample_line(std::string_view line);

// Return parts of what parse_metrics_line() returned.
std::int64_t step_of(const JsonValue& metrics);
bool is_split(const JsonValue& metrics, std::string_view split);
MetricsLine shown_metrics(const JsonValue& metrics);  // leaves out checksums

// A file of a run to which lines are appended during the training.
class LinesFile final {
 public:
  // `path` must be a file of the run that the lock holds. The lock must outlive this object.
  LinesFile(RunLock& lock, std::string path) : lock_(lock), path_(std::move(path)) {}

  // Opens the file and truncates it after the last line that `is_kept` accepts, or to no lines if
  // the run begins (step 0). Does not remove damaged lines before it. Throws FolderLost as
  // RunLock::expect_in_place() does, and FileError.
  using IsKept = std::function<bool(const std::string& line)>;
  void open(std::int64_t step, const IsKept& is_kept);

  void write(const std::string& lines) { file_->write(lines); }
  // Returns when the lines are on disk. Throws as open() does, and FolderLost if the file was
  // removed or replaced.
  void sync();

 private:
  RunLock& lock_;
  std::string path_;
  std::optional<File> file_;
};

// The lines of metrics.jsonl in the order in which a training writes them, each once. All functions
// throw InputError for a line that is damaged or out of this order. The line of the test split
// comes last and is stored separately.
class RecordedMetrics {
 public:
  RecordedMetrics(const Run& run, std::int64_t steps_of_run)
      : reader_(run.metrics()), steps_of_run_(steps_of_run) {}

  // Returns the next line, or null if there is none.
  const JsonValue* front();
  JsonValue take();  // returns and consumes the line of front(), which must not be null
  // Returns the lines of `step`. Steps must be requested in ascending order.
  std::vector<JsonValue> of(std::int64_t step);

  // Returns the last line of the test split read so far.
  const std::optional<JsonValue>& test() const { return test_; }

 private:
  JsonValue checked_line();

  LineReader reader_;
  std::int64_t steps_of_run_, last_step_ = 0;
  bool is_evaluated_ = false;  // the last step has an evaluation
  std::optional<JsonValue> front_, test_;
};

// The lines of checksums.jsonl. All functions throw InputError if a line is damaged, if steps
// decrease, or if a step has a tensor twice.
class RecordedChecksums {
 public:
  explicit RecordedChecksums(const Run& run) : reader_(run.checksums()) {}

  const RecordedChecksum* front();  // returns the next line, or null if there is none
  // Returns the checksums of `step` by tensor. Steps must be requested in ascending order.
  Checksums of(std::int64_t step);

 private:
  LineReader reader_;
  std::optional<RecordedChecksum> front_;
  std::int64_t step_ = 0;            // step of the previous line
  std::set<std::string> of_step_{};  // tensors of this step
};

// Returns the baselines that a training recorded at its end, without damaged lines; empty for a run
// that did not end, has none, or is of an earlier version.
SplitBaselines read_baselines(const Run& run);

// Returns the last 200 samples of a run, without damaged lines.
std::vector<KeptSample> read_samples(const Run& run);

}  // namespace tapestry
