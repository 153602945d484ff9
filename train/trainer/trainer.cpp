#include "train/trainer/trainer.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "autograd/buffer_pool.hpp"
#include "autograd/checksum.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/parallel.hpp"
#include "data/text/text.hpp"
#include "train/config/keys.hpp"
#include "train/distributed/sharding.hpp"
#include "train/trainer/callbacks/profile.hpp"
#include "train/trainer/callbacks/skipped_steps.hpp"
#include "train/trainer/evaluation.hpp"
#include "train/trainer/explanation.hpp"

namespace tapestry {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void add(MetricSums& to, const MetricSums& from) {
  for (const auto& [name, average] : from) to[name] += average;
}

std::int64_t size_of_file(const std::string& path) {
  std::error_code missing;
  const std::uintmax_t size = std::filesystem::file_size(path, missing);
  return missing ? 0 : static_cast<std::int64_t>(size);
}

// Of what was read from data.path; empty where the config alone says what the data are.
std::string data_checksum(Task& task, const Config& config) {
  if (config[key::data_path].empty()) return "";
  Checksum sum;
  task.training_data().add_to(sum);
  task.validation_data().add_to(sum);
  return sum.hex();
}

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

double sum_of_counts(const std::vector<std::vector<double>>& of_ranks) {
  double sum = 0;
  for (const std::vector<double>& counts : of_ranks)
    for (const double count : counts) sum += count;
  return sum;
}

// While it lives, the model has the averages, if there are any.
class Averaged {
 public:
  explicit Averaged(std::optional<AveragedWeights>& average) : average_(average) {
    if (average_) average_->exchange();
  }
  ~Averaged() {
    if (average_) average_->exchange();
  }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  std::optional<AveragedWeights>& average_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Config& config,
                                          std::vector<Parameter*> parameters) {
  const OptimizerType& type = optimizer_registry().at(config[key::optimizer]);
  OptimizerValues values;
  for (const OptimizerSetting& setting : type.settings)
    values[setting.name] = std::visit(
        [&]<class T>(T) -> OptimizerValue {
          return std::get<T>(config.value(key::of_optimizer(setting.name)));
        },
        setting.fallback);
  return type.make(std::move(parameters), values);
}

Schedule make_schedule(const Config& config) {
  return {.decay = config[key::schedule],
          .peak = config[key::learning_rate],
          .floor = config[key::final_learning_rate],
          .warmup = config[key::warmup_steps],
          .steps = config[config[key::decay_steps] > 0 ? key::decay_steps : key::steps]};
}

void expect_same_data(const Run& run, const TrainingState& before, const TrainingState& now,
                      const Config& config) {
  expect_input(before.examples == now.examples,
               "{}: trained on {} examples so far, {} = {} holds {}: not the same data",
               run.folder(), before.examples, key::data_path.name,
               printable_beginning(config[key::data_path]), now.examples);
  expect_input(before.data.empty() || before.data == now.data,
               "{}: {} = {} holds as many examples as were trained on so far, but others: not the "
               "same data; give the run its own again, or begin another with --out",
               run.folder(), key::data_path.name, printable_beginning(config[key::data_path]));
}

Trainer::Trainer(Task& task, const Config& config, Run run, const Checkpoint* checkpoint,
                 const std::atomic<bool>& stop, Ranks& ranks, const TrainerOptions& options)
    : task_(task),
      config_(config),
      run_(std::move(run)),
      lock_(options.lock),
      stop_(stop),
      parameters_(task.model().parameters()),
      ranks_(ranks),
      optimizer_(make_optimizer(config, parameters_)),
      sum_(ranks, parameters_,
           {.micro_batches = config[key::micro_batches],
            .kept = config[key::shard_optimizer] ? Kept::own_shard : Kept::all}),
      shards_(config[key::shard_optimizer] && !ranks.alone()),
      schedule_(make_schedule(config)),
      loader_(task.training_data(), make_sampler(task, config),
              {.batch_size = config[key::batch_size],
               .micro_batches = config[key::micro_batches],
               .first_micro_batch = sum_.first(),
               .end_micro_batch = sum_.last(),
               .dry_run = is_dry_run()}),
      state_(checkpoint ? checkpoint->state : TrainingState{}),
      recorders_(options.recorders),
      profile_(options.profile),
      until_(options.until) {
  set_check_finite(config[key::check_finite]);
  if (shards_) optimizer_->keep_to(sum_.own_shard());
  state_.examples = task.training_data().size();
  state_.data = data_checksum(task, config);
  if (checkpoint) {
    expect_same_data(run_, checkpoint->state, state_, config);
    restore_parameters(*checkpoint, task.model());
    restore_optimizer(*checkpoint, *optimizer_);
    reached_ = is_out_of_patience();
    loader_.seek(state_.position);
    if (checkpoint->path == run_.checkpoint()) saved_step_ = state_.step;
  }
  if (config[key::average_decay] > 0) {
    average_.emplace(parameters_, config[key::average_decay]);
    if (checkpoint) {
      restore_weights(*checkpoint, *average_);
      average_->exchange();
    }
  }
  started_at_s_ = now_s() - state_.elapsed_s;
  logged_at_s_ = elapsed_s();
}

void Trainer::record(const MetricsLine& line) {
  for (Recorder* recorder : recorders_) recorder->write(line);
}

void Trainer::log(const std::string& text) {
  for (Recorder* recorder : recorders_) recorder->log(text);
}

double Trainer::elapsed_s() const { return now_s() - started_at_s_; }

Metrics Trainer::train() {
  const std::int64_t steps = config_[key::steps];
  for (Recorder* recorder : recorders_) recorder->resume_at(state_.step, !state_.evaluation_due);
  Metrics last;
  if (state_.evaluation_due) {
    last = evaluate_and_keep_best();
    saved_step_ = -1;  // what was saved does not know of it
  }
  while (state_.step < steps && !stops() && !reached_) {
    const MetricSums averages = profile_ ? profiled_step() : step();
    if (due(state_.step, config_[key::log_every])) log(averages);
    const bool finished = state_.step == steps;
    state_.evaluation_due = is_evaluated(state_.step);
    if (state_.evaluation_due) look();
    if (state_.evaluation_due) last = evaluate_and_keep_best();
    if (finished || due(state_.step, config_[key::checkpoint_every])) save_checkpoint_of_step();
  }
  for (Recorder* recorder : recorders_) recorder->finish();
  if (profile_) report_profile();
  if (state_.bad_steps > 0)
    log(fmt::format("{} of {} steps were bad, and left out ({})\n", state_.bad_steps, state_.step,
                    key::max_bad_steps.name));
  if (saved_step_ != state_.step) save_checkpoint_of_step();
  if ((state_.step < steps && !reached_) || state_.evaluation_due) return {};
  return last.empty() ? evaluation_line().values : last;
}

bool Trainer::is_evaluated(std::int64_t step) const {
  return step == config_[key::steps] || due(step, config_[key::eval_every]);
}

// It is not training time. The other ranks wait, for rank 0's recorders alone.
void Trainer::look() {
  const double before = elapsed_s();
  ranks_.agree("the look", [&] {
    const Averaged averaged(average_);
    for (Recorder* recorder : recorders_)
      recorder->look(state_.step, gradients_ ? &*gradients_ : nullptr);
  });
  gradients_.reset();
  logged_at_s_ += elapsed_s() - before;
}

// One that is told to stop tells the others with its next step.
bool Trainer::stops() const { return ranks_.alone() ? stop_.load() : stopping_; }

MetricSums Trainer::profiled_step() {
  if (++steps_here_ <= profile_skipped_steps) return step();
  profile::start();
  MetricSums averages = step();
  const std::vector<profile::Event> events = profile::stop();
  events_.insert(events_.end(), events.begin(), events.end());
  if (steps_here_ == profile_skipped_steps + profile_steps) report_profile();
  return averages;
}

// Once: the training goes on without.
void Trainer::report_profile() {
  profile_ = false;
  const std::int64_t steps = steps_here_ - profile_skipped_steps;
  std::string table;
  if (steps > 0) {
    table = profile_table(events_, steps);
    lock_->replace(run_.trace(), {profile_trace(events_)});
    lock_->replace(run_.profile(), {table});
  }
  log(steps > 0 ? fmt::format("{}{}: open it with https://ui.perfetto.dev or chrome://tracing\n",
                              table, run_.trace())
                : fmt::format("no profile: it looks at the steps after the first {}\n",
                              profile_skipped_steps));
  if (!ranks_.alone() && steps > 0)
    log(fmt::format("{}: {:.2f} MB sent a step; {:.2f} ms of messages, {:.2f} ms waited for them\n",
                    ranks_.name(ranks_.rank()), ranks_.bytes_sent() / 1e6 / steps_here_,
                    sum_.seconds_under_way() * 1e3 / steps_here_,
                    sum_.seconds_waited() * 1e3 / steps_here_));
}

// One step of the optimiser, unless it is bad and may be left out.
MetricSums Trainer::step() try {
  ranks_.at_step(state_.step + 1);
  const ComputedStep computed = compute();
  const std::string fault =
      fault_of_step(computed.averages.at("loss").value(), computed.clip.norm, config_, state_);
  gradient_norm_ = computed.clip.norm;
  if (fault.empty())
    move(computed);
  else
    pass_over(computed, fault);
  ++state_.step;
  state_.position = loader_.position();
  return computed.averages;
} catch (const OutOfMemory& error) {
  config_.fail(key::batch_size, fmt::format("step {}: {}; lower it, or raise train.micro_batches",
                                            state_.step + 1, error.what()));
} catch (const InputError&) {
  throw;
} catch (const std::runtime_error& error) {
  throw failure(state_.step + 1, error);
}

// The parts' sums are divided by the count of them all, so that they weigh as they would in one
// batch. What is measured of them is added up in their order, as gradients are.
ComputedStep Trainer::compute() {
  StepInputs inputs{.task = task_,
                    .config = config_,
                    .step = state_.step,
                    .position = state_.position,
                    .first_micro_batch = sum_.first(),
                    .batches = loader_.next()};
  profile::mark(profile::Phase::step, "wait for batch", nullptr, 0);
  std::vector<double> counts;
  for (const Batch& batch : inputs.batches) counts.push_back(batch.count);
  auto all_counts = ranks_.begin_gather(std::move(counts), "the counts");
  std::vector<MicroBatchMetrics> measured;
  for (std::size_t i = 0; i < inputs.batches.size(); ++i) try {
      Tape tape;
      Loss loss = inputs.loss(i);
      if (i == 0) inputs.count = sum_of_counts(ranks_.end_gather(std::move(all_counts)));
      sum_.add(tape, loss.objective, 1 / inputs.count);
      measured.push_back({.told_to_stop = stop_.load(),
                          .units = task_.units(inputs.batches[i]),
                          .averages = std::move(loss.averages)});
    } catch (const NonFiniteError& error) {  // of train.check_finite
      throw NonFiniteError(fmt::format("{}; {}", error.what(), examples_of_micro_batch(inputs, i)));
    }
  auto all_measured = ranks_.begin_gather(std::move(measured), "the losses");
  Gradients gradients = sum_.finish();
  const Clip clipped = sum_.clip(config_[key::clip_norm]);
  return {.inputs = std::move(inputs),
          .averages = add_measured(ranks_.end_gather(std::move(all_measured))),
          .gradients = std::move(gradients),
          .clip = clipped};
}

void Trainer::move(const ComputedStep& computed) {
  optimizer_->step(computed.gradients, learning_rate(), computed.clip.scale);
  if (shards_) pass_parameters_on(sum_, parameters_);
  if (average_) average_->follow(optimizer_->steps());
  remember_norm(computed.clip.norm, config_, state_);
  if (is_evaluated(state_.step + 1) && !shards_ && !recorders_.empty())
    gradients_ = computed.gradients;
}

// What no step may be left out for any more ends the training, with what is known of it.
void Trainer::pass_over(const ComputedStep& computed, const std::string& fault) {
  const std::int64_t most = config_[key::max_bad_steps];
  if (++state_.bad_steps <= most) {
    log(fmt::format("step {}: left out: {} (bad step {} of at most {})\n", state_.step + 1, fault,
                    state_.bad_steps, most));
    return;
  }
  const std::string explanation = explain_step(computed.inputs, ranks_);
  const std::string excess =
      most == 0 ? "" : fmt::format(", a bad step more than {} = {}", key::max_bad_steps.name, most);
  ranks_.found_by_all();
  throw std::runtime_error(fmt::format("{}{}: {}", fault, excess, explanation));
}

MetricSums Trainer::add_measured(const std::vector<std::vector<MicroBatchMetrics>>& of_ranks) {
  MetricSums averages;
  for (const std::vector<MicroBatchMetrics>& micro_batches : of_ranks)
    for (const MicroBatchMetrics& measured : micro_batches) {
      stopping_ |= measured.told_to_stop;
      units_since_log_ += measured.units;
      add(averages, measured.averages);
    }
  return averages;
}

// What ends the run, with where it stood.
std::runtime_error Trainer::failure(std::int64_t step, const std::runtime_error& error) const {
  return std::runtime_error(fmt::format("step {}: {}{}", step, error.what(), what_is_kept()));
}

// "" of a training that is kept nowhere.
std::string Trainer::what_is_kept() const {
  if (run_.folder().empty()) return "";
  const Run run(lock_ ? lock_->where() : run_.folder());
  if (run.folder().empty()) return fmt::format("; {} was removed meanwhile", run_.folder());
  const bool has_saved = size_of_file(run.checkpoint()) + size_of_file(run.best()) > 0;
  return has_saved ? fmt::format("; what was saved before stays in {}", run.folder())
                   : fmt::format("; {} has no checkpoint yet", run.folder());
}

MetricsLine Trainer::training_line(const MetricSums& averages) const {
  MetricsLine line{.step = state_.step,
                   .split = "train",
                   .values = values_of(averages),
                   .elapsed_s = elapsed_s()};
  task_.add_derived_metrics(line.values);
  line.values["lr"] = schedule_.at(state_.step - 1);
  line.values["grad_norm"] = gradient_norm_;
  if (config_[key::max_bad_steps] > 0)
    line.values["bad_steps"] = static_cast<double>(state_.bad_steps);
  return line;
}

void Trainer::log(const MetricSums& averages) {
  MetricsLine line = training_line(averages);
  line.values[std::string(task_.unit()) + "_per_s"] =
      units_since_log_ / (line.elapsed_s - logged_at_s_);
  record(line);
  units_since_log_ = 0;
  logged_at_s_ = elapsed_s();
}

// All ranks have the same parameters, and only rank 0 takes anything down.
MetricsLine Trainer::evaluation_line() {
  const Averaged averaged(average_);
  MetricsLine line{.step = state_.step,
                   .split = "val",
                   .values = evaluate(task_, task_.validation_data(), config_, &stop_, ranks_),
                   .signatures = task_.signatures()};
  if (!line.values.empty() && ranks_.rank() == 0) {
    line.checksums["parameters"] = checksums_of(tensors_of(task_.model(), {}));
    if (average_) line.checksums["weights"] = checksums_of(average_->arrays());
  }
  line.elapsed_s = elapsed_s();
  return line;
}

Checksums Trainer::checksums() {
  OptimizerState optimizer = optimizer_state();
  const Averaged averaged(average_);
  return checksums_of(tensors_of(task_.model(), optimizer));
}

bool Trainer::is_out_of_patience() const {
  const std::int64_t patience = config_[key::early_stopping];
  return patience > 0 && state_.patience_counter >= patience;
}

Metrics Trainer::evaluate_and_keep_best() try {
  const double before = elapsed_s();
  const MetricsLine line = evaluation_line();
  stopping_ |= line.values.empty();
  if (line.values.empty()) return {};  // stopped: it is still due
  state_.evaluation_due = false;
  if (!std::isfinite(line.values.at("loss"))) fail_evaluation(line.values.at("loss"));
  record(line);
  const double loss = line.values.at("loss");
  const bool improved = loss < state_.improved_loss - config_[key::min_delta];
  state_.patience_counter = improved ? 0 : state_.patience_counter + 1;
  if (improved) state_.improved_loss = loss;
  reached_ = (until_ && until_(line)) || is_out_of_patience();
  if (loss < state_.best_loss) {
    state_.best_loss = loss;
    save(run_.best());
  }
  if (is_out_of_patience())
    log(fmt::format("ends after step {}: {} evaluations gained nothing ({})\n", state_.step,
                    state_.patience_counter, key::early_stopping.name));
  logged_at_s_ += elapsed_s() - before;  // evaluation is not training time
  return line.values;
} catch (const InputError&) {
  throw;
} catch (const FolderLost&) {
  throw;
} catch (const std::runtime_error& error) {
  throw failure(state_.step, error);
}

std::int64_t Trainer::optimizer_bytes() const {
  std::int64_t bytes = 0;
  for (const Optimizer::Slot& slot : optimizer_->state())
    bytes += static_cast<std::int64_t>(slot.values.bytes());
  return bytes;
}

// Found by all ranks, and looked into by the first.
void Trainer::fail_evaluation(double loss) {
  std::string op;
  ranks_.agree("the explanation", [&] {
    const Averaged averaged(average_);
    if (ranks_.rank() == 0) op = explain_evaluation(task_, task_.validation_data(), config_);
  });
  ranks_.found_by_all();
  throw std::runtime_error(
      fmt::format("the validation loss is {}{}{}", loss, op.empty() ? "" : ": ", op));
}

void Trainer::save_checkpoint_of_step() {
  save(run_.checkpoint());
  saved_step_ = state_.step;
}

// A step may overflow the parameters after a finite loss: such a checkpoint would replace a good
// one.
void Trainer::save(const std::string& path) {
  for (const Parameter* parameter : parameters_)
    if (!std::isfinite(sum_of_squares(parameter->value()))) {
      ranks_.found_by_all();
      throw failure(state_.step,
                    std::runtime_error(fmt::format(
                        "parameter {} is not finite: the optimiser moved it too far; lower {}, or "
                        "give {} a limit",
                        parameter->name, key::learning_rate.name, key::clip_norm.name)));
    }
  const OptimizerState optimizer = optimizer_state();
  if (!lock_) return;
  for (Recorder* recorder : recorders_) recorder->sync();
  state_.elapsed_s = elapsed_s();
  const Averaged averaged(average_);
  save_checkpoint([&](const auto& parts) { lock_->replace(path, parts); }, task_, optimizer,
                  config_, state_);
}

// By all: what a checkpoint keeps beside the parameters, at rank 0. Where these are an average, the
// weights that are trained stand in its arrays while the model has the average.
OptimizerState Trainer::optimizer_state() {
  OptimizerState state =
      shards_ ? gather_state(sum_, *optimizer_, ranks_) : whole_state(*optimizer_);
  if (average_) state.insert(state.end(), average_->arrays().begin(), average_->arrays().end());
  return state;
}

}  // namespace tapestry
