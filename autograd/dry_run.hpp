#pragma once

#include "autograd/restore.hpp"

namespace tapestry {

// A guard under which the ops of this thread compute only shapes: `parallel_for`, and so every
// kernel, does nothing, and arrays reserve addresses that take no memory until they are written.
// memory_use() counts them as usual, so the memory of a training of any size is known without a
// formula of its model. Values are undefined: code that reads them must test is_dry_run() first.
class DryRun final : Restore<bool> {
 public:
  explicit DryRun(bool is_one = true);

 private:
  friend bool is_dry_run();
  static thread_local bool is_current_;  // in the engine alone: libraries share no inline variable
};

// Returns whether a DryRun of this thread is in scope.
bool is_dry_run();

}  // namespace tapestry
