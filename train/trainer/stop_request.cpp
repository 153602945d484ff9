#include "train/trainer/stop_request.hpp"

#include <csignal>

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

void stop_at_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) handle_signal(signal, request_stop);
  std::signal(SIGPIPE, SIG_IGN);  // what cannot be shown ends no training
}

}  // namespace tapestry
