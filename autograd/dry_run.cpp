#include "autograd/dry_run.hpp"

#include <utility>

namespace tapestry {
namespace {
thread_local bool dry_run = false;
}

DryRun::DryRun(bool is_one) : outer_(std::exchange(dry_run, is_one)) {}
DryRun::~DryRun() { dry_run = outer_; }

bool is_dry_run() { return dry_run; }

}  // namespace tapestry
