#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/restore.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// d(loss)/d(tensor) for every variable that the loss depends on. Adding two adds per variable.
class Gradients {
 public:
  const Array* find(const Tensor& variable) const;        // null: the loss does not depend on it
  const Array& operator[](const Tensor& variable) const;  // std::out_of_range instead of null
  Array take(const Tensor& variable);                     // and forgets it; empty instead of null
  void set(const Tensor& variable, Array gradient);
  Gradients& operator+=(const Gradients& other);

 private:
  friend class Tape;
  friend class InputGradients;
  Array take(std::uint64_t id);
  std::unordered_map<std::uint64_t, Array> by_id_;
};

// What is left of an op's input once the op has run: enough to receive a gradient.
struct InputRecord {
  std::uint64_t id;
  Shape shape;
  DType dtype;
};

// Where a pullback leaves the gradients of its op's inputs.
class InputGradients {
 public:
  InputGradients(const std::vector<InputRecord>& inputs, Gradients& gradients)
      : inputs_(inputs), gradients_(gradients) {}

  bool wanted(std::size_t input) const { return inputs_[input].id != 0; }

  // Adds to what the input has received so far. A gradient of the shape that the input was
  // broadcast to is summed back to the input's own shape here, and nowhere else.
  void add(std::size_t input, const Array& gradient);

  // For kernels that can add in place: kernel(into, accumulate) writes or adds to `into`.
  void accumulate(std::size_t input,
                  const std::function<void(Array& into, bool accumulate)>& kernel);

  // For a pullback that runs a tape of its own: adds the gradients of the variables met there.
  void add_leaves(const Gradients& gradients) { gradients_ += gradients; }

 private:
  const std::vector<InputRecord>& inputs_;
  Gradients& gradients_;
};

// d(loss)/d(output) -> d(loss)/d(inputs). What it captures is all that an op keeps alive.
using Pullback = std::function<void(const Array& gradient, InputGradients& into)>;

// Gets a variable's gradient.
using TakeGradient = std::function<void(std::uint64_t variable, Array gradient)>;

// While a tape is in scope, ops on this thread record on the innermost one. Entries stand in order
// of execution, so walking them backwards meets every use of a value before its making.
class Tape final {
 public:
  Tape();

  // The gradient of `loss`, a scalar times `seed`. Frees each entry as soon as it is walked.
  Gradients backward(const Tensor& loss, double seed = 1.0);
  // The same, but hands out each variable's gradient as soon as nothing more can be added to it: on
  // this thread, from the end of the model to its beginning.
  void backward(const Tensor& loss, double seed, const TakeGradient& take);
  // The same for an output of any shape, given d(loss)/d(output) of that shape.
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

// While it is in scope, ops on this thread do not record.
class NoTape final : Restore<Tape*> {
 public:
  NoTape();
};

// Every op ends here: gives `value` a place on the tape in scope when an input has one.
// `reaches_others`: its pullback gives gradients to variables that are not among its inputs.
Tensor record(const char* op, Array value, const std::vector<Tensor>& inputs, Pullback pullback,
              bool reaches_others = false);

// Names what runs inside it ("blocks.0.attention") in the errors of the non-finite check.
class Scope final : Restore<const std::string*> {
 public:
  explicit Scope(const std::string& path);  // kept by reference
};

// Names the first op whose output is not finite, the scope it ran in, and its inputs' ranges.
class NonFiniteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// While on, record() and backward() throw NonFiniteError. An infinity of an additive mask is no
// fault: a -inf may pass where an input holds one.
void set_check_finite(bool on);

}  // namespace tapestry
