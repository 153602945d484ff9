#pragma once

#include <utility>

namespace tapestry {

// Sets a variable of this thread or of the program while the guard lives, and restores the previous
// value afterwards, also when an exception ends the scope. Guards of one variable must nest.
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

// Does the same for a setting that has a function: calls set(value), and set(previous) at the end.
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
