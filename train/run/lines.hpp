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

// The files of a run that grow line by line, each line a JSON object: metrics.jsonl,
// checksums.jsonl, samples.jsonl and sessions.jsonl (session.hpp).
namespace tapestry {

// A line of metrics.jsonl: what was measured at one step.
struct MetricsLine {
  std::int64_t step = 0;
  std::string split;  // "train", "val" or "test"
  Metrics values;
  double elapsed_s = 0;
  Signatures signatures{};
  std::map<std::string, Checksums> checksums{};  // checksums of the evaluated tensors, by kind

  // Returns step, split, loss, elapsed_s, then the rest by name; a signature as "bleu_signature",
  // checksums together as "parameters_xxh3".
  std::string json() const;
};

// A line of checksums.jsonl: the checksum of a tensor that was evaluated.
struct RecordedChecksum {
  std::int64_t step = 0;
  std::string tensor{}, checksum{};

  std::string json() const;
};

// A line of samples.jsonl: what the model wrote at an evaluation.
struct KeptSample {
  std::int64_t step = 0;
  std::string name{}, text{};

  std::string json() const;
};

// Reads the lines of a file one at a time, in bounded memory, also while the file grows. A last
// line without its end is still being written, and is not returned.
class LineReader {
 public:
  static constexpr std::int64_t max_bytes = 1 << 14;  // largest size of a line

  // A missing file has no lines. Throws InputError if the path is not a file, such as a pipe.
  explicit LineReader(const std::string& path);

  bool next();  // returns false if there is no further line yet
  const std::string& text() const { return text_; }  // empty if it is longer than max_bytes
  std::int64_t end() const { return end_; }          // bytes of the file up to the end of this line

  // Throws InputError, which names the line, says what is wrong, and that the record is damaged.
  void expect(bool holds, std::string_view what) const;
  // Returns what parse_metrics_line does. Throws the same of a damaged line.
  JsonValue metrics() const;

 private:
  std::string path_;
  std::ifstream file_;
  std::string text_;
  std::int64_t number_ = 0, end_ = 0;
};

// Returns what `read` makes of a line's JSON value; nothing if the line is damaged: it is longer
// than LineReader::max_bytes, nests too deeply, or `read` misses something in it.
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

// Do the same for the lines of these files. One of metrics has step, split and elapsed_s.
std::optional<JsonValue> parse_metrics_line(std::string_view line);
std::optional<RecordedChecksum> parse_checksum_line(std::string_view line);
std::optional<KeptSample> parse_sample_line(std::string_view line);

// Return what parse_metrics_line does, and what of it can be shown.
std::int64_t step_of(const JsonValue& metrics);
bool is_split(const JsonValue& metrics, std::string_view split);
MetricsLine shown_metrics(const JsonValue& metrics);  // without checksums

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

// The lines of metrics.jsonl as evidence: in the order in which a training writes them, each once.
// Throws InputError for any other line. A test's line, which comes last, is kept apart.
class RecordedMetrics {
 public:
  RecordedMetrics(const Run& run, std::int64_t steps_of_run)
      : reader_(run.metrics()), steps_of_run_(steps_of_run) {}

  // Returns the first line that was not taken, or null if there is none.
  const JsonValue* front();
  JsonValue take();
  // Returns the lines of `step`. Steps must be requested in ascending order.
  std::vector<JsonValue> of(std::int64_t step);

  // Returns the last test that was read so far.
  const std::optional<JsonValue>& test() const { return test_; }

 private:
  JsonValue checked_line();

  LineReader reader_;
  std::int64_t steps_of_run_, last_step_ = 0;
  bool is_evaluated_ = false;  // the last step has an evaluation
  std::optional<JsonValue> front_, test_;
};

// Checks the order of checksums.jsonl: steps never decrease, and each has a tensor once.
class RecordedChecksums {
 public:
  explicit RecordedChecksums(const Run& run) : reader_(run.checksums()) {}

  const RecordedChecksum* front();
  Checksums of(std::int64_t step);

 private:
  LineReader reader_;
  std::optional<RecordedChecksum> front_;
  std::int64_t step_ = 0;            // step of the previous line,
  std::set<std::string> of_step_{};  // and its tensors
};

// Returns the latest 200 samples of a run. Damaged lines are left out.
std::vector<KeptSample> read_samples(const Run& run);

}  // namespace tapestry
