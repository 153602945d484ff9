#include "train/run/lines.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/input_file.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

}  // namespace

std::string MetricsLine::json() const {
  Json object{{"step", step}, {"split", split}};
  if (const auto loss = values.find("loss"); loss != values.end()) object["loss"] = loss->second;
  object["elapsed_s"] = elapsed_s;
  for (const auto& [name, value] : values) object[name] = value;
  for (const auto& [name, signature] : signatures) object[name + "_signature"] = signature;
  for (const auto& [name, tensors] : checksums) object[name + "_xxh3"] = combined(tensors);
  if (!baselines.empty()) object["baselines"] = json_of(baselines);
  object.update(more);
  return object.dump();
}

std::string RecordedChecksum::json() const {
  return Json{{"step", step}, {"tensor", tensor}, {"xxh3", checksum}}.dump();
}

std::string KeptSample::json() const {
  return Json{{"step", step}, {"name", name}, {"text", text}}.dump(-1, ' ', false,
                                                                   Json::error_handler_t::replace);
}

Json json_of(const std::vector<Baseline>& baselines) {
  Json object = Json::object();
  for (const Baseline& baseline : baselines)
    for (const auto& [name, value] : baseline.metrics) object[baseline.name][name] = value;
  return object;
}

std::string lines_of(const SplitBaselines& baselines) {
  std::string lines;
  for (const auto& [split, all] : baselines)
    for (const Baseline& baseline : all)
      lines += Json{{"split", split},
                    {"name", baseline.name},
                    {"metrics", json_of({baseline})[baseline.name]}}
                   .dump() +
               "\n";
  return lines;
}

std::optional<Json> parse_metrics_line(std::string_view line) {
  return parse_line(line, [](Json read) {
    read.at("step").integer();
    read.at("split").get<std::string>();
    read.at("elapsed_s").get<double>();
    return read;
  });
}

std::optional<RecordedChecksum> parse_checksum_line(std::string_view line) {
  return parse_line(line, [](const Json& read) {
    return RecordedChecksum{.step = read.at("step").integer(),
                            .tensor = read.at("tensor").get<std::string>(),
                            .checksum = read.at("xxh3").get<std::string>()};
  });
}

std::optional<KeptSample> parse_sample_line(std::string_view line) {
  return parse_line(line, [](const Json& read) {
    return KeptSample{.step = read.at("step").integer(),
                      .name = read.at("name").get<std::string>(),
                      .text = read.at("text").get<std::string>()};
  });
}

std::int64_t step_of(const Json& metrics) { return metrics["step"].get<std::int64_t>(); }

bool is_split(const Json& metrics, std::string_view split) { return metrics["split"] == split; }

MetricsLine shown_metrics(const Json& metrics) {
  constexpr std::string_view signature = "_signature";
  MetricsLine line{.step = step_of(metrics),
                   .split = metrics["split"].get<std::string>(),
                   .values = {},
                   .elapsed_s = metrics["elapsed_s"].get<double>()};
  for (const auto& [name, value] : metrics.items())
    if (value.is_number() && name != "step" && name != "elapsed_s")
      line.values[name] = value.get<double>();
    else if (value.is_string() && name.ends_with(signature))
      line.signatures[name.substr(0, name.size() - signature.size())] = value.get<std::string>();
  return line;
}

LineReader::LineReader(const std::string& path) : path_(path) {
  if (!has_file(path)) return;
  file_.open(path, std::ios::binary);
  record_read(path);
}

bool LineReader::next() {
  text_.clear();
  if (!file_.good()) {  // at the end of the file, which may have grown
    file_.clear();
    file_.seekg(end_);
  }
  std::int64_t bytes = 0;
  for (int byte = file_.get(); file_.good(); byte = file_.get()) {
    ++bytes;
    if (byte == '\n') {
      ++number_;
      end_ += bytes;
      if (bytes > max_bytes + 1) text_.clear();
      return true;
    }
    if (bytes <= max_bytes) text_ += static_cast<char>(byte);
  }
  return false;
}

void LineReader::expect(bool holds, std::string_view what) const {
  expect_input(
      holds,
      "{}:{}: {}: the record is damaged; restore the file, or remove the line in a copy of the run",
      printable(path_), number_, what);
}

Json LineReader::metrics() const {
  std::optional<Json> entry = parse_metrics_line(text_);
  expect(entry.has_value(),
         fmt::format("not a line of metrics: expected an object of at most {} bytes with step, "
                     "split and elapsed_s",
                     max_bytes));
  return *std::move(entry);
}

void LinesFile::open(std::int64_t step, const IsKept& is_kept) {
  std::int64_t kept = 0;
  if (step > 0)
    for (LineReader line(path_); line.next();)
      if (is_kept(line.text())) kept = line.end();
  lock_.expect_in_place();
  const FilePlace place = lock_.place(path_);
  file_.emplace(place, O_WRONLY | O_CREAT | O_APPEND);
  file_->truncate(kept);
  sync_folder_of(place);
}

void LinesFile::sync() {
  lock_.expect_in_place(path_, *file_);
  file_->sync();
}

const Json* RecordedMetrics::front() {
  while (!front_ && reader_.next()) {
    front_ = checked_line();
    if (!is_split(*front_, "test")) break;
    test_ = std::exchange(front_, std::nullopt);
  }
  return front_ ? &*front_ : nullptr;
}

Json RecordedMetrics::take() { return *std::exchange(front_, std::nullopt); }

std::vector<Json> RecordedMetrics::of(std::int64_t step) {
  std::vector<Json> lines;
  while (front() && step_of(*front()) <= step)
    if (Json line = take(); step_of(line) == step) lines.push_back(std::move(line));
  return lines;
}

Json RecordedMetrics::checked_line() {
  Json line = reader_.metrics();
  reader_.expect(!has_duplicate_keys(reader_.text()), "a key occurs twice");
  if (is_split(line, "test")) {
    reader_.expect(test_ != line, "the line occurs twice");
    return line;
  }
  const bool trained = is_split(line, "train");
  reader_.expect(trained || is_split(line, "val"),
                 fmt::format("split \"{}\"; expected train, val or test",
                             printable_beginning(line["split"].get<std::string>())));
  const std::int64_t step = step_of(line), least = std::max<std::int64_t>(trained, last_step_);
  reader_.expect(step >= least && step <= steps_of_run_,
                 fmt::format("step {}; expected {} to {}", step, least, steps_of_run_));
  const bool is_first = step > last_step_;
  reader_.expect(is_first || (!trained && !is_evaluated_),
                 fmt::format("step {} already has a line of this split, or of a later one", step));
  reader_.expect(trained || line.contains("parameters_xxh3"),
                 "the evaluation has no parameters_xxh3");
  is_evaluated_ = !trained;
  last_step_ = step;
  return line;
}

const RecordedChecksum* RecordedChecksums::front() {
  if (front_ || !reader_.next()) return front_ ? &*front_ : nullptr;
  front_ = parse_checksum_line(reader_.text());
  reader_.expect(front_ && !has_duplicate_keys(reader_.text()), "not the checksum of a tensor");
  reader_.expect(front_->step >= step_, "the step is lower than that of the line before");
  if (front_->step > step_) of_step_.clear();
  step_ = front_->step;
  reader_.expect(of_step_.insert(front_->tensor).second, "the tensor occurs twice in this step");
  return &*front_;
}

Checksums RecordedChecksums::of(std::int64_t step) {
  Checksums checksums;
  for (; front() && front_->step <= step; front_.reset())
    if (front_->step == step) checksums[front_->tensor] = front_->checksum;
  return checksums;
}

SplitBaselines read_baselines(const Run& run) {
  SplitBaselines baselines;
  for (LineReader line(run.baselines()); line.next();) {
    auto read = parse_line(line.text(), [](const Json& object) {
      Baseline baseline{.name = object.at("name").get<std::string>()};
      for (const auto& [name, value] : object.at("metrics").items())
        baseline.metrics[name] = value.get<double>();
      return std::pair(object.at("split").get<std::string>(), std::move(baseline));
    });
    if (read && read->second.metrics.contains("loss"))
      baselines[read->first].push_back(std::move(read->second));
  }
  return baselines;
}

std::vector<KeptSample> read_samples(const Run& run) {
  constexpr std::size_t most = 200;
  std::vector<KeptSample> samples;
  for (LineReader line(run.samples()); line.next();) {
    if (auto sample = parse_sample_line(line.text())) samples.push_back(*std::move(sample));
    if (samples.size() > most) samples.erase(samples.begin());
  }
  return samples;
}

}  // namespace tapestry
