#define OMPI_SKIP_MPICXX 1  // the C functions alone
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdlib>
#include <vector>

#include "train/distributed/transport.hpp"

// The plug-in, which is compiled once per installed MPI implementation and linked into no other
// library. Errors of MPI end all processes (MPI_ERRORS_ARE_FATAL).
namespace tapestry {
namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    // Messages use a separate communicator, because other code of this process may use MPI.
    MPI_Comm_dup(MPI_COMM_WORLD, &ours_);
    MPI_Comm_rank(ours_, &rank_);
    MPI_Comm_size(ours_, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int number, int to, int tag, const void* bytes, std::size_t size) override {
    MPI_Isend(bytes, static_cast<int>(size), MPI_BYTE, to, tag, ours_, begun(number));
  }

  void receive(int number, int from, int tag, void* bytes, std::size_t size) override {
    MPI_Irecv(bytes, static_cast<int>(size), MPI_BYTE, from, tag, ours_, begun(number));
  }

  std::size_t take_done(int* numbers, std::size_t room) override {
    std::size_t taken = 0;
    if (next_done_ == done_.size()) test();
    while (next_done_ < done_.size() && taken < room) numbers[taken++] = done_[next_done_++];
    return taken;
  }

  void finish() override {
    MPI_Barrier(ours_);
    MPI_Comm_free(&ours_);
    MPI_Finalize();
  }

  [[noreturn]] void abort(int status) override {
    MPI_Abort(ours_, status);
    std::_Exit(status);
  }

  [[noreturn]] void leave(int status) override { std::_Exit(status); }

 private:
  MPI_Request* begun(int number) {
    numbers_.push_back(number);
    requests_.emplace_back();
    return &requests_.back();
  }

  void test() {
    done_.clear();
    next_done_ = 0;
    if (requests_.empty()) return;
    int count = 0;
    places_.resize(requests_.size());
    MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, places_.data(),
                 MPI_STATUSES_IGNORE);
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) done_.push_back(numbers_[places_[i]]);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      numbers_[kept++] = numbers_[i];
    }
    requests_.resize(kept);
    numbers_.resize(kept);
  }

  MPI_Comm ours_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;  // requests in flight
  std::vector<int> numbers_;           // the caller's numbers of requests_
  std::vector<int> places_;
  std::vector<int> done_;  // completed requests; those from next_done_ on have not been returned
  std::size_t next_done_ = 0;
};

}  // namespace
}  // namespace tapestry

extern "C" tapestry::Transport* tapestry_open_transport() { return new tapestry::MpiTransport; }
