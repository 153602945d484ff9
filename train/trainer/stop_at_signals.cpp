#include "train/trainer/stop_at_signals.hpp"

namespace tapestry {

std::atomic<StopAtSignals*> StopAtSignals::innermost = nullptr;

void StopAtSignals::receive(int signal) {
  for (StopAtSignals* guard = innermost; guard; guard = guard->outer_) guard->stop_ = true;
  if (signal != SIGXCPU) std::signal(signal, SIG_DFL);
}

StopAtSignals::StopAtSignals(std::atomic<bool>& stop) : stop_(stop), outer_(innermost) {
  innermost = this;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = signals[i] == SIGPIPE ? SIG_IGN : receive;
    action.sa_flags = SA_RESTART;
    sigaction(signals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
  }
}

StopAtSignals::~StopAtSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  innermost = outer_;
}

}  // namespace tapestry
