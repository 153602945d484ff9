#include <doctest/doctest.h>

#include <atomic>

#include "optim/optimizer.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/trainer.hpp"

// This file adds an optimizer with its own settings, without an edit elsewhere.
namespace tapestry {
namespace {

struct SlidingOptions {
  double friction = 0.2;
  std::int64_t rest = 0;
  bool uphill = false;
};

// v = (1 - friction) v + g, θ = θ - η v, or θ + η v uphill, after some steps without updates.
class Sliding final : public Optimizer {
 public:
  using Options = SlidingOptions;
  Sliding(std::vector<Parameter*> parameters, const Options& options)
      : Optimizer(std::move(parameters)), options_(options) {}
  Strings slot_names(const Parameter&) const override { return {"speed"}; }

 protected:
  void update(const Update& update) const override {
    if (update.step <= options_.rest) return;
    const double rate = options_.uphill ? -update.learning_rate : update.learning_rate;
    dispatch(update.parameter.dtype(), [&]<class T>() {
      const std::span<T> theta = update.of<T>(update.parameter), v = update.of_slot<T>(0);
      const std::span<T> gradient = update.of<T>(update.gradient);
      for (std::size_t i = 0; i < theta.size(); ++i) {
        v[i] = T((1 - options_.friction) * v[i] + gradient[i] * update.scale);
        theta[i] -= T(rate * v[i]);
      }
    });
  }

 private:
  Options options_;
};

const RegisterOptimizer<Sliding> sliding{
    "sliding",
    {{"friction", &SlidingOptions::friction, "share of speed lost", {.low = 0, .high = 1}},
     {"rest", &SlidingOptions::rest, "steps before it moves", {.low = 0, .high = 100}},
     {"uphill", &SlidingOptions::uphill, "climb instead"}}};

Config config_of(const Strings& more) {
  Strings overrides = {"optim.name=sliding", "model.layers=1",         "model.heads=1",
                       "model.width=4",      "data.length=2",          "data.examples=8",
                       "data.held_back=4",   "train.steps=3",          "train.batch_size=2",
                       "train.threads=1",    "optim.learning_rate=0.5"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return parse_config("task = \"toy-sequence\"", "test", overrides);
}

// Returns the last validation loss of a training.
double loss_after(const Strings& more) {
  const TemporaryFolder folder;
  const Config config = config_of(more);
  const auto task = make_task({config});
  const std::atomic<bool> never = false;
  Ranks alone;
  Trainer trainer(*task, config, Run(folder.path()), nullptr, never, alone);
  return trainer.train().at("loss");
}

TEST_CASE("dummy optimizer: configs have its settings with defaults, ranges and help") {
  check_says(parse_config("task = \"vae\"", "test", {}).explain(),
             {"friction = 0.2 ", ": share of speed lost", "rest = 0 ", ": steps before it moves",
              "uphill = false ", ": climb instead"});
  CHECK_ERROR(config_of({"optim.friction=2"}), "optim.friction = 2.0: expected between 0 and 1");
  CHECK_ERROR(config_of({"optim.rest=0.5"}), "expected an integer");
  CHECK_ERROR(config_of({"optim.uphil=true"}), "did you mean optim.uphill?");
  CHECK_ERROR(config_of({"optim.name=slidin"}),
              "expected one of adam, adamw, muon, schedule_free_adamw, sgd, sliding; did you mean "
              "\"sliding\"?");
}

TEST_CASE("dummy optimizer: settings of the config reach the update") {
  const Config config = config_of({"optim.friction=0.5", "optim.rest=1", "optim.uphill=true"});
  Parameter parameter(Array::of(std::vector<double>{1}, {1}), Role::weight);
  const auto optimizer = make_optimizer(config, {&parameter});
  CHECK(dynamic_cast<Sliding*>(optimizer.get()));
  std::vector<double> path;
  for (int step = 0; step < 3; ++step) {
    const Array gradient = Array::of(std::vector<double>{2}, {1});
    optimizer->step(Tape().backward(parameter.tensor, gradient), 0.25);
    path.push_back(parameter.value().values<double>()[0]);
  }
  CHECK(path == std::vector<double>{1, 1.5, 2.25});
}

TEST_CASE("dummy optimizer: trainings use it") {
  const double at_rest = loss_after({"optim.rest=100"}), usual = loss_after({});
  CHECK(usual != at_rest);
  CHECK(loss_after({"optim.rest=3"}) == at_rest);
  CHECK(loss_after({"optim.friction=0.9"}) != usual);
  CHECK(loss_after({"optim.uphill=true"}) > at_rest);
}

TEST_CASE("dummy optimizer: without weight_decay it refuses this setting, as adam does") {
  const auto refused = [](const std::string& name, const std::string& decay) {
    return message_of([&] { config_of({"optim.name=" + name, "optim.weight_decay=" + decay}); });
  };
  CHECK(refused("sliding", "0").empty());
  CHECK(refused("adamw", "0.1").empty());
  CHECK(refused("sgd", "0.1").empty());
  check_says(refused("sliding", "0.1"),
             {"--set: optim.weight_decay = 0.1: is not used with optim.name = \"sliding\""});
  CHECK(refused("adam", "0.1") ==
        "--set: optim.weight_decay = 0.1: is not used with optim.name = \"adam\"; leave out this "
        "key, or set optim.name = \"adamw\" or \"muon\" or \"schedule_free_adamw\" or \"sgd\"");
}

TEST_CASE("dummy optimizer: a second one of the same name is refused, and the first is kept") {
  [[maybe_unused]] const RegisterOptimizer<Sliding> again("sliding", {});
  CHECK_ERROR(config_of({}),
              "optimizer sliding: registered 2 times; give each optimizer another name");
  OptimizerType& first = optimizer_registry().at("sliding");
  first.registrations = 1;
  CHECK(first.has("friction"));
  config_of({});
}

}  // namespace
}  // namespace tapestry
