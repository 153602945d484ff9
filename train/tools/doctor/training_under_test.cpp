#include "train/tools/doctor/training_under_test.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "autograd/kernels/broadcast.hpp"
#include "optim/clip.hpp"
#include "train/config/keys.hpp"
#include "train/tools/doctor/gradient_check.hpp"
#include "train/trainer/begin_task.hpp"

namespace tapestry {
namespace {

constexpr double longest_example_s = 0.25;  // forward and back
constexpr double longest_step_s = 0.4;
constexpr std::int64_t shortest_training = 100;  // or a training ends before its gates have seen it
constexpr std::int64_t shortest_context = 64;
constexpr std::int64_t smallest_batch = 2;

const Key<std::int64_t> context_key{"model.context", 0, "tokens the model sees"};

// 0 where the task has none.
std::int64_t context_of(const Config& config) {
  const bool is_there = config.toml({context_key.name}).find("context = ") != std::string::npos;
  return is_there ? config[context_key] : 0;
}

double time_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TrainingUnderTest::TrainingUnderTest(ConfigWith config_with, std::optional<TrainingPlan> plan)
    : config_with_(std::move(config_with)), plan_(std::move(plan)), config_(config_with_({})) {
  config_.set(key::steps, std::max(shortest_training, config_[key::steps]));
  task_ = begin_task(config_);
  measure_step();
  shorten_context();
  shrink_batch();
  keep_first_values();
}

// Of one example, forward and back: the second time, when its memory is there.
void TrainingUnderTest::measure_step() {
  const Examples one = training_examples(1);
  const auto pass = [&] {
    Tape tape;
    tape.backward(quiet_loss(*task_, config_, one).objective);
  };
  try {
    const double first = time_of(pass);
    step_s_ = first > longest_example_s ? first : std::min(first, time_of(pass));
  } catch (const std::invalid_argument&) {
    step_s_ = 0;  // a gate will say what of the data does not fit
  }
}

// As far as the task allows it.
void TrainingUnderTest::shorten_context() {
  const std::int64_t context = context_of(config_);
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
  sampler_.reset();
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
    sampler_.reset();
    remark_ += fmt::format("{}{} = {}", remark_.empty() ? "" : ", ", key::batch_size.name,
                           config_[key::batch_size]);
  }
  step_s_ *= static_cast<double>(config_[key::batch_size]);
}

double TrainingUnderTest::steps_in_a_given_one() const {
  const Config given = config_with_({});
  const auto times = [](std::int64_t more, std::int64_t fewer) {
    return static_cast<double>(more) / static_cast<double>(std::max<std::int64_t>(1, fewer));
  };
  return times(given[key::batch_size], config_[key::batch_size]) *
         std::max(1.0, times(context_of(given), context_of(config_)));
}

void TrainingUnderTest::keep_first_values() {
  for (const Parameter* parameter : parameters())
    first_values_.push_back(parameter->value().clone());
}

void TrainingUnderTest::begin_anew() {
  in_float64_ = false;
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
    if (all[i]->role != Role::weight || first == 0) continue;
    const double times = std::sqrt(sum_of_squares(all[i]->value()) / first);
    if (times > largest.times) largest = {all[i]->name, times};
  }
  return largest;
}

void TrainingUnderTest::begin_in_float64() {
  if (in_float64_) return;
  begin_anew();
  to_float64_aside(task_->model());
  in_float64_ = true;
}

std::unique_ptr<Task> TrainingUnderTest::fresh_task() const { return begin_task(config_); }

const DatasetStatistics& TrainingUnderTest::training_statistics() {
  if (!training_) training_ = dataset_statistics(task_->training_data());
  return *training_;
}

const std::vector<TrainingUnderTest::EvaluationSplit>& TrainingUnderTest::evaluation_splits() {
  if (!evaluation_splits_.empty()) return evaluation_splits_;
  for (const auto& [name, data] :
       {std::pair{"validation", &task_->validation_data()}, {"test", task_->test_data()}})
    if (data != nullptr) evaluation_splits_.push_back({name, data, dataset_statistics(*data)});
  return evaluation_splits_;
}

Examples TrainingUnderTest::training_examples(std::int64_t count, std::int64_t skip) {
  const Dataset& data = task_->training_data();
  if (!sampler_)
    sampler_.emplace(data.size(), task_->order(), seed_of(config_),
                     SimilarLengths{.batch = std::min(config_[key::batch_size], data.size()),
                                    .lengths = data.lengths()});
  sampler_->seek(skip);
  return examples_of(data, sampler_->next(std::min(count, data.size())));
}

Examples examples_of(const Dataset& data, std::vector<std::int64_t> numbers) {
  Batch batch = data.batch(numbers);
  return {.numbers = std::move(numbers), .batch = std::move(batch)};
}

Loss quiet_loss(Task& task, const Config& config, const Examples& examples) {
  std::vector<Random> noise;
  for (const std::int64_t number : examples.numbers)
    noise.emplace_back(seed_of(config), Stream::eval, static_cast<std::uint64_t>(number));
  return task.loss(examples.batch,
                   {.training = true, .step = config[key::steps], .noise_of_examples = noise});
}

}  // namespace tapestry
