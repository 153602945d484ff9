#include "autograd/profile.hpp"

#include <atomic>
#include <chrono>
#include <utility>

namespace tapestry::profile {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> on = false;
std::vector<Event> events;
Clock::time_point last_mark;
double flops_since_mark = 0;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

Clock::time_point first_start() {
  static const Clock::time_point first = Clock::now();
  return first;
}

}  // namespace

void start() {
  first_start();
  flops_since_mark = 0;
  last_mark = Clock::now();
  on = true;
}

std::vector<Event> stop() {
  on = false;
  return std::exchange(events, {});
}

bool is_on() { return on; }

void mark(Phase phase, const char* name, const std::string* scope, double bytes) {
  if (!on) return;
  const Clock::time_point now = Clock::now();
  events.push_back({.name = name,
                    .scope = scope ? *scope : "",
                    .phase = phase,
                    .start_s = seconds(last_mark - first_start()),
                    .duration_s = seconds(now - last_mark),
                    .flops = flops_since_mark,
                    .bytes = bytes});
  flops_since_mark = 0;
  last_mark = now;
}

void add_flops(double flops) {
  if (on) flops_since_mark += flops;
}

}  // namespace tapestry::profile
