#include "autograd/observe.hpp"

namespace tapestry {
namespace {

thread_local Observer* current_observer = nullptr;

}  // namespace

Observer::Observer() : current_(current_observer, this) {}

Observer* Observer::current() { return current_observer; }

}  // namespace tapestry
