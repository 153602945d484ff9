#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/tape.hpp"
#include "autograd/tensor.hpp"
#include "optim/array_part.hpp"
#include "optim/clip.hpp"
#include "train/distributed/order.hpp"
#include "train/distributed/ranks.hpp"

namespace tapestry {

// What a rank has of the sum in the end: all of it, or only its own share, for an optimiser that
// moves no more than that (ZeRO, Rajbhandari et al. 2019, arXiv 1910.02054, stage 1).
enum class Kept { all, own_shard };

struct GradientSumOptions {
  std::int64_t micro_batches = 1;  // of a step: of all ranks together, at least one each
  Kept kept = Kept::all;
};

// The sum of the gradients of a step's parts. The order of the additions depends on the number of
// parts alone, so that its bits are the same on any number of ranks (order.hpp). A slice of a
// gradient leaves for the rank that owns it as soon as the backward pass of the last part that it
// is summed over is done with it; the owner adds the slices of all ranks and passes the sum on.
//
//   GradientSum sum(ranks, model.parameters(), {.parts = 8});
//   for (std::int64_t part = sum.first(); part < sum.last(); ++part) {
//     Tape tape;
//     sum.add(tape, loss_of(part), 1.0 / batch_size);
//   }
//   const Gradients gradients = sum.finish();
//   optimizer.step(gradients, learning_rate, sum.clip(1.0).scale);
class GradientSum final {
 public:
  // By all, with the same parameters. They and the ranks outlive it. std::invalid_argument for
  // fewer parts than ranks.
  GradientSum(Ranks& ranks, const std::vector<Parameter*>& parameters,
              const GradientSumOptions& options);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // The parts of a step that are this rank's: [first, last).
  std::int64_t first() const { return plan_.range.first; }
  std::int64_t last() const { return plan_.range.last; }

  // Adds seed · d(loss)/d(parameters) of the next part, by the tape's backward pass.
  void add(Tape& tape, const Tensor& loss, double seed);

  // By all, when each has added its parts. A parameter that no part of this rank gave a gradient
  // has none where the rank is alone, and is std::invalid_argument, which names it, where not.
  Gradients finish();

  // By all: of the sum that finish() returned.
  Clip clip(double limit);

  // The share that is this rank's, of the parameters without the fixed ones.
  const std::vector<ArrayPart>& own_shard() const { return own_; }

  // By all: every rank's share of some arrays, one a parameter, goes to all ranks, or to rank 0
  // alone. `place` says where a part of one of the arrays is kept.
  enum class To { all, first };
  void exchange(const std::function<std::span<std::byte>(const ArrayPart&)>& place, To to,
                std::string_view what);

  // Of all steps: from the first gradient that left until the sum was there; and how long of that
  // finish() waited, while nothing was computed.
  double seconds_under_way() const { return seconds_under_way_; }
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Slice;
  void begin();
  void accept(std::size_t parameter, Array gradient);
  void cut_into_slices();
  // On the messages' thread:
  void await(Slice& slice);
  void give(std::size_t sum, std::size_t parameter);
  void send_sum(std::size_t sum, Slice& slice);
  void add_up(Slice& slice);
  std::vector<int> missing() const;

  Ranks& ranks_;
  std::vector<Parameter*> parameters_;  // without the fixed ones
  Kept kept_;
  std::vector<MicroBatchPlan> plans_;  // of all ranks
  const MicroBatchPlan& plan_;         // of this one
  std::vector<Fragment> fragments_;
  std::vector<Slice> slices_;             // in the order of the parameters
  std::vector<std::size_t> first_slice_;  // of each parameter, and the end
  std::vector<ArrayPart> own_;

  // Of the step under way. Arrays stand by parameters.
  std::unordered_map<std::uint64_t, std::size_t> parameter_of_;  // a variable
  std::size_t micro_batch_ = 0;                                  // of plan_.steps, the next one
  std::vector<std::vector<Array>> stack_;                        // sums to which more is added here
  std::vector<std::vector<Array>> sums_;  // to which nothing is; the first becomes the whole sum
  std::size_t sum_ = 0;                   // of sums_, the next one
  std::vector<bool> given_;               // whether a part gave the parameter a gradient
  std::vector<double> squares_;           // of each fragment that this rank has the sum of
  std::atomic<std::int64_t> left_ = 0;    // slices that are not there yet
  double first_left_s_ = 0;               // when the step's first gradient was given away
  double seconds_under_way_ = 0, seconds_waited_ = 0;
};

}  // namespace tapestry
