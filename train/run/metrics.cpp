#include "train/run/metrics.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace tapestry {

std::string MetricsLine::json() const {
  nlohmann::ordered_json object{{"step", step}, {"split", split}};
  if (const auto loss = values.find("loss"); loss != values.end()) object["loss"] = loss->second;
  object["elapsed_s"] = elapsed_s;
  for (const auto& [name, value] : values) object[name] = value;
  return object.dump();
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t bytes) : path_(path), bytes_(bytes) {
  namespace fs = std::filesystem;
  if (fs::exists(path)) {
    const auto size = static_cast<std::int64_t>(fs::file_size(path));
    bytes_ = std::min(bytes, size);
    fs::resize_file(path, static_cast<std::uintmax_t>(bytes_));
  } else {
    bytes_ = 0;
  }
  file_ = std::fopen(path.c_str(), "a");
  if (!file_)
    throw std::runtime_error(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
}

MetricsFile::~MetricsFile() { std::fclose(file_); }

void MetricsFile::write(const MetricsLine& line) {
  const std::string text = line.json() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    throw std::runtime_error(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  bytes_ += std::ssize(text);
}

Metrics values_of(const Averages& averages) {
  Metrics values;
  for (const auto& [name, average] : averages) values[name] = average.value();
  return values;
}

Metrics mean_of(const std::vector<Metrics>& runs) {
  Metrics means;
  for (const Metrics& run : runs)
    for (const auto& [name, value] : run) means[name] += value / static_cast<double>(runs.size());
  return means;
}

Metrics deviation_of(const std::vector<Metrics>& runs) {
  const Metrics means = mean_of(runs);
  Metrics deviations;
  for (const Metrics& run : runs)
    for (const auto& [name, value] : run) deviations[name] += std::pow(value - means.at(name), 2);
  for (auto& [name, squares] : deviations)
    squares = std::sqrt(squares / std::max(1.0, static_cast<double>(runs.size()) - 1));
  return deviations;
}

}  // namespace tapestry
