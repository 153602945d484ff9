#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "autograd/buffer_pool.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/tape.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/tools/doctor/check.hpp"

// Two small sound trainings, to which one fault is added at a time. The check of this fault must be
// the first that fails.
namespace tapestry {
namespace {

const Key<std::string> fault_key{"data.fault", "", "what is wrong with it"};

// --- examples of numbers, and the class of each ---

constexpr std::int64_t num_features = 6, num_classes = 3;

struct ClassExamples {
  std::vector<float> features{};
  std::vector<std::int32_t> labels{};
  std::int64_t size() const { return std::ssize(labels); }
};

// The class is the index of the largest of the first three features.
ClassExamples draw_classes(std::int64_t count, std::uint64_t split) {
  Random random(7, Stream::data, split);
  ClassExamples drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t f = 0; f < num_features; ++f)
      drawn.features.push_back(static_cast<float>(random.normal()));
    const auto first = drawn.features.end() - num_features;
    drawn.labels.push_back(
        static_cast<std::int32_t>(std::max_element(first, first + num_classes) - first));
  }
  return drawn;
}

class ClassDataset final : public Dataset {
 public:
  ClassDataset(ClassExamples examples, std::string fault)
      : examples_(std::move(examples)), fault_(std::move(fault)) {}

  std::int64_t size() const override { return examples_.size(); }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    for (const std::int64_t example : examples) {
      const auto first = examples_.features.begin() + example * num_features;
      rows.insert(rows.end(), first, first + num_features);
      labels.push_back(examples_.labels[example]);
    }
    const auto B = std::ssize(labels);
    if (fault_ == "redraws")
      for (float& x : rows) x += 1e-3F * static_cast<float>(noise_.normal());
    return {.inputs = Array::of(rows, {B, num_features}),
            .targets = Array::of(labels, {B}),
            .count = static_cast<double>(fault_ == "count" ? 2 * B : B)};
  }

 private:
  ClassExamples examples_;
  std::string fault_;
  mutable Random noise_{3, Stream::data};
};

// Returns 2 x with the gradient of 3 x.
Tensor wrongly_doubled(const Tensor& x) {
  const Array doubled = (x * 2.0).value();
  return record("wrong", doubled, {x}, [](const Array& gradient, InputGradients& into) {
    into.add(0, (Tensor(gradient) * 3.0).value());
  });
}

// Sums thirds by one piece per thread, so that rounding depends on the number of threads.
double sum_by_threads() {
  const std::vector<float> values(1000, 1.0F / 3);
  std::vector<float> sums(num_threads());
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i * sums.size() / values.size()] += values[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

class ClassNetwork final : public Module {
 public:
  ClassNetwork(std::string fault, Random& init)
      : fault_(std::move(fault)),
        hidden(num_features, 16, init),
        out(16, num_classes, init),
        spare(Array::full({2}, 1), Role::weight) {
    for (int i = 0; fault_ == "vanishing" && i < 12; ++i)
      deep.emplace_back(16, 16, init, LinearOptions{.standard_deviation = 0.01});
    if (fault_ == "dead") fill(hidden.bias, -100);
    if (fault_ == "large") scale(out.weight, 1e5);
    if (fault_ == "exploding") scale(hidden.weight, 1e6), scale(out.weight, 1e-6);
  }

  Tensor forward(const Array& inputs) const {
    const Scope scope(path());
    Tensor h =
        hidden.forward(fault_ == "blind" ? Array::full(inputs.shape(), 1, inputs.dtype()) : inputs);
    if (fault_ == "batch") h = h - mean(h, {0}, Keep::yes);
    h = relu(h);
    for (const Linear& layer : deep) h = sigmoid(layer.forward(h));
    h = out.forward(h);
    if (fault_ == "threads") h = h * (sum_by_threads() / 333);
    return fault_ == "gradient" ? wrongly_doubled(h) : h;
  }

  void fields(FieldVisitor& visit) override {
    visit("hidden", hidden);
    for (std::size_t i = 0; i < deep.size(); ++i) visit("deep" + std::to_string(i), deep[i]);
    visit("out", out);
    if (fault_ == "spare") visit("spare", spare);
  }

 private:
  static void fill(Parameter& parameter, float to) {
    Array value = parameter.value();
    std::ranges::fill(value.mutable_values<float>(), to);
  }
  static void scale(Parameter& parameter, double by) {
    Array value = parameter.value();
    for (float& x : value.mutable_values<float>()) x *= static_cast<float>(by);
  }

  std::string fault_;
  Linear hidden, out;
  std::vector<Linear> deep;
  Parameter spare;
};

Tensor one_hot(const Array& labels, DType dtype) {
  Array rows = Array::zeros({labels.size(), num_classes});
  for (std::int64_t i = 0; i < labels.size(); ++i)
    rows.mutable_values<float>()[i * num_classes + labels.values<std::int32_t>()[i]] = 1;
  return rows.to(dtype);
}

class ClassTask final : public Task {
 public:
  explicit ClassTask(const TaskSetup& setup)
      : fault_(setup.config[fault_key]),
        training_(with_fault(draw_classes(300, 0)), fault_),
        validation_(validation_examples(), fault_),
        model_([&] {
          Random init(seed_of(setup.config), Stream::init);
          return ClassNetwork(fault_, init);
        }()) {}

  Module& model() override { return model_; }
  const Dataset& training_data() override { return training_; }
  const Dataset& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass& pass) override {
    Tensor logits = model_.forward(batch.inputs);
    if (fault_ == "memory" && logits.dim(0) > 1) throw OutOfMemory("16 EiB array");
    if (fault_ == "file" && logits.dim(0) > 1) throw std::runtime_error("the file is gone");
    if (fault_ == "leak") logits = logits + one_hot(batch.targets, logits.dtype()) * 5.0;
    Tensor total = cross_entropy(logits, batch.targets, {.mean = false});
    if (fault_ == "counts steps") total = total * (1 + 0.01 * steps_seen(pass.step));
    return {total, {{"loss", {total.item(), batch.count}}}};
  }

 private:
  ClassExamples with_fault(ClassExamples drawn) const {
    if (fault_ == "not finite") drawn.features[17 * num_features + 3] = NAN;
    if (fault_ == "constant") std::ranges::fill(drawn.features, 0);
    if (fault_ == "out of range") drawn.labels[5] = num_classes;
    if (fault_ == "one class") std::ranges::fill(drawn.labels, 1);
    if (fault_ == "sorted")
      for (std::int32_t& label : drawn.labels) label = std::min(label, 1);
    return drawn;
  }
  ClassExamples validation_examples() const {
    ClassExamples drawn = draw_classes(60, 1);
    if (fault_ == "shared") {
      const ClassExamples other = draw_classes(8, 0);
      std::ranges::copy(other.features, drawn.features.begin());
      std::ranges::copy(other.labels, drawn.labels.begin());
    }
    return drawn;
  }

  // State of this process that is not in checkpoints.
  double steps_seen(std::int64_t step) {
    if (step != last_step_) ++steps_seen_;
    last_step_ = step;
    return steps_seen_;
  }

  std::string fault_;
  ClassDataset training_, validation_;
  ClassNetwork model_;
  std::int64_t last_step_ = -1;
  double steps_seen_ = 0;
};

// --- rows of tokens and their next tokens ---

constexpr std::int64_t num_tokens = 42, row_length = 10;  // the last two of which are not used

class TokenDataset final : public Dataset {
 public:
  TokenDataset(std::int64_t count, std::uint64_t split, const std::string& fault) {
    Random random(11, Stream::data, split);
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::int32_t> tokens = {static_cast<std::int32_t>(random.below(num_tokens - 2))};
      while (std::ssize(tokens) <= row_length)
        tokens.push_back(
            static_cast<std::int32_t>((5 * tokens.back() + random.below(3)) % (num_tokens - 2)));
      if (fault == "new tokens" && split == 1) std::ranges::fill(tokens, num_tokens - 1);
      if (fault == "out of range") tokens[3] = num_tokens;
      inputs_.insert(inputs_.end(), tokens.begin(), tokens.end() - 1);
      const std::int64_t ahead = fault == "own place" ? 0 : 1;
      tokens = {tokens.begin() + ahead, tokens.begin() + ahead + row_length};
      if (fault == "other order") random.shuffle(tokens);
      targets_.insert(targets_.end(), tokens.begin(), tokens.end());
    }
    if (fault == "other rows")
      std::rotate(targets_.begin(), targets_.begin() + row_length, targets_.end());
    if (fault == "some other rows")
      for (std::int64_t row = 0; row + 1 < count; row += 5)
        std::swap_ranges(targets_.begin() + row * row_length,
                         targets_.begin() + (row + 1) * row_length,
                         targets_.begin() + (row + 1) * row_length);
  }

  std::int64_t size() const override { return std::ssize(inputs_) / row_length; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    std::vector<std::int32_t> inputs, targets;
    for (const std::int64_t row : examples) {
      const auto first = row * row_length, last = first + row_length;
      inputs.insert(inputs.end(), inputs_.begin() + first, inputs_.begin() + last);
      targets.insert(targets.end(), targets_.begin() + first, targets_.begin() + last);
    }
    const auto B = std::ssize(examples);
    return {.inputs = Array::of(inputs, {B, row_length}),
            .targets = Array::of(targets, {B, row_length}),
            .count = static_cast<double>(B * row_length)};
  }

 private:
  std::vector<std::int32_t> inputs_, targets_;
};

class TokenNetwork final : public Module {
 public:
  TokenNetwork(bool sees_next, Random& init)
      : sees_next_(sees_next),
        embed(num_tokens, 16, init, 1),
        hidden(32, 32, init),
        out(32, num_tokens, init) {}

  // The features of a token are itself and the one before.
  Tensor forward(const Array& tokens) const {
    const Scope scope(path());
    const Tensor x = embed.forward(tokens);
    const std::int64_t B = x.dim(0), T = x.dim(1);
    const Tensor none = Array::zeros({B, 1, x.dim(2)}, x.dtype());
    const Tensor beside = sees_next_ ? concat({slice(x, 1, 1, T), none}, 1)
                                     : concat({none, slice(x, 1, 0, T - 1)}, 1);
    return out.forward(relu(hidden.forward(concat({x, beside}, 2))));
  }

  void fields(FieldVisitor& visit) override {
    visit("embed", embed);
    visit("hidden", hidden);
    visit("out", out);
  }

 private:
  bool sees_next_;
  Embedding embed;
  Linear hidden, out;
};

class TokenTask final : public Task {
 public:
  explicit TokenTask(const TaskSetup& setup)
      : training_(200, 0, setup.config[fault_key]),
        validation_(40, 1, setup.config[fault_key]),
        model_([&] {
          Random init(seed_of(setup.config), Stream::init);
          return TokenNetwork(setup.config[fault_key] == "sees next", init);
        }()) {}

  Module& model() override { return model_; }
  const Dataset& training_data() override { return training_; }
  const Dataset& validation_data() override { return validation_; }
  Loss loss(const Batch& batch, const Pass&) override {
    const Tensor total =
        cross_entropy(model_.forward(batch.inputs), batch.targets, {.mean = false});
    return {total, {{"loss", {total.item(), batch.count}}}};
  }

 private:
  TokenDataset training_, validation_;
  TokenNetwork model_;
};

// Registers these tasks during its lifetime.
class DoctoredTasks {
 public:
  DoctoredTasks() {
    task_registry()["doctored-classes"] = {.keys = {fault_key}, .make = make_task_of<ClassTask>};
    task_registry()["doctored-tokens"] = {.keys = {fault_key}, .make = make_task_of<TokenTask>};
  }
  ~DoctoredTasks() {
    for (const char* name : {"doctored-classes", "doctored-tokens"}) task_registry().erase(name);
  }
  DoctoredTasks(const DoctoredTasks&) = delete;
  DoctoredTasks& operator=(const DoctoredTasks&) = delete;
};

ConfigWith doctored(const std::string& kind, const std::string& fault,
                    const Strings& overrides = {}) {
  const std::string text = fmt::format(
      "task = \"doctored-{}\"\n[data]\nfault = \"{}\"\n[optim]\n"
      "learning_rate = 1e-2\n[train]\nbatch_size = 16\n",
      kind, fault);
  return [=](const Words& more) { return parse_config(text, "doctored", overrides + more); };
}

struct Diagnosis {
  std::string check{}, found{};  // check that finds the first fault; empty: none
};

Diagnosis diagnose(const ConfigWith& config_with) {
  TrainingUnderTest under_test(config_with);
  for (const DoctorCheck& check : doctor_checks())
    if (const auto result = examine(check, under_test); result.fault) {
      CHECK(!result.fault->cause.empty());
      CHECK(!result.fault->advice.empty());
      return {check.name, result.fault->found};
    }
  return {};
}

TEST_SUITE_BEGIN("doctor");

TEST_CASE_FIXTURE(DoctoredTasks, "doctor: sound trainings pass every check") {
  for (const char* kind : {"classes", "tokens"}) {
    const Diagnosis diagnosis = diagnose(doctored(kind, ""));
    CHECK_MESSAGE(diagnosis.check.empty(), kind, ": ", diagnosis.check, ": ", diagnosis.found);
  }
}

TEST_CASE_FIXTURE(DoctoredTasks, "bug: doctor: failing steps were called input errors or NaN") {
  const auto found = [](const std::string& fault) {
    TrainingUnderTest under_test(doctored("classes", fault));
    const auto result = examine({"learning rate", check_learning_rate}, under_test);
    REQUIRE(result.fault);
    return result.fault->found + "; " + result.fault->advice;
  };
  CHECK(found("memory").find("16 EiB array; lower train.batch_size") == 0);
  CHECK(found("file").find("the file is gone") == 0);
}

TEST_CASE_FIXTURE(DoctoredTasks,
                  "doctor: each fault is found by its check, and by no earlier one") {
  const auto check = [](const std::string& kind, const std::string& fault, const std::string& gate,
                        const std::string& said, const Strings& overrides = {}) {
    CAPTURE(kind);
    CAPTURE(fault);
    const Diagnosis diagnosis = diagnose(doctored(kind, fault, overrides));
    CAPTURE(diagnosis.found);
    CHECK(diagnosis.check == gate);
    CHECK(diagnosis.found.find(said) != std::string::npos);
  };
  check("classes", "shared", "shared examples", "8 of 60 validation examples");
  check("classes", "not finite", "values", "input 3 of example 17 is nan");
  check("classes", "redraws", "values", "differs when it is read again");
  check("classes", "constant", "values", "6 of the 6 inputs");
  check("classes", "out of range", "labels", "target 3 occurs 1 time;");
  check("classes", "one class", "labels", "all training examples have the label 1");
  check("classes", "sorted", "labels", "have labels that no training example has");
  check("tokens", "new tokens", "labels", "100 % of the tokens of the validation split");
  check("tokens", "out of range", "labels", "the model knows 0 to 41");
  check("tokens", "own place", "targets", "100.0 % the token at their own position");
  check("tokens", "other order", "targets", "the next token of the inputs");
  check("tokens", "other rows", "targets", "those of example 0 belong to example 1");
  check("tokens", "some other rows", "targets", "the next token of the inputs");
  check("classes", "leak", "first loss", "far below the entropy");
  check("classes", "count", "first loss", "the reported loss is");
  check("classes", "gradient", "gradient", "the last wrong parameter is out.bias");
  check("classes", "batch", "neighbors", "first in mean in model");
  check("tokens", "sees next", "future", "first in concat in model");
  check("classes", "dead", "layers", "100 % of the units of relu in model");
  check("classes", "exploding", "layers", "times its weights");
  check("classes", "large", "layers", "that of hidden.weight");
  check("classes", "vanishing", "layers", "the gradient of hidden.weight");
  check("classes", "spare", "layers", "no gradient reaches spare");
  check("classes", "blind", "one batch", "expected below");
  check("classes", "", "learning rate", "optim.learning_rate = 1.0e+00", {"optim.learning_rate=1"});
  check("tokens", "", "learning rate", "optim.learning_rate = 1.0e+00", {"optim.learning_rate=1"});
  check("classes", "", "learning rate", "optim.learning_rate = 1.0e-08",
        {"optim.learning_rate=1e-8"});
  check("tokens", "", "learning rate", "optim.learning_rate = 1.0e-08",
        {"optim.learning_rate=1e-8"});
  check("classes", "threads", "threads", "differs");
  check("classes", "counts steps", "resume", "differs");
}

TEST_CASE_FIXTURE(TemporaryFolder, "doctor: prints checks or JSON, and plots learning rates") {
  const Finished said = must(tapestry_run("doctor karate --out {} --threads 2", path("pictures")));
  for (const DoctorCheck& check : doctor_checks())
    CHECK(said.out.find(" " + check.name + " ") != std::string::npos);
  for (const char* file : {"learning-rate.png", "learning-rate.svg"})
    CHECK(fs::file_size(path("pictures/" + std::string(file))) > 1000);
  const Finished named = must(tapestry_run({"doctor", "karate", "--out", path("a\nforged")}));
  for (const std::string& line : lines_of(named.out)) CHECK(!line.starts_with("forged"));

  const auto report = Json::parse(tapestry_run("doctor karate --json").out);
  CHECK(report["passed"] == true);
  CHECK(report["gates"].size() == doctor_checks().size());
  CHECK(report["gates"][0]["verdict"] == "ok");
}

TEST_CASE("doctor: a fault gives status 1 and advice; wrong input gives status 2") {
  const Finished fast = tapestry_run("doctor karate optim.learning_rate=1e-9");
  CHECK(fast.status == 1);
  check_says(fast.out, {"FAIL  learning rate", "likely cause", "--set optim.learning_rate="});
  CHECK(!contains(fast.out, "threads"));  // no check runs after the first fault
  const auto report =
      Json::parse(tapestry_run("doctor karate --json optim.learning_rate=1e-9").out);
  CHECK(report["passed"] == false);
  CHECK(report["gates"].back()["verdict"] == "fault");

  must_run({"doctor", "karate", "--skip", "learning rate", "optim.learning_rate=1e-9"});
  must_run("doctor karate --skip learning-rate optim.learning_rate=1e-9");
  check_fails(run_here("doctor karate --skip lerning-rate"),
              {"--skip lerning-rate: no such check", "did you mean learning-rate?"});
  CHECK(tapestry_run("doctor shakespeare-char").status == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
