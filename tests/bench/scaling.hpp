#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/profile.hpp"
#include "train/measure/step_speed.hpp"

// How much more threads than this machine has could gain, from the time of each piece on one
// thread. An upper bound: it leaves out what threads cost each other (memory, caches, wake-ups).
namespace tapestry {

// The time of one op, or of another part of a step, on one thread.
struct Part {
  std::string name;
  profile::Phase phase = profile::Phase::step;
  double serial_s = 0;                     // outside loops
  std::vector<std::vector<double>> loops;  // seconds of the pieces of each parallel_for
};

// Returns the seconds until the last of `threads` threads has finished a loop. Each takes the
// pieces of its own share in order, then those that are left of the next shares, as parallel_for
// does.
double longest_thread(const std::vector<double>& pieces, int threads);

double seconds_of(const Part& part, int threads);

// Returns the speed of a workload's step. Within parts_of_step it only repeats the step, marks each
// in the profile, and measures no peaks.
StepSpeed measure_steps(const std::function<void()>& step, const TimingOptions& options = {});

// Returns the parts of one step of a workload, cut for so many threads and run on one: of each, the
// least time of several steps. `measure` runs the workload through measure_steps.
std::vector<Part> parts_of_step(int threads, const std::function<void()>& measure);

// Returns a line for 1, 2, 4, … 64 threads, each of a step cut for that many, and the ops that take
// longest on 64.
std::string scaling_table(const std::function<std::vector<Part>(int threads)>& step_for);

}  // namespace tapestry
