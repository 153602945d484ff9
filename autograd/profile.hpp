#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Where the time of a step goes. The timeline of the thread that computes is cut at the end of
// each op, pullback and part of the step, so that its events cover it and never overlap.
namespace tapestry::profile {

enum class Phase { forward, backward, step };  // step: what is no op, such as the optimiser
const char* to_string(Phase phase);

struct Event {
  std::string name;   // of the op: "linear"
  std::string scope;  // of the module it ran in: "blocks.0.attention.output"; may be empty
  Phase phase = Phase::step;
  double start_s = 0, duration_s = 0;  // the start since the first start()
  double flops = 0;                    // of matrix products and attention
  double bytes = 0;                    // operands and results once: the least that has to move
  std::vector<std::vector<double>> loops{};  // seconds of each piece of each parallel_for, if kept
};

enum class Keep { events, loops };

// From here on events are kept; with their loops, as they run on one thread, where those are asked
// for. Loops of a single piece are not.
void start(Keep keep = Keep::events);
std::vector<Event> stop();  // until here; returns and forgets them
bool is_on();
bool keeps_loops();

// Names what this thread did since the last mark, as one event.
void mark(Phase phase, const char* name, const std::string* scope, double bytes);

// For kernels: adds to the arithmetic of the event that the next mark ends.
void add_flops(double flops);

// For parallel_for: the seconds of each piece of a loop of that event.
void add_loop(std::vector<double> pieces);

}  // namespace tapestry::profile
