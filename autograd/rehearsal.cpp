#include "autograd/rehearsal.hpp"

#include <utility>

namespace tapestry {
namespace {
thread_local bool rehearsing = false;
}

Rehearsal::Rehearsal(bool is_one) : outer_(std::exchange(rehearsing, is_one)) {}
Rehearsal::~Rehearsal() { rehearsing = outer_; }

bool is_rehearsing() { return rehearsing; }

}  // namespace tapestry
