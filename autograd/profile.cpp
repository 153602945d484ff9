#include "autograd/profile.hpp"

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "autograd/clock.hpp"

namespace tapestry::profile {
namespace {

std::atomic<std::thread::id> recorder{};  // the thread that records; none: std::thread::id()
std::vector<Event> events;
double last_mark_s = 0;
std::atomic<double> flops_since_mark = 0;  // atomic: several threads add to it

double first_start_s() {
  static const double first = now_s();
  return first;
}

}  // namespace

const char* to_string(Phase phase) {
  constexpr std::array names{"forward", "backward", "step"};
  return names[static_cast<std::size_t>(phase)];
}

void start() {
  first_start_s();
  flops_since_mark = 0;
  last_mark_s = now_s();
  recorder = std::this_thread::get_id();
}

std::vector<Event> stop() {
  recorder = std::thread::id();
  return std::exchange(events, {});
}

bool is_on() { return recorder.load() == std::this_thread::get_id(); }

std::vector<Event> events_of(const std::function<void()>& act) {
  start();
  try {
    act();
  } catch (...) {
    stop();
    throw;
  }
  return stop();
}

void mark(Phase phase, const char* name, const std::string* scope, double bytes) {
  if (!is_on()) return;
  const double now = now_s();
  events.push_back({.name = name,
                    .scope = scope ? *scope : "",
                    .phase = phase,
                    .start_s = last_mark_s - first_start_s(),
                    .duration_s = now - last_mark_s,
                    .flops = flops_since_mark,
                    .bytes = bytes});
  flops_since_mark = 0;
  last_mark_s = now;
}

void add_flops(double flops) {
  if (recorder.load() != std::thread::id()) flops_since_mark += flops;
}

}  // namespace tapestry::profile
