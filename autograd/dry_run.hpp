#pragma once

#include "autograd/restore.hpp"

namespace tapestry {

// While it lives, this thread goes through a computation by its shapes alone: each parallel_for,
// and so each kernel, does nothing, and arrays hold memory that is reserved but not there until
// something writes to it. What arrays hold is counted as ever (memory_use), so that what a training
// will hold is known, of any size, without a formula of its model. Values mean nothing, and are
// neither checked nor written: what takes one after the other has to ask is_dry_run().
class DryRun final : Restore<bool> {
 public:
  explicit DryRun(bool is_one = true);
};

bool is_dry_run();  // this thread

}  // namespace tapestry
