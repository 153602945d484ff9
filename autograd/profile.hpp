#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// A profile of training steps: the timeline of the computing thread, cut into events at the end of
// each op, pullback and phase of the step. Events never overlap and leave no gaps.
namespace tapestry::profile {

enum class Phase { forward, backward, step };  // step: outside of ops, such as the optimizer
const char* to_string(Phase phase);

struct Event {
  std::string name;   // name of the op: "linear"
  std::string scope;  // path of the module: "blocks.0.attention.output"; may be empty
  Phase phase = Phase::step;
  double start_s = 0, duration_s = 0;  // seconds; the start counts from the first start()
  double flops = 0;                    // floating-point operations of products and attention
  double bytes = 0;                    // size of operands and results, each counted once
};

// Starts to record the events of this thread; those of others, which prepare batches, are not part
// of the timeline.
void start();
// Stops recording and returns the events.
std::vector<Event> stop();
bool is_on();  // returns whether this thread records
// Returns the events of this thread while `act` runs; it stops recording also if `act` throws.
std::vector<Event> events_of(const std::function<void()>& act);

// Ends an event, which began at the last mark or at start(). Does nothing unless recording. `scope`
// may be null.
void mark(Phase phase, const char* name, const std::string* scope, double bytes);

// Adds floating-point operations to the event that the next mark ends. For kernels.
void add_flops(double flops);

}  // namespace tapestry::profile
