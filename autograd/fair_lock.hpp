#pragma once

#include <mutex>
#include <shared_mutex>

namespace tapestry {

// A lock that one thread holds to write, or several hold to read. Requests are served in their
// order: readers that ask while a writer waits come after it. A thread that reads may read again.
class FairLock final {
 public:
  // A guard under which this thread reads. Null: there is nothing to lock.
  class Read final {
   public:
    explicit Read(FairLock* lock);
    ~Read();
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

   private:
    FairLock* lock_;  // null: this thread has read before
  };

  // Returns whether this thread reads; it must not write then, because it would wait for itself.
  bool is_read_here() const;

  void lock();  // to write, as std::unique_lock calls it
  void unlock();

 private:
  std::mutex turn_;  // held by a writer, and by a reader until it reads
  std::shared_mutex held_;
};

}  // namespace tapestry
