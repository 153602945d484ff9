#include "autograd/profile.hpp"

#include <atomic>
#include <chrono>
#include <utility>

namespace tapestry::profile {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> on = false, on_loops = false;
std::vector<Event> events;
Clock::time_point last_mark;
std::vector<std::vector<double>> loops_since_mark;
std::atomic<double> flops_since_mark = 0;  // products run on many threads

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

Clock::time_point first_start() {
  static const Clock::time_point first = Clock::now();
  return first;
}

}  // namespace

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::step:
      return "step";
  }
  return "";
}

void start(Keep keep) {
  first_start();
  flops_since_mark = 0;
  loops_since_mark.clear();
  last_mark = Clock::now();
  on_loops = keep == Keep::loops;
  on = true;
}

std::vector<Event> stop() {
  on = on_loops = false;
  return std::exchange(events, {});
}

bool is_on() { return on; }
bool keeps_loops() { return on_loops; }

void mark(Phase phase, const char* name, const std::string* scope, double bytes) {
  if (!on) return;
  const Clock::time_point now = Clock::now();
  events.push_back({.name = name,
                    .scope = scope ? *scope : "",
                    .phase = phase,
                    .start_s = seconds(last_mark - first_start()),
                    .duration_s = seconds(now - last_mark),
                    .flops = flops_since_mark,
                    .bytes = bytes,
                    .loops = std::exchange(loops_since_mark, {})});
  flops_since_mark = 0;
  last_mark = now;
}

void add_flops(double flops) {
  if (on) flops_since_mark += flops;
}

void add_loop(std::vector<double> pieces) { loops_since_mark.push_back(std::move(pieces)); }

}  // namespace tapestry::profile
