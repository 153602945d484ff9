#pragma once

#include <string>

#include "optim/optimizer.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/lines.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// An object that is called at fixed points of a training, which Trainer::train and Trainer::step
// name (trainer.cpp). All callbacks of a training are called in the order of callbacks.hpp. An
// exception of a callback ends the training.
class Callback {
 public:
  virtual ~Callback() = default;

  // Adds the callback's arrays to those of a checkpoint; reads them from one. Numbers of a callback
  // are stored in TrainingState.
  virtual void save(OptimizerState&) const {}
  virtual void restore(const Checkpoint&) {}

  // Called before the first step, `step` + 1. Must remove records of later steps, which an
  // interrupted training wrote, and the evaluation of `step` itself unless `evaluated`.
  virtual void on_begin(std::int64_t /*step*/, bool /*evaluated*/) {}

  virtual void on_step_begin() {}
  // Returns whether the step may move the parameters; false skips it.
  virtual bool accepts(const ComputedStep&) { return true; }
  virtual void on_step_end(const ComputedStep&, bool /*moved*/) {}

  // Exchanges the trained weights with those that are evaluated, shown and saved. Called before and
  // after each of these.
  virtual void exchange_weights() {}

  // Called before the evaluation of this step, but not before one that was interrupted and is done
  // by the resumed training. The model may be inspected.
  virtual void before_evaluation(std::int64_t /*step*/) {}
  // Receives the metrics of a step or an evaluation.
  virtual void on_metrics(const MetricsLine&) {}
  // Called before a checkpoint is written, and after the metrics of the test split: records must be
  // on disk when this function returns.
  virtual void on_checkpoint() {}
  // Receives a message for the user.
  virtual void on_message(const std::string&) {}
  // Called when the training ends, is stopped or ends early, but not after an exception. A
  // checkpoint and an evaluation of the test split may follow.
  virtual void on_end() {}

  // Returns whether the training ends before its last step.
  virtual bool ends_training() const { return false; }
};

}  // namespace tapestry
