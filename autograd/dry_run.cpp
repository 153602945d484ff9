#include "autograd/dry_run.hpp"

namespace tapestry {
namespace {
thread_local bool dry_run = false;
}

DryRun::DryRun(bool is_one) : Restore(dry_run, is_one) {}

bool is_dry_run() { return dry_run; }

}  // namespace tapestry
