#pragma once

#include <atomic>

// Ends a training early, with a checkpoint.
namespace tapestry {

extern std::atomic<bool> stop_requested;  // by a signal or the time limit; a trainer looks at it

// Makes SIGINT, SIGTERM, SIGHUP and SIGUSR1 request a stop. A second one kills as usual. SIGPIPE is
// ignored: output that cannot be shown ends no training.
void stop_at_signals();

}  // namespace tapestry
