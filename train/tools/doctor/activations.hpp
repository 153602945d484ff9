#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/observe.hpp"

namespace tapestry {

// Keeps the output of each op of a forward pass.
class Activations final : public Observer {
 public:
  struct Output {
    std::string op, scope;
    Array array{};
    std::string where() const { return op + " in " + (scope.empty() ? "the loss" : scope); }
  };

  void forward(const ObservedOp& op, const std::vector<Tensor>&) override {
    outputs.push_back({op.op, op.scope, op.array});
  }

  std::vector<Output> outputs;
};

// Where two passes first differ by more than rounding in float64: "softmax in blocks.0.attention".
// Of the examples that the second pass has more of, and its places after `last` of so many, nothing
// is compared. Nothing where they do not differ, or ran other ops.
struct ComparedPart {
  std::int64_t places = 0, last = 0;  // of an axis of so many; 0: all
};
std::optional<std::string> first_difference(const Activations& one, const Activations& other,
                                            const ComparedPart& part = {});

// |a - b| relative to their size, where that is at least 1.
double relative_difference(double a, double b);
inline constexpr double rounding_in_float64 = 1e-10;

}  // namespace tapestry
