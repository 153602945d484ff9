#include "tests/bench/time_to_loss.hpp"

#include <filesystem>

#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/run/new_folder.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/trainer.hpp"
#include "train/trainer/training.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

Config with_data(const std::string& config, const std::string& data, std::int64_t threads) {
  std::vector<std::string> overrides{fmt::format("{}={}", key::threads.name, threads)};
  const std::string name = load_config(config, {})[key::expected_data];
  if (!name.empty() && name != "built-in")
    overrides.push_back(
        fmt::format("{}={}", key::data_path.name, (fs::path(data) / name).string()));
  return load_config(config, overrides);
}

// Ends a training whose validation loss reaches the goal, and records steps and seconds.
class UntilLoss final : public Callback {
 public:
  UntilLoss(double goal, double before_s, TimeToLoss& result)
      : goal_(goal), before_s_(before_s), result_(result) {}
  void on_metrics(const MetricsLine& line) override {
    if (line.split != "val" || result_.reached) return;
    result_.seconds = process_age_s() - before_s_;
    result_.loss = line.values.at("loss");
    result_.steps = line.step;
    ++result_.evaluations;
    result_.reached = result_.loss <= goal_;
  }
  bool ends_training() const override { return result_.reached; }

 private:
  double goal_, before_s_;
  TimeToLoss& result_;
};

}  // namespace

const std::map<std::string, double>& goals() {
  static const std::map<std::string, double> all = {
      {"clothes-vae", 241.5}, {"cora", 0.82}, {"karate", 0.5}, {"shakespeare-char", 1.90}};
  return all;
}

TimeToLoss time_to_loss(const std::string& name, const std::string& data, std::int64_t threads) {
  static const double start_up_s = process_age_s();
  const double before_s = process_age_s() - start_up_s;  // of earlier trainings
  TimeToLoss result;
  UntilLoss until(goals().at(name), before_s, result);
  const Config config = with_data(name, data, threads);
  use_machine_as(config);
  const ScratchFolder folder("bench");
  const Run run(folder.path() + "/run");
  result.stopped = train_into(run, config, {.quiet = true, .callbacks = {&until}}).metrics.empty();
  return result;
}

}  // namespace tapestry
