#include "autograd/fair_lock.hpp"

#include <algorithm>
#include <vector>

namespace tapestry {
namespace {

thread_local std::vector<const FairLock*> read_here;  // locks that this thread holds to read

}  // namespace

FairLock::Read::Read(FairLock* lock) : lock_(lock && !lock->is_read_here() ? lock : nullptr) {
  if (!lock_) return;
  read_here.push_back(lock_);
  const std::lock_guard turn(lock_->turn_);
  lock_->held_.lock_shared();
}

FairLock::Read::~Read() {
  if (!lock_) return;
  lock_->held_.unlock_shared();
  std::erase(read_here, lock_);
}

bool FairLock::is_read_here() const { return std::ranges::count(read_here, this) > 0; }

void FairLock::lock() {
  turn_.lock();
  held_.lock();
}

void FairLock::unlock() {
  held_.unlock();
  turn_.unlock();
}

}  // namespace tapestry
