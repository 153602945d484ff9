#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autograd/tape.hpp"
#include "train/tools/doctor/training_under_test.hpp"

// Observers of a forward pass, with which checks do not depend on the task.
namespace tapestry {

// The outputs of a model and their targets, as operands of the op of its loss.
struct Comparison {
  enum class Kind { unknown, cross_entropy, binary_cross_entropy, squared_error };
  Kind kind = Kind::unknown;
  Array outputs{};  // logits (…, V), or numbers
  Array targets{};  // classes (…) int32, or numbers of the outputs' shape
  // Number of rows of the first embedding: the tokens that the model knows; 0 without an embedding.
  std::int64_t embedded = 0;

  // Return mean losses per target, in nats or in squares of the targets' unit; 0 for Kind::unknown.
  double error() const;    // of the outputs
  double uniform() const;  // of a uniform prediction, log V or log 2; or of outputs of 0
  double floor() const;    // of the best possible outputs
  // Returns the loss of the best constant outputs; for classes the unigram entropy.
  double constant() const;
  double constant_by_place()
      const;  // the same for outputs that depend only on the position in an example
};

// Returns the operands of the first op of a loss in a pass over the examples; Kind::unknown without
// such an op.
Comparison compare_outputs(Task& task, const Config& config, const Examples& examples);

// An observer that keeps the output of each op of a forward pass.
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

struct ComparedPart {
  std::int64_t places = 0, last = 0;  // places = 0: all are compared
};
// Returns the first op whose outputs in two passes differ by more than rounding in float64,
// "softmax in blocks.0.attention"; none if they do not differ, or if the numbers of ops differ.
// Examples that only the second pass has, and places above `last` of an axis of length `places`,
// are not compared.
std::optional<std::string> first_difference(const Activations& one, const Activations& other,
                                            const ComparedPart& part = {});

// Returns |a - b| / max(1, |a|, |b|). If a number is not finite, returns NaN if both are the same,
// else infinity.
double relative_difference(double a, double b);
inline constexpr double rounding_in_float64 = 1e-10;

}  // namespace tapestry
