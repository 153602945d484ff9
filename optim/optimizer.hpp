#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autograd/parameter.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.999;  // Adam's moments
  double epsilon = 1e-8;
  double momentum = 0;      // SGD's
  double weight_decay = 0;  // AdamW's: decoupled
  bool decay_all = false;   // also biases, norms and embeddings
};

// Moves parameters, but fixed ones, against their gradients. A subclass is the mathematics of one
// parameter.
class Optimizer {
 public:
  Optimizer(std::vector<Parameter*> parameters, const OptimizerOptions& options);
  virtual ~Optimizer() = default;

  // One step with gradients scaled by `scale` (clipping's factor). A parameter that has no
  // gradient is std::invalid_argument, which names it.
  void step(const Gradients& gradients, double learning_rate, double scale = 1);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  // What a checkpoint keeps: "first_moment.<parameter>" and its like, zeros before the first step.
  std::vector<std::pair<std::string, Array>> state() const;

 protected:
  struct Update {
    Array parameter;        // written in place
    const Array& gradient;  // before scaling
    std::vector<Array>& slots;
    double scale, learning_rate;
    double weight_decay;  // 0 where the parameter is excluded
    std::int64_t step;    // from 1
  };
  virtual std::vector<std::string> slot_names() const = 0;
  virtual void update(const Update& update) const = 0;

  OptimizerOptions options_;

 private:
  void make_slots() const;

  std::vector<Parameter*> parameters_;
  mutable std::vector<std::vector<Array>> slots_;  // one list a parameter
  std::int64_t steps_ = 0;
};

using OptimizerFactory =
    std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>, const OptimizerOptions&)>;

// Optimisers by name. Each one's source file registers it.
std::map<std::string, OptimizerFactory>& optimizer_registry();

template <class T>
struct RegisterOptimizer {
  explicit RegisterOptimizer(const std::string& name) {
    optimizer_registry()[name] = [](std::vector<Parameter*> parameters,
                                    const OptimizerOptions& options) {
      return std::make_unique<T>(std::move(parameters), options);
    };
  }
};

}  // namespace tapestry
