#pragma once

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

// The part of the sum that a rank stores: all of it, or only its own shard, for an optimizer that
// updates only that shard (ZeRO stage 1, Rajbhandari et al. 2019, arXiv 1910.02054).
enum class Kept { all, own_shard };

struct GradientSumOptions {
  // Number of micro-batches per step on all ranks together, at least one per rank.
  std::int64_t micro_batches = 1;
  Kept kept = Kept::all;
  // Returns whether a parameter has a single owner, for an optimizer that updates it as a whole;
  // null: none.
  std::function<bool(const Parameter&)> is_undivided{};
  bool expects_no_others = false;  // add() throws InputError for other variables
};

// Sums the gradients of a step's micro-batches over all ranks. The order of the additions depends
// on the number of micro-batches only, so that the sum has the same bits on any number of ranks
// (order.hpp). After its last micro-batch, a rank sends its partial sums of each slice of a
// gradient to the rank that owns the slice. The owner adds the partial sums of all ranks and, with
// Kept::all, sends the total to the others. One process sends nothing.
//
//   GradientSum sum(ranks, model.parameters(), {.micro_batches = 8});
//   for (std::int64_t i = sum.first(); i < sum.last(); ++i) {
//     Tape tape;
//     sum.add(tape, loss_of_micro_batch(i), 1.0 / batch_size);
//   }
//   const Gradients gradients = sum.finish();
//   optimizer.step(gradients, learning_rate, sum.clip(1.0).scale);
class GradientSum final {
 public:
  // Must be called by all ranks, with the same parameters. These and `ranks` must outlive the sum.
  // Throws std::invalid_argument for fewer micro-batches than ranks.
  GradientSum(Ranks& ranks, const std::vector<Parameter*>& parameters,
              const GradientSumOptions& options);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // Return the micro-batches of a step that this rank computes: [first, last).
  std::int64_t first() const { return plan_.range.first; }
  std::int64_t last() const { return plan_.range.last; }

  // Adds seed · d(loss)/d(parameters) of the next micro-batch, computed by the tape's backward
  // pass. Throws std::invalid_argument if there is none.
  void add(Tape& tape, const Tensor& loss, double seed);

  // Returns the sum; with Kept::own_shard only this rank's shard of the arrays is valid. Must be
  // called by all ranks. Throws std::invalid_argument before add() was called for all micro-batches
  // of this rank. If no micro-batch of any rank has a gradient of a parameter, one process omits
  // the parameter, and several ranks all throw std::invalid_argument.
  Gradients finish();

  // Returns the norm of the sum that finish() returned, and the factor that clips the norm to
  // `limit`; a limit of 0 only measures. May be called at most once after finish().
  Clip clip(double limit);

  // Returns this rank's shard of the trained parameters.
  const std::vector<ArrayPart>& own_shard() const { return own_; }

  enum class To { all, first };
  // Sends every rank's shard of some arrays, one per parameter, to all ranks or to rank 0. Must be
  // called by all ranks. `place` returns the memory of a part of one of the arrays; no bytes, on
  // all ranks: the part is not sent.
  void exchange(const std::function<std::span<std::byte>(const ArrayPart&)>& place, To to,
                const std::string& what);

  // Returns the total time, in seconds, that finish() took to sum over the ranks; 0 with one
  // process.
  double seconds_waited() const { return seconds_waited_; }

 private:
  // A part of one parameter's gradient, which one rank, its owner, sums.
  struct Slice {
    ArrayPart part;
    int owner = 0;
    std::size_t first_fragment = 0, fragments = 0;
  };
  void begin();
  void accept(std::size_t parameter, Array gradient);
  void cut_into_slices(const std::function<bool(const Parameter&)>& is_undivided);
  void sum_over_ranks();
  std::vector<std::vector<Array>> exchange_sums();
  void add_up(const Slice& slice, const std::vector<Array>& received);

  Ranks& ranks_;
  std::vector<Parameter*> parameters_;  // without fixed parameters
  Kept kept_;
  const bool expects_no_others_;
  std::vector<MicroBatchPlan> plans_;  // plans of all ranks
  const MicroBatchPlan& plan_;         // plan of this rank
  std::vector<Fragment> fragments_;
  std::vector<Slice> slices_;  // in parameter order
  std::vector<ArrayPart> own_;

  // State of the current step. Arrays are indexed by parameter.
  std::unordered_map<std::uint64_t, std::size_t> parameter_of_;  // keyed by the id of the variable
  std::size_t micro_batch_ = 0;            // index of the next micro-batch in plan_.steps
  std::vector<std::vector<Array>> stack_;  // incomplete sums
  std::vector<std::vector<Array>> sums_;   // complete sums; the total replaces the first
  std::size_t sum_ = 0;                    // index of the next sum in sums_
  // Per parameter, whether this rank's micro-batches gave a gradient; after finish(), whether those
  // of any rank did.
  std::vector<bool> given_;
  std::vector<double> squares_;  // sum of squares of each fragment
  double seconds_waited_ = 0;
};

}  // namespace tapestry
