#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace tapestry {

// A guard under which the first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGXCPU sets `stop` instead of
// ending the process, and SIGPIPE is ignored. A second signal ends the process, except for SIGXCPU,
// which is sent each second above the limit on CPU time. Signals that are ignored remain so, as
// nohup ignores SIGHUP. The handlers from before are restored at the end. Guards must nest; a
// signal sets the flags of all.
class StopAtSignals final {
 public:
  explicit StopAtSignals(std::atomic<bool>& stop);
  ~StopAtSignals();
  StopAtSignals(const StopAtSignals&) = delete;
  StopAtSignals& operator=(const StopAtSignals&) = delete;

 private:
  static constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU, SIGPIPE};
  static std::atomic<StopAtSignals*> innermost;
  static void receive(int signal);

  std::atomic<bool>& stop_;
  StopAtSignals* outer_;
  std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace tapestry
