#include "train/trainer/stop_request.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>

#include "train/measure/machine.hpp"
#include "train/run/signals.hpp"

namespace tapestry {

std::atomic<bool> stop_requested = false;

namespace {

// The first signal ends the step and writes a checkpoint; a second one kills as usual.
void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

std::jthread stop_after(double minutes) {
  if (minutes == 0) return {};
  const std::chrono::duration<double> left(60 * minutes - process_age_s());
  if (left.count() <= 0) stop_requested = true;
  return std::jthread([left](const std::stop_token& ended) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, ended, left, [] { return false; });
    if (!ended.stop_requested()) stop_requested = true;
  });
}

void stop_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) handle_signal(signal, request_stop);
  std::signal(SIGPIPE, SIG_IGN);  // what cannot be shown ends no training
}

}  // namespace tapestry
