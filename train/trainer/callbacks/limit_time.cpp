#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "train/trainer/callbacks/callbacks.hpp"

namespace tapestry {
namespace {

class TimeLimit final : public Callback {
 public:
  TimeLimit(double minutes, std::atomic<bool>& stop, std::optional<double> started_s)
      : minutes_(minutes), stop_(stop), started_s_(started_s) {}

  void on_begin(std::int64_t, bool) override {
    if (minutes_ == 0) return;
    const std::chrono::duration<double> left(60 * minutes_ + started_s_.value_or(now_s()) -
                                             now_s());
    if (left.count() <= 0) stop_ = true;
    timer_ = std::jthread([this, left](const std::stop_token& ended) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait_for(lock, ended, left, [] { return false; });
      if (!ended.stop_requested()) stop_ = true;
    });
  }
  void on_end() override { timer_ = {}; }

 private:
  double minutes_;
  std::atomic<bool>& stop_;
  std::optional<double> started_s_;
  std::jthread timer_;
};

}  // namespace

std::unique_ptr<Callback> limit_time(double minutes, std::atomic<bool>& stop,
                                     std::optional<double> started_s) {
  return std::make_unique<TimeLimit>(minutes, stop, started_s);
}

}  // namespace tapestry
