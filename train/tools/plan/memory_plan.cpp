#include <algorithm>
#include <atomic>

#include "autograd/buffer_pool.hpp"
#include "autograd/clock.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/profile.hpp"
#include "data/loader.hpp"
#include "train/config/keys.hpp"
#include "train/tools/plan/plan.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

// The first steps still allocate buffers that later ones reuse; the peaks of the next few tell
// whether all batches have the same shapes.
constexpr std::int64_t first_batches = 4, compared_batches = 12, most_batches = 400;

std::int64_t bytes_in_use() { return memory_use().bytes_in_use; }

// Calls walk(number) for some of the batches, more if they differ, and returns the maximum total
// size of arrays in bytes.
template <class DryTraining>
std::int64_t peak_of_batches(std::int64_t batches, double seconds, DryTraining walk) {
  const double end_s = now_s() + seconds;
  std::int64_t most = bytes_in_use(), like = -1;
  bool differ = false;
  for (std::int64_t i = 0; i < std::min(batches, most_batches); ++i) {
    if (i >= compared_batches && (!differ || now_s() > end_s)) break;
    reset_peak_memory();
    walk(i);
    const std::int64_t peak = memory_use().peak_bytes_in_use;
    most = std::max(most, peak);
    if (i < first_batches) continue;
    differ |= like >= 0 && peak != like;
    like = peak;
  }
  return most;
}

// Returns "blocks.*" for "blocks.3.attention.query.weight", otherwise the first name: "head".
std::string part_of(const std::string& parameter) {
  const std::size_t first = parameter.find('.');
  if (first == std::string::npos) return parameter;
  const bool counts =
      first + 1 < parameter.size() && parameter[first + 1] >= '0' && parameter[first + 1] <= '9';
  return parameter.substr(0, first) + (counts ? ".*" : "");
}

void count_parameters(const std::vector<Parameter*>& parameters, MemoryPlan& plan) {
  for (const Parameter* parameter : parameters) {
    const std::int64_t size = parameter->tensor.size();
    const auto bytes = static_cast<std::int64_t>(parameter->value().bytes());
    plan.parameters += size;
    plan.weights += bytes;
    if (parameter->role != Role::fixed) plan.trained += size, plan.gradients += bytes;
    const std::string name = part_of(parameter->name);
    const auto known = std::ranges::find(plan.modules, name, &ModuleSize::name);
    if (known == plan.modules.end())
      plan.modules.push_back({name, size});
    else
      known->parameters += size;
  }
}

std::int64_t bytes_of(const OptimizerState& state) {
  std::int64_t bytes = 0;
  for (const auto& [name, array] : state) bytes += static_cast<std::int64_t>(array.bytes());
  return bytes;
}

// A training whose steps are dry runs, without a folder.
class DryTraining {
 public:
  DryTraining(const Config& config, const MemoryPlanOptions& options)
      : config_(config),
        seconds_(options.seconds),
        before_(bytes_in_use()),
        held_before_(memory_use().bytes_held),
        ranks_(Ranks::imagined(options.rank, options.ranks)),
        task_(begin_task(config, Weights::dry_run)) {
    count_parameters(task_->model().parameters(), plan_);
    plan_.data = bytes_in_use() - before_ - plan_.weights;
    const DryRun dry_run;
    const std::int64_t without = bytes_in_use();
    trainer_.emplace(*task_, config_, Run(""), nullptr, stop_, ranks_);
    if (averages_weights(config_)) plan_.average = bytes_in_use() - without;
  }

  MemoryPlan run() {
    plan_.step_peak = take_steps() - before_;
    plan_.activations = activations();
    plan_.evaluation_peak = evaluate(task_->validation_data()) - before_;
    if (task_->test_data())
      plan_.evaluation_peak =
          std::max(plan_.evaluation_peak, evaluate(*task_->test_data()) - before_);
    plan_.checkpoint_peak = save() - before_;
    plan_.has_uneven_shards = trainer_->has_uneven_shards();
    plan_.held = memory_use().bytes_held - held_before_;
    return plan_;
  }

 private:
  std::int64_t take_steps() {
    const DryRun dry_run;
    return peak_of_batches(config_[key::steps], seconds_, [&](std::int64_t step) {
      if (step > 0) return void(trainer_->step());
      for (const profile::Event& event : profile::events_of([&] { trainer_->step(); }))
        plan_.flops += event.flops;
      plan_.optimizer = trainer_->optimizer_bytes();
    });
  }

  // Returns the bytes of the activations that the first micro-batch stores, and counts the prepared
  // batches.
  std::int64_t activations() {
    const Dataset& data = task_->training_data();
    const std::int64_t count = config_[key::batch_size] / config_[key::micro_batches];
    Sampler sampler = make_sampler(*task_, config_);
    const DryRun dry_run;
    const std::int64_t without = bytes_in_use();
    const Batch batch = data.batch(sampler.next(count));
    const std::int64_t before = bytes_in_use();
    const MicroBatchRange own =
        micro_batches_of_rank(config_[key::micro_batches], ranks_.rank(), ranks_.size());
    plan_.batches = Loader::ahead * (own.last - own.first) * (before - without);
    Random noise(seed_of(config_), Stream::dropout);
    Tape tape;
    const Loss loss = task_->loss(batch, {.training = true, .noise = &noise});
    return bytes_in_use() - before;
  }

  std::int64_t evaluate(const Dataset& data) {
    const EvaluationOptions options(config_);
    const MicroBatchRange own =
        micro_batches_of_rank(evaluation_batches(data, options), ranks_.rank(), ranks_.size());
    return peak_of_batches(own.last - own.first, seconds_, [&](std::int64_t i) {
      const DryRun dry_run;
      evaluate_batch(*task_, data, options, own.first + i);
    });
  }

  std::int64_t save() {
    const DryRun dry_run;
    reset_peak_memory();
    plan_.checkpoint = plan_.weights + bytes_of(trainer_->optimizer_state());
    return memory_use().peak_bytes_in_use;
  }

  const Config& config_;
  double seconds_;
  std::int64_t before_, held_before_;  // bytes of other arrays, and of their blocks
  std::atomic<bool> stop_ = false;
  Ranks ranks_;
  std::unique_ptr<Task> task_;
  std::optional<Trainer> trainer_;
  MemoryPlan plan_;
};

}  // namespace

std::int64_t MemoryPlan::peak() const {
  return std::max({step_peak, evaluation_peak, checkpoint_peak});
}

MemoryPlan plan_memory(const Config& config, const MemoryPlanOptions& options) {
  forget_reserved_memory();
  const IdleSetAside fresh;
  const MemoryPlan plan = DryTraining(config, options).run();
  forget_reserved_memory();
  return plan;
}

MemoryPlan plan_fullest(const Config& config, const MemoryPlanOptions& options) {
  MemoryPlanOptions of_rank = options;
  of_rank.rank = 0;
  MemoryPlan fullest = plan_memory(config, of_rank);
  const bool has_uneven_shards = fullest.has_uneven_shards;
  for (int rank = has_uneven_shards ? 1 : std::max(1, options.ranks - 1); rank < options.ranks;
       ++rank) {
    of_rank.rank = rank;
    MemoryPlan plan = plan_memory(config, of_rank);
    if (plan.held > fullest.held) fullest = std::move(plan);
  }
  return fullest;
}

}  // namespace tapestry
