#include "train/run/lines.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

class MetricsFile final : public Callback {
 public:
  explicit MetricsFile(RunLock& lock) : file_(lock, lock.run().metrics()) {}

  // Keeps the lines up to `step`, but the evaluation of `step` itself only if it is not repeated.
  // The evaluation of the test split at the end is always repeated.
  void on_begin(std::int64_t step, bool evaluated) override {
    file_.open(step, [&](const std::string& line) {
      const auto entry = parse_metrics_line(line);
      if (!entry || is_split(*entry, "test")) return false;
      const std::int64_t own = step_of(*entry);
      return own < step || (own == step && (evaluated || is_split(*entry, "train")));
    });
  }
  void on_metrics(const MetricsLine& line) override { file_.write(line.json() + "\n"); }
  void on_checkpoint() override { file_.sync(); }

 private:
  LinesFile file_;
};

class ChecksumsFile final : public Callback {
 public:
  explicit ChecksumsFile(RunLock& lock) : file_(lock, lock.run().checksums()) {}

  void on_begin(std::int64_t step, bool evaluated) override {
    file_.open(step, [&](const std::string& line) {
      const auto entry = parse_checksum_line(line);
      return entry && entry->step >= 0 && entry->step < step + evaluated;
    });
  }
  void on_metrics(const MetricsLine& line) override {
    std::string lines;
    for (const auto& [name, tensors] : line.checksums)
      for (const auto& [tensor, checksum] : tensors)
        lines += RecordedChecksum{line.step, tensor, checksum}.json() + "\n";
    if (!lines.empty()) file_.write(lines);
  }
  void on_checkpoint() override { file_.sync(); }

 private:
  LinesFile file_;
};

}  // namespace

std::unique_ptr<Callback> record_metrics(RunLock& lock) {
  return std::make_unique<MetricsFile>(lock);
}

std::unique_ptr<Callback> record_checksums(RunLock& lock) {
  return std::make_unique<ChecksumsFile>(lock);
}

}  // namespace tapestry
