#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "autograd/gradients.hpp"
#include "autograd/restore.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// A function that computes d(loss)/d(inputs) from d(loss)/d(output). An op stores only what its
// pullback captures.
using Pullback = std::function<void(const Array& gradient, InputGradients& into)>;

// A function that receives the gradient of a variable.
using TakeGradient = std::function<void(std::uint64_t variable, Array gradient)>;

// A position in this thread's list of tapes. Positions may be given up in any order.
class TapePosition {
 public:
  TapePosition(const TapePosition&) = delete;
  TapePosition& operator=(const TapePosition&) = delete;

 protected:
  explicit TapePosition(Tape* tape);  // becomes the innermost one
  ~TapePosition();

 private:
  friend class Tape;
  Tape* tape_;  // null: stops recording
  TapePosition* outer_;
};

// A record of the ops of this thread while it is in scope; the innermost tape records. A tape must
// be destroyed on the thread that made it. Entries are in order of execution, so the reverse order
// visits every use of a value before its definition. An op throws std::invalid_argument for a
// result of another tape, or one from before backward(): its gradient would end there.
// Tensor(x.value()) is a constant with the same value.
class Tape final : TapePosition {
 public:
  Tape();
  // Makes a tape for a pullback that passes gradients on by into.add_leaves(): it takes results of
  // the tape that runs the pullback as leaves.
  explicit Tape(const InputGradients& into);

  // Returns the gradients of seed · loss. Frees each entry after its pullback. Throws
  // std::invalid_argument unless the loss has one element, and for a result of another tape, or one
  // from before an earlier backward().
  Gradients backward(const Tensor& loss, double seed = 1.0);
  // Passes the gradient of each variable to `take` as soon as it is complete: on this thread, from
  // the last layer to the first. Throws std::invalid_argument likewise.
  void backward(const Tensor& loss, double seed, const TakeGradient& take);
  // Returns the gradients for an output of any shape, given d(loss)/d(output). Throws
  // std::invalid_argument if their shapes or dtypes differ.
  Gradients backward(const Tensor& output, const Array& gradient);

  std::size_t size() const { return entries_.size(); }

  // Throws std::invalid_argument if a tape of this thread has an entry with one of the parameters
  // as input: `function` is about to change values that its pullback reads.
  static void require_unused(const char* function, const std::vector<Parameter*>& parameters);

 private:
  friend Tensor record(const char*, Array, const std::vector<Tensor>&, Pullback, bool);
  struct Entry {
    const char* op;
    const std::string* scope;
    std::uint64_t output;
    std::vector<InputRecord> inputs;
    Pullback pullback;
    bool reaches_others;
  };
  static Tape* innermost();  // returns the tape that records, or null
  Tensor result(Array value) const;
  void require_own(const char* function, const Tensor& input) const;
  Gradients walk(const Tensor& output, const Array& gradient, const TakeGradient* take);

  std::vector<Entry> entries_;
  std::uint64_t number_;
  std::uint64_t consumed_ = 0;       // ids up to this one are of entries that are gone
  std::uint64_t walked_ = 0;         // the output of the entry whose pullback runs
  const Tape* passes_to_ = nullptr;  // the tape that runs the pullback with this tape
};

// A guard that stops recording on this thread.
class NoTape final : TapePosition {
 public:
  NoTape() : TapePosition(nullptr) {}
};

// Returns the result of an op, and records it if a tape is in scope and an input is a variable.
// `reaches_others`: the pullback gives gradients to variables that are not among the inputs.
// Throws NonFiniteError if set_check_finite() is on and the value is not finite.
Tensor record(const char* op, Array value, const std::vector<Tensor>& inputs, Pullback pullback,
              bool reaches_others = false);

// A guard that names the module ("blocks.0.attention") of the ops that run while it is in scope,
// for errors, observers and profiles.
class Scope final : Restore<const std::string*> {
 public:
  explicit Scope(const std::string& path);  // `path` must outlive the guard
  explicit Scope(std::string&&) = delete;
};

// The error for an op with an output or a gradient that is not finite, and for a training that has
// to skip more steps than train.max_bad_steps. The message for an op has the op, the scope, and the
// shape and range of that array and of the input with the largest magnitude, which in the backward
// pass is the received gradient.
class NonFiniteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Sets whether ops and pullbacks throw NonFiniteError. A -inf is allowed if an input has one, as in
// additive masks.
void set_check_finite(bool on);

// An op as an Observer sees it. `scope` is the path of its module, or "" in the loss.
struct ObservedOp {
  const char* op;
  const std::string& scope;
  std::uint64_t output;  // id of the result, the same in both passes; 0: not recorded
  const Array& array;    // forward: the result; backward: the gradient of the result
};

// An object that receives every op of this thread while it is in scope. A gradient is passed before
// the op's pullback, which may overwrite it. Ops that recompute() repeats are passed twice.
class Observer {
 public:
  Observer();
  virtual ~Observer();

  virtual void forward(const ObservedOp&, const std::vector<Tensor>& /*inputs*/) {}
  virtual void backward(const ObservedOp&) {}

  static Observer* current();  // returns the innermost observer of this thread, or null

 private:
  Restore<Observer*> current_;
};

}  // namespace tapestry
