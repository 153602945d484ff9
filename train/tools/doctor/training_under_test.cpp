#include "train/tools/doctor/training_under_test.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/kernels/broadcast.hpp"
#include "autograd/tape.hpp"
#include "train/config/keys.hpp"
#include "train/measure/machine.hpp"
#include "train/trainer/begin_task.hpp"

namespace tapestry {
namespace {

constexpr double longest_example_s = 0.25;  // time of the forward and backward pass
constexpr double longest_step_s = 0.4;
constexpr std::int64_t shortest_training = 100;  // a shorter schedule would end during a check
constexpr std::int64_t shortest_context = 64;
constexpr std::int64_t smallest_batch = 2;

const Key<std::int64_t> context_key{"model.context", 0, "tokens the model sees"};

}  // namespace

TrainingUnderTest::TrainingUnderTest(ConfigWith config_with, std::optional<TrainingPlan> plan)
    : config_with_(std::move(config_with)), plan_(std::move(plan)), config_(config_with_({})) {
  config_.set(key::steps, std::max(shortest_training, config_[key::steps]));
  task_ = begin_task(config_);
  measure_step();
  shorten_context();
  shrink_batch();
  for (const Parameter* parameter : parameters())
    first_values_.push_back(parameter->value().clone());
}

// Measures the time of the forward and backward pass of one example: of a second pass, when buffers
// exist, unless the first is slow.
void TrainingUnderTest::measure_step() {
  const Examples one = training_examples(1);
  const auto pass = [&] {
    Tape tape;
    tape.backward(quiet_loss(*task_, config_, one).objective);
  };
  try {
    const double first = time_once(pass);
    step_s_ = first > longest_example_s ? first : std::min(first, time_once(pass));
  } catch (const std::invalid_argument&) {
    step_s_ = 0;  // a later check reports the fault of the data
  }
}

// Shortens the context if the forward and backward pass of one example takes longer than
// longest_example_s, unless the context has at most shortest_context tokens or the task refuses the
// shorter one.
void TrainingUnderTest::shorten_context() {
  const std::int64_t context = config_.has(context_key.name) ? config_[context_key] : 0;
  if (context <= shortest_context || step_s_ <= longest_example_s) return;
  const double wanted = static_cast<double>(context) * longest_example_s / step_s_;
  const auto power = std::bit_floor(static_cast<std::uint64_t>(std::max(1.0, wanted)));
  Config shorter = config_;
  shorter.set(context_key, std::max(shortest_context, static_cast<std::int64_t>(power)));
  try {
    std::unique_ptr<Task> task = begin_task(shorter);
    task_ = std::move(task);
  } catch (const InputError&) {
    return;
  }
  config_ = shorter;
  remark_ = fmt::format("{} = {}", context_key.name, config_[context_key]);
  measure_step();
}

void TrainingUnderTest::shrink_batch() {
  if (task_->is_computed_whole()) return;
  const std::int64_t batch = config_[key::batch_size];
  const auto fitting =
      std::max(smallest_batch, static_cast<std::int64_t>(longest_step_s / std::max(1e-6, step_s_)));
  if (fitting < batch) {
    config_.set(key::batch_size, fitting);
    config_.set(key::micro_batches, std::int64_t{1});
    remark_ += fmt::format("{}{} = {}", remark_.empty() ? "" : ", ", key::batch_size.name,
                           config_[key::batch_size]);
  }
  step_s_ *= static_cast<double>(config_[key::batch_size]);
}

void TrainingUnderTest::reset() {
  is_reset_in_float64_ = false;
  const std::vector<Parameter*> all = parameters();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->tensor.dtype() != first_values_[i].dtype())
      all[i]->convert(first_values_[i].dtype());
    all[i]->value().copy_from(first_values_[i]);
  }
}

TrainingUnderTest::Growth TrainingUnderTest::largest_growth() {
  Growth largest;
  const std::vector<Parameter*> all = parameters();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double first = sum_of_squares(first_values_[i]);
    if (!is_weight(all[i]->role) || first == 0) continue;
    const double factor = std::sqrt(sum_of_squares(all[i]->value()) / first);
    if (factor > largest.factor) largest = {all[i]->name, factor};
  }
  return largest;
}

void TrainingUnderTest::reset_in_float64() {
  if (is_reset_in_float64_) return;
  reset();
  convert_for_gradcheck(task_->model());
  is_reset_in_float64_ = true;
}

const DatasetStatistics& TrainingUnderTest::training_statistics() {
  if (!training_) training_ = dataset_statistics(task_->training_data());
  return *training_;
}

const std::vector<EvaluationSplit>& TrainingUnderTest::evaluation_splits() {
  if (!evaluation_splits_.empty()) return evaluation_splits_;
  for (const auto& [name, data] :
       {std::pair{"validation", &task_->validation_data()}, {"test", task_->test_data()}})
    if (data != nullptr) evaluation_splits_.push_back({name, data, dataset_statistics(*data)});
  return evaluation_splits_;
}

Examples TrainingUnderTest::training_examples(std::int64_t count) const {
  const Dataset& data = task_->training_data();
  return examples_of(data, make_sampler(*task_, config_).next(std::min(count, data.size())));
}

Examples examples_of(const Dataset& data, std::vector<std::int64_t> numbers) {
  Batch batch = data.batch(numbers);
  return {.numbers = std::move(numbers), .batch = std::move(batch)};
}

Loss quiet_loss(Task& task, const Config& config, const Examples& examples) {
  std::vector<Random> noise;
  for (const std::int64_t number : examples.numbers)
    noise.emplace_back(seed_of(config), Stream::eval, static_cast<std::uint64_t>(number));
  return loss_of(task, examples.batch,
                 {.training = true, .step = config[key::steps], .noise_of_examples = noise});
}

namespace {

class ChosenExamples final : public Dataset {
 public:
  ChosenExamples(const Dataset& data, std::vector<std::int64_t> numbers)
      : data_(data), numbers_(std::move(numbers)) {}

  std::int64_t size() const override { return std::ssize(numbers_); }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<std::int64_t> numbers;
    for (const std::int64_t example : examples) numbers.push_back(numbers_[example]);
    return data_.batch(numbers);
  }

 private:
  const Dataset& data_;
  std::vector<std::int64_t> numbers_;
};

// The task under test in a trial: after any warm-up of the loss's terms, and if `chosen` are given,
// with only these examples and without dropout.
class TrialTask final : public Task {
 public:
  TrialTask(TrainingUnderTest& under_test, std::vector<std::int64_t> chosen)
      : task_(under_test.task()),
        config_(under_test.config()),
        numbers_(std::move(chosen)),
        chosen_(task_.training_data(), numbers_) {}

  Module& model() override { return task_.model(); }
  const Dataset& training_data() override {
    return numbers_.empty() ? task_.training_data() : chosen_;
  }
  const Dataset& validation_data() override { return task_.validation_data(); }
  std::vector<std::string> groups() const override { return task_.groups(); }
  Order order() const override { return numbers_.empty() ? task_.order() : Order::sequential; }
  Loss loss(const Batch& batch, const Pass& pass) override {
    if (!numbers_.empty()) return quiet_loss(task_, config_, {numbers_, batch});
    return task_.loss(batch, {.training = true, .step = config_[key::steps], .noise = pass.noise});
  }

 private:
  Task& task_;
  const Config& config_;
  std::vector<std::int64_t> numbers_;
  ChosenExamples chosen_;
};

// Returns the config of a trial, in which no step is skipped: the first step that is not finite
// ends the trial, but not the doctor.
Config config_of_trial(Config config, std::int64_t chosen, const std::string& optimizer) {
  config.set(key::max_bad_steps, std::int64_t{0});
  config.set(key::check_finite, false);
  if (!optimizer.empty()) {
    config.set(key::optimizer, optimizer);
    config.set(key::groups, std::vector<std::string>());  // their decay may not exist there
  }
  if (chosen == 0) return config;
  config.set(key::batch_size, chosen);
  config.set(key::micro_batches, std::int64_t{1});
  return config;
}

}  // namespace

TrialTraining::TrialTraining(TrainingUnderTest& under_test) : TrialTraining(under_test, {}) {}

TrialTraining::TrialTraining(TrainingUnderTest& under_test, const Examples& examples,
                             const std::string& optimizer)
    : config_(config_of_trial(under_test.config(), std::ssize(examples.numbers), optimizer)),
      task_(std::make_unique<TrialTask>(under_test, examples.numbers)),
      trainer_(*task_, config_, Run(""), nullptr, stop_, alone_) {}

double TrialTraining::step(double learning_rate) try {
  trainer_.follow({.peak = learning_rate});
  return trainer_.take_step().at("loss").value();
} catch (const NonFiniteError&) {
  return NAN;
}

void convert_for_gradcheck(Module& model) {
  model.convert(DType::float64);
  Random random(0, Stream::init);
  for (Parameter* parameter : model.parameters()) {
    if (parameter->role == Role::fixed) continue;
    Array value = parameter->value(), move(value.shape(), DType::float64);
    random.fill_normal(move, 0, 0.01);
    add_in_place(value, move);
  }
}

Batch in_float64(Batch batch) {
  if (batch.inputs.dtype() == DType::float32) batch.inputs = batch.inputs.to(DType::float64);
  return batch;
}

std::function<Tensor()> objective_in_float64(Task& task, const Config& config) {
  const Dataset& data = task.training_data();
  Sampler sampler = make_sampler(task, config);
  const std::int64_t count = std::min<std::int64_t>(2, data.size());
  return [&task, batch = in_float64(data.batch(sampler.next(count))), seed = seed_of(config),
          steps = config[key::steps]] {
    Random noise(seed, Stream::dropout);
    // After any warm-up, so that every term of the loss has its weight.
    return task.loss(batch, {.training = true, .step = steps, .noise = &noise}).objective;
  };
}

}  // namespace tapestry
