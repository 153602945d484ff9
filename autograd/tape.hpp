#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/restore.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// The gradients d(loss)/d(variable) of all variables that the loss depends on.
class Gradients {
 public:
  const Array* find(const Tensor& variable) const;        // returns null if there is none
  const Array& operator[](const Tensor& variable) const;  // throws std::out_of_range if none
  Array take(const Tensor& variable);  // removes and returns the gradient; empty: none
  void set(const Tensor& variable, Array gradient);
  Gradients& operator+=(const Gradients& other);  // adds variable by variable

 private:
  friend class Tape;
  friend class InputGradients;
  Array take(std::uint64_t id);
  std::unordered_map<std::uint64_t, Array> by_id_;
};

// An op's input as the tape records it: enough to receive a gradient.
struct InputRecord {
  std::uint64_t id;
  Shape shape;
  DType dtype;
};

// The gradients of an op's inputs, to which its pullback adds.
class InputGradients {
 public:
  InputGradients(const std::vector<InputRecord>& inputs, Gradients& gradients)
      : inputs_(inputs), gradients_(gradients) {}

  bool wanted(std::size_t input) const { return inputs_[input].id != 0; }  // false: a constant

  // Adds to the gradient of an input, unless it is a constant. A gradient of the shape that the
  // input was broadcast to is summed to the input's own shape.
  void add(std::size_t input, const Array& gradient);

  // Adds to the gradient of an input in place, unless the input is a constant:
  // kernel(into, accumulate) writes to `into`, or adds if `accumulate`.
  void accumulate(std::size_t input,
                  const std::function<void(Array& into, bool accumulate)>& kernel);

  // Adds the gradients of variables that a pullback with a tape of its own found.
  void add_leaves(const Gradients& gradients) { gradients_ += gradients; }

 private:
  const std::vector<InputRecord>& inputs_;
  Gradients& gradients_;
};

// A function that computes d(loss)/d(inputs) from d(loss)/d(output). An op stores only what its
// pullback captures.
using Pullback = std::function<void(const Array& gradient, InputGradients& into)>;

// A function that receives the gradient of a variable.
using TakeGradient = std::function<void(std::uint64_t variable, Array gradient)>;

// A record of the ops of this thread while it is in scope; the innermost tape records. Entries are
// in order of execution, so the reverse order visits every use of a value before its definition.
class Tape final {
 public:
  Tape();

  // Returns the gradients of seed · loss. Frees each entry after its pullback. Throws
  // std::invalid_argument unless the loss has one element.
  Gradients backward(const Tensor& loss, double seed = 1.0);
  // Passes the gradient of each variable to `take` as soon as it is complete: on this thread, from
  // the last layer to the first. Throws std::invalid_argument likewise.
  void backward(const Tensor& loss, double seed, const TakeGradient& take);
  // Returns the gradients for an output of any shape, given d(loss)/d(output). Throws
  // std::invalid_argument if their shapes or dtypes differ.
  Gradients backward(const Tensor& output, const Array& gradient);

  std::size_t size() const { return entries_.size(); }

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
  Gradients walk(const Tensor& output, const Array& gradient, const TakeGradient* take);

  std::vector<Entry> entries_;
  Restore<Tape*> current_;
};

// A guard that stops recording on this thread.
class NoTape final : Restore<Tape*> {
 public:
  NoTape();
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
  virtual ~Observer() = default;

  virtual void forward(const ObservedOp&, const std::vector<Tensor>& /*inputs*/) {}
  virtual void backward(const ObservedOp&) {}

  static Observer* current();  // returns the innermost observer of this thread, or null

 private:
  Restore<Observer*> current_;
};

}  // namespace tapestry
