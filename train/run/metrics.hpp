#pragma once

#include <cstdio>
#include <string>

#include "train/task.hpp"

namespace tapestry {

// What is measured at one step, as one JSON object.
struct MetricsLine {
  std::int64_t step = 0;
  std::string split;  // "train" or "val"
  Metrics values;
  double elapsed_s = 0;

  std::string json() const;  // step, split, loss, elapsed_s, then the rest by name
};

// metrics.jsonl, flushed a line at a time.
class MetricsFile {
 public:
  // Keeps the first `bytes` of an earlier file: what its checkpoint had seen.
  MetricsFile(const std::string& path, std::int64_t bytes);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const MetricsLine& line);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  std::FILE* file_;
  std::int64_t bytes_;
};

Metrics values_of(const Averages& averages);

// Over runs that measured the same figures, at least one: the mean of each figure, and the standard
// deviation of a single run, √(Σ (x - mean)² / (n - 1)), 0 of one run.
Metrics mean_of(const std::vector<Metrics>& runs);
Metrics deviation_of(const std::vector<Metrics>& runs);

}  // namespace tapestry
