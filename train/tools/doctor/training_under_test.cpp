#include "train/tools/doctor/training_under_test.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/clock.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "optim/clip.hpp"
#include "train/config/keys.hpp"
#include "train/trainer/begin_task.hpp"
#include "train/trainer/trainer.hpp"

namespace tapestry {
namespace {

constexpr double longest_example_s = 0.25;  // forward and backward
constexpr double longest_step_s = 0.4;
constexpr std::int64_t shortest_training = 100;  // or it ends before a check has seen it
constexpr std::int64_t shortest_context = 64;
constexpr std::int64_t smallest_batch = 2;

const Key<std::int64_t> context_key{"model.context", 0, "tokens the model sees"};

// Returns 0 if the task has none.
std::int64_t context_of(const Config& config) {
  const bool is_there = config.toml({context_key.name}).find("context = ") != std::string::npos;
  return is_there ? config[context_key] : 0;
}

double time_of(const std::function<void()>& run) {
  const double start = now_s();
  run();
  return now_s() - start;
}

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

// Times one example, forward and backward: the second pass, when buffers exist.
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
    step_s_ = 0;  // a check will report how the data do not fit
  }
}

// Shortens the context as far as the task allows.
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

double TrainingUnderTest::given_step_s() const {
  const Config given = config_with_({});
  const auto times = [](std::int64_t more, std::int64_t fewer) {
    return static_cast<double>(more) / static_cast<double>(std::max<std::int64_t>(1, fewer));
  };
  return step_s_ * times(given[key::batch_size], config_[key::batch_size]) *
         std::max(1.0, times(context_of(given), context_of(config_)));
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
    if (all[i]->role != Role::weight || first == 0) continue;
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

std::unique_ptr<Task> TrainingUnderTest::fresh_task() const { return begin_task(config_); }

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

Steps::Steps(TrainingUnderTest& under_test)
    : under_test_(under_test),
      parameters_(under_test.parameters()),
      optimizer_(make_optimizer(under_test.config(), parameters_)) {}

double Steps::with_dropout(const Examples& examples, double learning_rate) {
  Random noise(seed_of(under_test_.config()), Stream::dropout, static_cast<std::uint64_t>(done_));
  const Pass pass{.training = true, .step = under_test_.config()[key::steps], .noise = &noise};
  return step([&] { return under_test_.task().loss(examples.batch, pass); }, examples.batch.count,
              learning_rate);
}

double Steps::without_dropout(const Examples& examples, double learning_rate) {
  return step([&] { return quiet_loss(under_test_.task(), under_test_.config(), examples); },
              examples.batch.count, learning_rate);
}

// A gradient that is not finite makes no step.
double Steps::step(const std::function<Loss()>& loss, double count, double learning_rate) {
  Tape tape;
  const Loss found = loss();
  const Gradients gradients = tape.backward(found.objective, 1 / count);
  const Clip clipped = clip(gradients, parameters_, under_test_.config()[key::clip_norm]);
  if (std::isfinite(clipped.norm)) optimizer_->step(gradients, learning_rate, clipped.scale);
  ++done_;
  return found.averages.at("loss").value();
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
  const std::int64_t count = std::min<std::int64_t>(2, data.size());
  Sampler sampler(data.size(), task.order(), seed_of(config),
                  {.batch = count, .lengths = data.lengths()});
  return [&task, batch = in_float64(data.batch(sampler.next(count))), seed = seed_of(config),
          steps = config[key::steps]] {
    Random noise(seed, Stream::dropout);
    // After any warm-up, so that every term of the loss counts.
    return task.loss(batch, {.training = true, .step = steps, .noise = &noise}).objective;
  };
}

}  // namespace tapestry
