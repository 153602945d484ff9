#include <fcntl.h>

#include <deque>
#include <iterator>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "train/config/keys.hpp"
#include "train/run/line_reader.hpp"
#include "train/trainer/callbacks/callbacks.hpp"
#include "train/trainer/callbacks/inspection_budget.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr std::size_t most_kept_text =
    2000;  // bytes of a sample, escaped at most six times as many
constexpr std::size_t most_read = 200;

std::string line_of(const KeptSample& sample) {
  const Json line = {{"step", sample.step}, {"name", sample.name}, {"text", sample.text}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<KeptSample> parsed(const std::string& line) try {
  const Json read = Json::parse(line);
  return KeptSample{.step = read.at("step").get_ref<const std::int64_t&>(),
                    .name = read.at("name").get<std::string>(),
                    .text = read.at("text").get<std::string>()};
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace

bool InspectionBudget::allows_one() const {
  constexpr double share = 0.01;
  return spent_s_ == 0 || spent_s_ <= share * (now_s() - started_s_);
}

Sample sample_now(const Config& config, Task& task, std::size_t most_bytes) {
  Sample sample = spec_of(config).samples.show(task);
  if (sample.stream)
    sample.stream([&](std::string_view piece) {
      if (sample.text.size() < most_bytes) sample.text += piece;
    });
  if (sample.text.size() > most_bytes)
    sample.text.resize(character_before(sample.text, most_bytes + 1));
  return sample;
}

namespace {

class SamplesFile final : public Callback {
 public:
  SamplesFile(RunLock& lock, Task& task, const Config& config)
      : lock_(lock), task_(task), config_(config) {}

  void on_begin(std::int64_t step, bool) override {
    const std::string path = lock_.run().samples();
    std::string kept;
    if (step > 0)
      for (LineReader line(path); line.next();)
        if (const auto sample = parsed(line.text()); sample && sample->step <= step)
          kept += line.text() + "\n";
    lock_.replace(path, {kept});
    file_.emplace(lock_.place(path), O_WRONLY | O_APPEND);
  }
  // A model that diverges may fail to make a sample in any way: that does not end its training.
  void on_evaluation(std::int64_t step) override try {
    if (!budget_.allows_one()) return;
    budget_.spend_on([&] {
      const Sample sample = sample_now(config_, task_, most_kept_text);
      if (!sample.text.empty() && !sample.figure)
        file_->write(line_of({.step = step, .name = sample.name, .text = sample.text}));
    });
  } catch (const FileError&) {  // of the disk, not of the model
    throw;
  } catch (const std::exception&) {
    return;
  }
  void on_checkpoint() override { file_->sync(); }

 private:
  RunLock& lock_;
  Task& task_;
  const Config& config_;
  std::optional<File> file_;
  InspectionBudget budget_;
};

}  // namespace

std::unique_ptr<Callback> record_samples(RunLock& lock, Task& task, const Config& config) {
  return std::make_unique<SamplesFile>(lock, task, config);
}

std::vector<KeptSample> read_samples(const Run& run) {
  std::deque<KeptSample> samples;
  for (LineReader line(run.samples()); line.next();) {
    if (auto sample = parsed(line.text())) samples.push_back(std::move(*sample));
    if (samples.size() > most_read) samples.pop_front();
  }
  return {std::make_move_iterator(samples.begin()), std::make_move_iterator(samples.end())};
}

}  // namespace tapestry
