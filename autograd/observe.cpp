#include "autograd/observe.hpp"

namespace tapestry {
namespace {

thread_local Observer* current_observer = nullptr;

}  // namespace

Observer::Observer() : outer_(current_observer) { current_observer = this; }
Observer::~Observer() { current_observer = outer_; }

Observer* Observer::current() { return current_observer; }

}  // namespace tapestry
