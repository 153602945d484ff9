#include "train/trainer/step.hpp"

#include <map>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "train/config/keys.hpp"

namespace tapestry {

Sampler make_sampler(Task& task, const Config& config) {
  const Dataset& data = task.training_data();
  return Sampler(data.size(), task.order(), seed_of(config),
                 {.batch = config[key::batch_size], .lengths = data.lengths()});
}

namespace {

// Returns Σ ½ λ ‖θ‖² of the terms, of which there is one at least.
Tensor penalty_of(const std::vector<L2Term>& terms) {
  std::map<double, Tensor> squares;  // by λ
  for (const auto& [parameter, factor] : terms) {
    const Tensor of_one = sum(parameter->tensor * parameter->tensor);
    const auto [found, is_first] = squares.emplace(factor, of_one);
    if (!is_first) found->second = found->second + of_one;
  }
  Tensor total;
  for (const auto& [factor, of_factor] : squares) {
    const Tensor term = of_factor * (factor / 2);
    total = total.value().empty() ? term : total + term;
  }
  return total;
}

}  // namespace

Loss StepInputs::loss(std::size_t i) const {
  const std::int64_t micro_batch = first_micro_batch + static_cast<std::int64_t>(i);
  Random noise(seed_of(config), Stream::dropout,
               static_cast<std::uint64_t>(step * config[key::micro_batches] + micro_batch));
  Loss loss = loss_of(task, batches[i], {.training = true, .step = step, .noise = &noise});
  const std::vector<ParameterGroup> groups = l2_groups(config, task.groups());
  if (groups.empty()) return loss;
  const std::vector<L2Term> terms = l2_terms(groups, task.model().parameters());
  if (!terms.empty()) loss.objective = loss.objective + batches[i].count * penalty_of(terms);
  return loss;
}

std::vector<std::int64_t> StepInputs::examples() const {
  Sampler sampler = make_sampler(task, config);
  sampler.seek(position);
  return sampler.next(config[key::batch_size]);
}

std::vector<std::int64_t> StepInputs::examples(std::size_t i) const {
  const std::vector<std::int64_t> all = examples();
  const std::int64_t size = std::ssize(all) / config[key::micro_batches];
  const auto begin = all.begin() + (first_micro_batch + static_cast<std::int64_t>(i)) * size;
  return {begin, begin + size};
}

bool is_evaluated(std::int64_t step, const Config& config) {
  const std::int64_t every = config[key::eval_every];
  return step == config[key::steps] || (every > 0 && step % every == 0);
}

StepSums::StepSums(Ranks& ranks, const Optimizer& optimizer, const Config& config)
    : ranks_(ranks),
      clip_norm_(config[key::clip_norm]),
      keeps_own_shard_(config[key::shard_optimizer] && !ranks.alone()),
      gradients_(ranks, optimizer.parameters(),
                 {.micro_batches = config[key::micro_batches],
                  .kept = config[key::shard_optimizer] ? Kept::own_shard : Kept::all,
                  .is_undivided =
                      [&](const Parameter& parameter) {
                        return keeps_own_shard_ && optimizer.updates_whole(parameter);
                      },
                  .expects_no_others = true}) {}

void StepSums::begin(const StepInputs& inputs) {
  std::vector<double> counts;
  for (const Batch& batch : inputs.batches) counts.push_back(batch.count);
  counts_ = ranks_.begin_gather(std::move(counts), "the counts");
  count_.reset();
  measured_.clear();
}

double StepSums::count() {
  if (count_) return *count_;
  count_ = 0;
  for (const std::vector<double>& of_rank : ranks_.end_gather(std::move(counts_)))
    for (const double of_micro_batch : of_rank) *count_ += of_micro_batch;
  return *count_;
}

void StepSums::add(Tape& tape, Loss loss, double units, bool is_told_to_stop) {
  gradients_.add(tape, loss.objective, 1 / count());
  measured_.push_back({is_told_to_stop, units, std::move(loss.averages)});
}

ComputedStep StepSums::finish(StepInputs inputs) {
  auto measured = ranks_.begin_gather(std::move(measured_), "the losses");
  ComputedStep step{.inputs = std::move(inputs),
                    .averages = {},
                    .gradients = gradients_.finish(),
                    .has_all_gradients = !keeps_own_shard_,
                    .clip = {}};
  step.clip = gradients_.clip(clip_norm_);
  for (const std::vector<Measured>& of_rank : ranks_.end_gather(std::move(measured)))
    for (const Measured& one : of_rank) {
      step.is_told_to_stop |= one.is_told_to_stop;
      step.units += one.units;
      for (const auto& [name, average] : one.averages) step.averages[name] += average;
    }
  return step;
}

}  // namespace tapestry
