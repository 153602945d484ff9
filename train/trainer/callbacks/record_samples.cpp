#include "data/input_file.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/values.hpp"
#include "train/run/lines.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {

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

// Maximum size of a sample in bytes. Escapes make it at most six times as large.
constexpr std::size_t most_kept_text = 2000;

class SamplesFile final : public Callback {
 public:
  SamplesFile(RunLock& lock, Task& task, const Config& config)
      : task_(task), config_(config), file_(lock, lock.run().samples()) {}

  void on_begin(std::int64_t step, bool) override {
    file_.open(step, [&](const std::string& line) {
      const auto sample = parse_sample_line(line);
      return sample && sample->step <= step;
    });
  }
  // Records samples. Exceptions do not end the training, because a model that diverges may fail in
  // any way.
  void before_evaluation(std::int64_t step) override try {
    if (!budget_.allows_one()) return;
    budget_.spend_on([&] {
      const Sample sample = sample_now(config_, task_, most_kept_text);
      if (!sample.text.empty() && !sample.figure)
        file_.write(KeptSample{step, sample.name, sample.text}.json() + "\n");
    });
  } catch (const FileError&) {  // an error of the disk, not of the model
    throw;
  } catch (const std::exception&) {
    return;
  }
  void on_checkpoint() override { file_.sync(); }

 private:
  Task& task_;
  const Config& config_;
  LinesFile file_;
  InspectionBudget budget_;
};

}  // namespace

std::unique_ptr<Callback> record_samples(RunLock& lock, Task& task, const Config& config) {
  return std::make_unique<SamplesFile>(lock, task, config);
}

}  // namespace tapestry
