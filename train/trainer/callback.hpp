#pragma once

#include <string>

#include "optim/optimizer.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/lines.hpp"
#include "train/trainer/step.hpp"

namespace tapestry {

// Takes part in a training at the points that Trainer::train and Trainer::step name
// (trainer.cpp). All callbacks of a training are called in the order that callbacks.hpp gives. What
// one throws ends the training.
class Callback {
 public:
  virtual ~Callback() = default;

  // Adds the callback's arrays to those of a checkpoint; reads them from one. Numbers that a
  // callback keeps are a section of TrainingState.
  virtual void save(OptimizerState&) const {}
  virtual void restore(const Checkpoint&) {}

  // Called before the first step, `step` + 1. Records of later steps, from before the run was
  // interrupted, have to be removed, and that of the step's own evaluation unless it was
  // `evaluated`.
  virtual void on_begin(std::int64_t /*step*/, bool /*evaluated*/) {}

  virtual void on_step_begin() {}
  // Returns whether the step may move the parameters; false skips it.
  virtual bool accepts(const ComputedStep&) { return true; }
  virtual void on_step_end(const ComputedStep&, bool /*moved*/) {}

  // Exchanges the trained weights with those that are evaluated, shown and saved. Called before and
  // after each of these.
  virtual void exchange_weights() {}

  // Called before the evaluation of this step. The model may be inspected.
  virtual void before_evaluation(std::int64_t /*step*/) {}
  // Takes the metrics of a step or an evaluation.
  virtual void on_metrics(const MetricsLine&) {}
  // Called before a checkpoint is written: records have to be on the disk before it.
  virtual void on_checkpoint() {}
  // Takes a message for the user.
  virtual void on_message(const std::string&) {}
  // Called after the last step; a test may follow.
  virtual void on_end() {}

  // Returns whether the training ends before its last step.
  virtual bool ends_training() const { return false; }
};

}  // namespace tapestry
