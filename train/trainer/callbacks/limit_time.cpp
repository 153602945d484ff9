#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "train/config/keys.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

class TimeLimit final : public Callback {
 public:
  TimeLimit(const Config& config, const TrainingState& state, std::atomic<bool>& stop, Log log,
            std::optional<double> started_s)
      : minutes_(config[key::time_limit]),
        steps_(config[key::steps]),
        state_(state),
        stop_(stop),
        log_(std::move(log)),
        started_s_(started_s) {}

  void on_begin(std::int64_t, bool) override {
    if (minutes_ == 0) return;
    const std::chrono::duration<double> left(60 * minutes_ + started_s_.value_or(now_s()) -
                                             now_s());
    has_passed_ = false;
    if (left.count() <= 0) end();
    timer_ = std::jthread([this, left](const std::stop_token& ended) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait_for(lock, ended, left, [] { return false; });
      if (!ended.stop_requested()) end();
    });
  }
  void on_end() override {
    timer_ = {};
    if (has_passed_ && (state_.step < steps_ || state_.evaluation_due))
      log_(fmt::format("ends after step {}: {} = {:.3g} minutes have passed\n", state_.step,
                       key::time_limit.name, minutes_));
  }

 private:
  void end() { has_passed_ = stop_ = true; }

  double minutes_;
  std::int64_t steps_;
  const TrainingState& state_;
  std::atomic<bool>& stop_;
  Log log_;
  std::optional<double> started_s_;
  std::atomic<bool> has_passed_ = false;
  std::jthread timer_;
};

}  // namespace

std::unique_ptr<Callback> limit_time(const Config& config, const TrainingState& state,
                                     std::atomic<bool>& stop, Log log,
                                     std::optional<double> started_s) {
  return std::make_unique<TimeLimit>(config, state, stop, std::move(log), started_s);
}

}  // namespace tapestry
