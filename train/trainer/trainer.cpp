#include "train/trainer/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "autograd/buffer_pool.hpp"
#include "autograd/clock.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/profile.hpp"
#include "train/config/keys.hpp"
#include "train/distributed/sharding.hpp"
#include "train/trainer/explanation.hpp"
#include "train/trainer/open_run.hpp"

namespace tapestry {
namespace {

bool has_bytes(const std::string& path) {
  std::error_code missing;
  const std::uintmax_t size = std::filesystem::file_size(path, missing);
  return !missing && size > 0;
}

bool is_due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

// Returns a sentence on the checkpoint from which a failed training can be resumed; "" if none is
// written.
std::string what_is_kept(const Run& run, const RunLock* lock) {
  if (run.folder().empty()) return "";
  const Run now(lock ? lock->where() : run.folder());
  if (now.folder().empty()) return fmt::format("; {} was removed meanwhile", run.folder());
  return has_bytes(now.checkpoint()) || has_bytes(now.best()) || has_bytes(now.before_decay())
             ? fmt::format("; the checkpoints in {} are kept", now.folder())
             : fmt::format("; {} has no checkpoint yet", now.folder());
}

}  // namespace

Trainer::Trainer(Task& task, const Config& config, Run run, const Checkpoint* checkpoint,
                 const std::atomic<bool>& stop, Ranks& ranks, RunLock* lock)
    : task_(task),
      config_(config),
      evaluation_(config),
      run_(std::move(run)),
      lock_(lock),
      stop_(stop),
      ranks_(ranks),
      optimizer_(make_optimizer(config, task.model().parameters())),
      schedule_(make_schedule(config)),
      sums_(ranks, *optimizer_, config),
      loader_(task.training_data(), make_sampler(task, config),
              {.batch_size = config[key::batch_size],
               .micro_batches = config[key::micro_batches],
               .first_micro_batch = gradients().first(),
               .end_micro_batch = gradients().last(),
               .dry_run = is_dry_run()}),
      state_(checkpoint ? checkpoint->state : TrainingState{}) {
  set_check_finite(config[key::check_finite]);
  if (sums_.keeps_own_shard()) optimizer_->keep_to(gradients().own_shard());
  TrainingState initial = initial_state(task, config);
  state_.examples = initial.examples;
  state_.data = std::move(initial.data);
  state_.splits = std::move(initial.splits);
  if (checkpoint) {
    const Run named = run_.folder().empty() ? Run(checkpoint->path) : run_;
    expect_same_data(named, checkpoint->state, state_, config);
    restore_parameters(*checkpoint, task.model());
    restore_optimizer(*checkpoint, *optimizer_);
    loader_.seek(state_.position);
    if (checkpoint->path == run_.checkpoint() || checkpoint->path == run_.before_decay())
      saved_step_ = state_.step;
  }
  const auto log_to_all = [this](const std::string& message) { log(message); };
  if (averages_weights(config)) add(average_weights(*optimizer_, config[key::average_decay]));
  add(skip_steps(config, state_, ranks, log_to_all));
  add(stop_early(config, state_, log_to_all));
  if (checkpoint)
    for (const auto& callback : callbacks_) callback->restore(*checkpoint);
  started_s_ = now_s() - state_.elapsed_s;
  units_from_s_ = now_s();
}

void Trainer::log(const std::string& message) {
  for (const auto& callback : callbacks_) callback->on_message(message);
}

Metrics Trainer::train() {
  const std::int64_t steps = config_[key::steps];
  for (const auto& callback : callbacks_) callback->on_begin(state_.step, !state_.evaluation_due);
  Metrics last;
  if (state_.evaluation_due) {
    last = evaluate_and_record();
    saved_step_ = -1;  // the checkpoint that was resumed does not have this evaluation
  }
  while (state_.step < steps && !is_stopped() && !is_ended()) {
    if (schedule_.decay == Decay::stable_linear && state_.step == schedule_.stable_steps()) {
      if (lock_) lock_->keep_best_before_decay();
      save(run_.before_decay());
    }
    const MetricSums averages = step();
    if (is_due(state_.step, config_[key::log_every])) record_training(averages);
    state_.evaluation_due = is_evaluated(state_.step, config_);
    if (state_.evaluation_due) {
      inspect();
      last = evaluate_and_record();
    }
    if (state_.step == steps || is_due(state_.step, config_[key::checkpoint_every]))
      save_checkpoint_of_step();
  }
  for (const auto& callback : callbacks_) callback->on_end();
  if (saved_step_ != state_.step) save_checkpoint_of_step();
  if ((state_.step < steps && !is_ended()) || state_.evaluation_due) return {};
  return last.empty() ? evaluation_line().values : last;
}

MetricSums Trainer::take_step() {
  ranks_.at_step(state_.step + 1);
  for (const auto& callback : callbacks_) callback->on_step_begin();
  ComputedStep computed = compute();
  is_told_to_stop_ |= computed.is_told_to_stop;
  units_ += computed.units;
  const bool moves = std::ranges::all_of(
      callbacks_, [&](const auto& callback) { return callback->accepts(computed); });
  if (moves) update(computed);
  for (const auto& callback : callbacks_) callback->on_step_end(computed, moves);
  ++state_.step;
  state_.position = get_batch_ ? state_.step * config_[key::batch_size] : loader_.position();
  MetricSums averages = std::move(computed.averages);
  averages["grad_norm"] = {computed.clip.norm, 1};
  return averages;
}

MetricSums Trainer::step() try { return take_step(); } catch (const OutOfMemory& error) {
  throw ModelTooLarge(fmt::format("{}: step {}: {}; lower {}, or raise {}",
                                  config_.origin(key::batch_size.name).text, state_.step + 1,
                                  error.what(), key::batch_size.name, key::micro_batches.name));
} catch (const InputError&) {
  throw;
} catch (const std::runtime_error& error) {
  fail(state_.step + 1, error);
}

ComputedStep Trainer::compute() {
  StepInputs inputs{.task = task_,
                    .config = config_,
                    .step = state_.step,
                    .position = state_.position,
                    .first_micro_batch = gradients().first(),
                    .batches = next_batches(),
                    .are_given = bool(get_batch_)};
  profile::mark(profile::Phase::step, "wait for batch", nullptr, 0);
  sums_.begin(inputs);
  for (std::size_t i = 0; i < inputs.batches.size(); ++i) try {
      Tape tape;
      Loss loss = inputs.loss(i);
      inputs.count = sums_.count();
      sums_.add(tape, std::move(loss), task_.units(inputs.batches[i]), stop_);
    } catch (const NonFiniteError& error) {  // due to train.check_finite
      throw NonFiniteError(fmt::format("{}; {}", error.what(), examples_of_micro_batch(inputs, i)));
    }
  return sums_.finish(std::move(inputs));
}

std::vector<Batch> Trainer::next_batches() {
  if (!get_batch_) return loader_.next();
  std::vector<Batch> batches;
  for (std::int64_t i = gradients().first(); i < gradients().last(); ++i)
    batches.push_back(get_batch_(state_.step * config_[key::micro_batches] + i));
  return batches;
}

std::unique_lock<FairLock> Trainer::changing_weights() const {
  return shared_ ? std::unique_lock(*shared_) : std::unique_lock<FairLock>();
}

void Trainer::update(const ComputedStep& computed) {
  const auto lock = changing_weights();
  optimizer_->step(computed.gradients, learning_rate(), computed.clip.scale);
  if (sums_.keeps_own_shard()) pass_parameters_on(sums_.gradients(), optimizer_->parameters());
}

// Returns whether the training was told to stop. A rank that is told so passes this on to the
// others with its next step.
bool Trainer::is_stopped() const { return ranks_.alone() ? stop_.load() : is_told_to_stop_; }

bool Trainer::is_ended() const {
  return std::ranges::any_of(callbacks_,
                             [](const auto& callback) { return callback->ends_training(); });
}

// A guard under which the model has the weights that are evaluated, shown and saved.
class Trainer::ExchangedWeights final {
 public:
  explicit ExchangedWeights(const Trainer& trainer) : callbacks_(trainer.callbacks_) {
    if (averages_weights(trainer.config_)) lock_ = trainer.changing_weights();
    for (const auto& callback : callbacks_) callback->exchange_weights();
  }
  ~ExchangedWeights() {
    for (const auto& callback : callbacks_) callback->exchange_weights();
  }
  ExchangedWeights(const ExchangedWeights&) = delete;
  ExchangedWeights& operator=(const ExchangedWeights&) = delete;

 private:
  const std::vector<std::shared_ptr<Callback>>& callbacks_;
  std::unique_lock<FairLock> lock_;
};

// Calls before_evaluation() of this rank's callbacks; its time is excluded from the throughput. The
// ranks wait for each other, because rank 0 has more callbacks than the others.
void Trainer::inspect() {
  const double before = now_s();
  ranks_.agree("the inspection", [&] {
    const ExchangedWeights exchanged(*this);
    for (const auto& callback : callbacks_) callback->before_evaluation(state_.step);
  });
  units_from_s_ += now_s() - before;
}

MetricsLine Trainer::training_line(const MetricSums& averages) const {
  MetricsLine line{.step = state_.step,
                   .split = "train",
                   .values = values_of(averages),
                   .elapsed_s = now_s() - started_s_};
  task_.add_derived_metrics(line.values);
  line.values["lr"] = schedule_.at(state_.step - 1);
  if (config_[key::max_bad_steps] > 0)
    line.values["bad_steps"] = static_cast<double>(state_.skipped.count);
  return line;
}

void Trainer::record_training(const MetricSums& averages) {
  MetricsLine line = training_line(averages);
  line.values[std::string(task_.unit()) + "_per_s"] = units_ / (now_s() - units_from_s_);
  record(line);
  units_ = 0;
  units_from_s_ = now_s();
}

void Trainer::record(const MetricsLine& line) {
  for (const auto& callback : callbacks_) callback->on_metrics(line);
}

Metrics Trainer::evaluate(const Dataset& data) {
  return tapestry::evaluate(task_, data, evaluation_, &stop_, ranks_);
}

void Trainer::expect_finite(const Metrics& values, const std::string& split, const Dataset& data) {
  tapestry::expect_finite(values, split, data, task_, evaluation_, ranks_);
}

void Trainer::record_test(const MetricsLine& tested) {
  record(tested);
  for (const auto& callback : callbacks_) callback->on_checkpoint();
}

MetricsLine Trainer::evaluation_line() {
  const ExchangedWeights exchanged(*this);
  MetricsLine line{.step = state_.step,
                   .split = "val",
                   .values = evaluate(task_.validation_data()),
                   .signatures = task_.signatures()};
  if (!line.values.empty() && ranks_.rank() == 0) {
    line.checksums["parameters"] = checksums_of(tensors_of(task_.model(), {}));
    OptimizerState weights;
    for (const auto& callback : callbacks_) callback->save(weights);
    if (!weights.empty()) line.checksums["weights"] = checksums_of(weights);
  }
  line.elapsed_s = now_s() - started_s_;
  return line;
}

// Evaluates the validation split, whose time is excluded from the throughput, and saves the best
// model. Returns the metrics; empty if stopped. Throws Diverged if the loss is not finite.
Metrics Trainer::evaluate_and_record() try {
  const double before = now_s();
  const MetricsLine line = evaluation_line();
  is_told_to_stop_ |= line.values.empty();
  if (line.values.empty()) return {};  // stopped: the evaluation will be done after resuming
  state_.evaluation_due = false;
  const double loss = line.values.at("loss");
  if (!std::isfinite(loss)) {
    const ExchangedWeights exchanged(*this);
    expect_finite({{"loss", loss}}, "validation", task_.validation_data());
  }
  record(line);
  if (loss < state_.best_loss) {
    state_.best_loss = loss;
    save(run_.best());
  }
  units_from_s_ += now_s() - before;
  return line.values;
} catch (const InputError&) {
  throw;
} catch (const FolderLost&) {
  throw;
} catch (const std::runtime_error& error) {
  fail(state_.step, error);
}

void Trainer::fail(std::int64_t step, const std::runtime_error& error) const {
  const std::string message =
      fmt::format("step {}: {}{}", step, error.what(), what_is_kept(run_, lock_));
  if (dynamic_cast<const NonFiniteError*>(&error)) throw Diverged(message);
  throw std::runtime_error(message);
}

void Trainer::save_checkpoint_of_step() {
  save(run_.checkpoint());
  saved_step_ = state_.step;
}

// A step can overflow parameters after a finite loss, and the checkpoint before is good.
void Trainer::expect_finite_parameters() {
  for (const Parameter* parameter : task_.model().parameters())
    if (!std::isfinite(sum_of_squares(parameter->value()))) {
      ranks_.found_by_all();
      fail(state_.step,
           Diverged(fmt::format(
               "parameter {} is not finite: a step changed this parameter too much; lower {}, or "
               "set {} = 1.0",
               parameter->name, key::learning_rate.name, key::clip_norm.name)));
    }
}

// Writes a checkpoint at rank 0, if the run has a folder. Throws as write_checkpoint() does.
void Trainer::save(const std::string& path) {
  if (lock_) return write_checkpoint([&](const auto& parts) { lock_->replace(path, parts); });
  expect_finite_parameters();
  optimizer_state();  // as all ranks do
}

void Trainer::write_checkpoint(const WriteParts& write) {
  expect_finite_parameters();
  const OptimizerState optimizer = optimizer_state();
  for (const auto& callback : callbacks_) callback->on_checkpoint();
  state_.elapsed_s = now_s() - started_s_;
  const ExchangedWeights exchanged(*this);
  save_checkpoint(write, task_, optimizer, config_, state_);
}

// Returns the arrays of a checkpoint. Those of callbacks are shared, so a later exchange of weights
// changes them.
OptimizerState Trainer::optimizer_state() {
  OptimizerState state = sums_.keeps_own_shard()
                             ? gather_state(sums_.gradients(), *optimizer_, ranks_)
                             : whole_state(*optimizer_);
  for (const auto& callback : callbacks_) callback->save(state);
  return state;
}

Checksums Trainer::checksums() {
  const OptimizerState optimizer = optimizer_state();
  const ExchangedWeights exchanged(*this);
  return checksums_of(tensors_of(task_.model(), optimizer));
}

bool Trainer::has_uneven_shards() const {
  return sums_.keeps_own_shard() &&
         std::ranges::any_of(optimizer_->parameters(), [&](const Parameter* parameter) {
           return optimizer_->updates_whole(*parameter);
         });
}

void Trainer::expect_data_of(const Run& run) const { expect_same_data(run, state_, config_); }

std::int64_t Trainer::optimizer_bytes() const {
  std::int64_t bytes = 0;
  for (const Optimizer::Slot& slot : optimizer_->state())
    bytes += static_cast<std::int64_t>(slot.values.bytes());
  return bytes;
}

}  // namespace tapestry
