#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "autograd/tensor.hpp"

namespace tapestry {

class Tape;

// The gradients d(loss)/d(variable) of all variables that the loss depends on.
class Gradients {
 public:
  const Array* find(const Tensor& variable) const;  // returns null if there is none
  // Throws std::out_of_range, which names the shape, if there is none.
  const Array& operator[](const Tensor& variable) const;
  Array take(const Tensor& variable);  // removes and returns the gradient; empty: none
  // Throws std::invalid_argument for a constant, and for another shape or dtype than the
  // variable's.
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
  // Returns whether the input is a variable, which gets a gradient. These three functions throw
  // std::out_of_range for an input that the op does not have.
  bool wanted(std::size_t input) const;

  // Adds to the gradient of an input, unless it is a constant. A gradient of the shape that the
  // input was broadcast to is summed to the input's own shape. Throws std::invalid_argument for any
  // other shape, and for another dtype than the input's.
  void add(std::size_t input, const Array& gradient);

  // Adds to the gradient of an input in place, unless the input is a constant:
  // kernel(into, accumulate) writes to `into`, or adds if `accumulate`.
  void accumulate(std::size_t input,
                  const std::function<void(Array& into, bool accumulate)>& kernel);

  // Adds the gradients of variables that a pullback found with a tape of its own, Tape(into).
  void add_leaves(const Gradients& gradients) { gradients_ += gradients; }

 private:
  friend class Tape;
  InputGradients(const Tape& tape, const char* op, const std::vector<InputRecord>& inputs,
                 Gradients& gradients)
      : tape_(tape), op_(op), inputs_(inputs), gradients_(gradients) {}
  void require_fitting(bool fits, std::size_t input, const Array& gradient) const;

  const Tape& tape_;
  const char* op_;
  const std::vector<InputRecord>& inputs_;
  Gradients& gradients_;
};

}  // namespace tapestry
