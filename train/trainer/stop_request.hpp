#pragma once

#include <atomic>
#include <thread>

// Ends a training early, with a checkpoint: by a signal, or by train.time_limit.
namespace tapestry {

extern std::atomic<bool> stop_requested;  // by a signal or the time limit; a trainer looks at it

// Makes SIGINT, SIGTERM, SIGHUP and SIGUSR1 request a stop. A second one kills as usual. SIGPIPE is
// ignored: output that cannot be shown ends no training.
void stop_at_signals();

// Requests a stop once the process has run for `minutes`, unless the thread is destroyed before; 0:
// never.
std::jthread stop_after(double minutes);

}  // namespace tapestry
