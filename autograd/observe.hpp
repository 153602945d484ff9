#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/restore.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

// An op as it runs. `scope` is the module that it runs in, "blocks.0.attention", or "" in the loss.
struct ObservedOp {
  const char* op;
  const std::string& scope;
  std::uint64_t output;  // a number of its own, the same in both passes; 0: no tape records it
  const Array& array;    // forward: its output; backward: the gradient that reaches the output
};

// While one is in scope, it is shown every op of this thread: a gradient before the op's pullback
// runs, which may write over it. What is computed again in the backward pass is shown again.
class Observer {
 public:
  Observer();
  virtual ~Observer() = default;

  virtual void forward(const ObservedOp&, const std::vector<Tensor>& /*inputs*/) {}
  virtual void backward(const ObservedOp&) {}

  static Observer* current();  // of this thread, or null

 private:
  Restore<Observer*> current_;
};

}  // namespace tapestry
