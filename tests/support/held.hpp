#pragma once

#include <functional>

#include "autograd/buffer_pool.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

// Returns the maximum of bytes that arrays hold during `work`, minus those before.
inline std::int64_t bytes_held_by(const std::function<void()>& work) {
  const std::int64_t before = memory_use().bytes_in_use;
  reset_peak_memory();
  work();
  return memory_use().peak_bytes_in_use - before;
}

// Returns the same for a dry run.
inline std::int64_t bytes_in_dry_run(const std::function<void()>& work) {
  const DryRun dry_run;
  return bytes_held_by(work);
}

// Runs forward and backward pass of f.
inline void differentiate(const std::function<Tensor()>& f) {
  Tape tape;
  tape.backward(sum(f()));
}

}  // namespace tapestry
