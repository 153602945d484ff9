#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/profile.hpp"

// What more threads than this machine may have would gain, from the pieces that one thread takes.
// Nothing is known here of what threads cost each other: their memory, their caches, their waking.
namespace tapestry {

// What one op, or another part of a step, does on one thread.
struct Part {
  std::string name;
  profile::Phase phase = profile::Phase::step;
  double serial_s = 0;                     // outside loops
  std::vector<std::vector<double>> loops;  // seconds of the pieces of each parallel_for
};

// Seconds until the last of so many threads is done with a loop. Each takes the pieces of its own
// share in order and then those that are left of the next ones, as the pool of parallel_for does.
double longest_thread(const std::vector<double>& pieces, int threads);

double seconds_of(const Part& part, int threads);

// The parts of one step of a workload, cut for so many threads and run on one, each at the least of
// what it took in several steps. `measure` runs the workload, by time_steps.
std::vector<Part> parts_of_step(int threads, const std::function<void()>& measure);

// A line for 1, 2, 4, … 64 threads, of a step that is cut for as many each; and the ops that take
// the longest on 64.
std::string scaling_table(const std::function<std::vector<Part>(int threads)>& step_for);

}  // namespace tapestry
