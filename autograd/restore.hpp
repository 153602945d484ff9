#pragma once

#include <utility>

namespace tapestry {

// A guard that sets a variable of this thread or of the program, and restores the previous value at
// the end of its scope, also after an exception. Guards of one variable must nest.
template <class T>
class Restore {
 public:
  Restore(T& variable, T value)
      : variable_(variable), previous_(std::exchange(variable, std::move(value))) {}
  ~Restore() { variable_ = std::move(previous_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& variable_;
  T previous_;
};

// A guard of a setting that has a function: calls set(value), and set(previous) at the end.
template <class T>
class RestoreSetting {
 public:
  RestoreSetting(void (*set)(T), T value, T previous) : set_(set), previous_(previous) {
    set_(value);
  }
  ~RestoreSetting() { set_(previous_); }
  RestoreSetting(const RestoreSetting&) = delete;
  RestoreSetting& operator=(const RestoreSetting&) = delete;

 private:
  void (*set_)(T);
  T previous_;
};

}  // namespace tapestry
