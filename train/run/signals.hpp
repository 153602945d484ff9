#pragma once

#include <csignal>

namespace tapestry {

using SignalHandler = void (*)(int);

// As std::signal, but for a signal that was ignored when the program began, as nohup has SIGHUP: it
// stays ignored. Returns what stood there before.
inline SignalHandler handle_signal(int signal, SignalHandler handler) {
  const SignalHandler before = std::signal(signal, handler);
  if (before == SIG_IGN) std::signal(signal, SIG_IGN);
  return before;
}

}  // namespace tapestry
