#include "layers/initial.hpp"

#include <limits>
#include <utility>

#include "autograd/rehearsal.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
thread_local std::int64_t bytes_left = no_limit;
thread_local bool left_out = false, rehearsed = false;

Array room_for(const Shape& shape) {
  const auto bytes = static_cast<std::int64_t>(shape.elements() * sizeof(float));
  if (bytes > bytes_left) throw InitialTooLarge("initial values beyond the limit");
  if (bytes_left != no_limit) bytes_left -= bytes;
  return Array(shape);
}

}  // namespace

InitialLimit::InitialLimit(std::int64_t bytes) : outer_(bytes_left) { bytes_left = bytes; }
InitialLimit::~InitialLimit() { bytes_left = outer_; }
std::int64_t InitialLimit::left() { return bytes_left; }

InitialLeftOut::InitialLeftOut(bool is_left_out) : outer_(std::exchange(left_out, is_left_out)) {}
InitialLeftOut::~InitialLeftOut() { left_out = outer_; }

InitialRehearsed::InitialRehearsed() : outer_(std::exchange(rehearsed, true)) {}
InitialRehearsed::~InitialRehearsed() { rehearsed = outer_; }

Array normal(const Shape& shape, double standard_deviation, Random& init) {
  const Rehearsal rehearsal(rehearsed || is_rehearsing());
  Array values = room_for(shape);
  if (!left_out) init.fill_normal(values, 0, standard_deviation);
  return values;
}

Array uniform(const Shape& shape, double bound, Random& init) {
  const Rehearsal rehearsal(rehearsed || is_rehearsing());
  Array values = room_for(shape);
  if (!left_out) init.fill_uniform(values, -bound, bound);
  return values;
}

}  // namespace tapestry
