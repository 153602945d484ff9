#pragma once

#include <optional>
#include <string>

#include "train/tools/plan/changes.hpp"
#include "train/tools/plan/memory_plan.hpp"
#include "train/tools/plan/throughput.hpp"

namespace tapestry {

// What a training will take, before its first step.
struct TrainingPlan {
  MemoryPlan memory{};
  std::int64_t overhead = 0;  // bytes that the process has beside its arrays: program and data
  std::int64_t machine = 0;   // bytes that it may have
  RunLength run_length{};
  std::optional<Throughput> throughput{};  // none where it was not measured
  std::string unmeasured{};                // the failure of a step that was to be measured
  std::int64_t disk = 0;                   // of its folder, at most, while a checkpoint is written
  std::int64_t disk_free = 0;              // where it will lie
  std::optional<Change> smallest{};        // that makes it fit, where it does not
  int ranks = 1;
  std::string assumed{};  // of a text that is missing, in one line

  bool fits() const { return needs() <= machine; }
  std::int64_t needs() const { return memory.held + overhead; }  // bytes of this process
};

struct PlanOptions {
  int ranks = 1;
  double seconds = 5;        // to measure the pace; 0: not
  std::int64_t machine = 0;  // bytes of memory; 0: of this one
};

// Memory by shapes alone, and the pace, where the training fits and is one process's, by a short
// measurement. InputError as the training would have.
TrainingPlan plan_training(const ConfigWith& config_with, const PlanOptions& options);

// Adds the pace to the plan of one process, or why there is none.
void measure(TrainingPlan& plan, const Config& config, double seconds);

std::string show(const TrainingPlan& plan);
std::string json(const TrainingPlan& plan);

}  // namespace tapestry
