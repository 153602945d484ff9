#include <doctest/doctest.h>

#include <cmath>

#include "data/toys/in_context.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests in-context linear regression: its sequences, the answers of a step of gradient descent, and
// the training that finds this step.
namespace tapestry {
namespace {

std::vector<std::int64_t> all_of(const InContextRegression& data) {
  return indices(0, data.size());
}

TEST_SUITE_BEGIN("in-context regression");

TEST_CASE("in context: the pairs of a sequence are of one linear function, which its answer has") {
  const InContextRegression data({.pairs = 5, .dimensions = 1, .examples = 50, .seed = 3});
  const Batch batch = data.batch(all_of(data));
  CHECK(batch.inputs.shape() == Shape{50, 6, 2});
  CHECK(batch.targets.shape() == Shape{50});
  CHECK(batch.count == 50);
  for (std::int64_t b = 0; b < 50; ++b) {
    const auto items = batch.inputs.values<float>().subspan(12 * b, 12);
    const double w = items[1] / items[0];
    for (std::size_t n = 0; n < 5; ++n) {
      CHECK(std::abs(items[2 * n]) <= 1);
      CHECK(items[2 * n + 1] == doctest::Approx(w * items[2 * n]).epsilon(1e-4));
    }
    CHECK(items[11] == 0);
    CHECK(batch.targets.values<float>()[b] == doctest::Approx(w * items[10]).epsilon(1e-4));
  }
  CHECK_THROWS_AS(data.batch(std::vector<std::int64_t>{50}), std::invalid_argument);
}

TEST_CASE("in context: an example depends on the seed, the split and its index alone") {
  const InContextRegression few({.examples = 10, .seed = 3}), many({.examples = 99, .seed = 3}),
      other({.examples = 10, .seed = 4}),
      held({.examples = 10, .seed = 3, .split = Split::validation});
  const auto example = [](const InContextRegression& data, std::int64_t i) {
    return doubles(data.batch(std::vector{i}).inputs);
  };
  CHECK(example(few, 9) == example(many, 9));
  CHECK(example(few, 9) != example(many, 8));
  CHECK(example(few, 9) != example(other, 9));
  CHECK(example(few, 9) != example(held, 9));
}

TEST_CASE("in context: no other learning rate of a step has a smaller error than the best one") {
  for (const auto& [pairs, dimensions] : {std::pair{10, 10}, {3, 1}, {40, 4}}) {
    const InContextRegression data(
        {.pairs = pairs, .dimensions = dimensions, .examples = 20000, .seed = 1});
    const Batch batch = data.batch(all_of(data));
    const std::vector<double> answers = data.answers_after_a_step(batch.inputs),
                              targets = doubles(batch.targets);
    double products = 0, squares = 0;
    for (std::size_t b = 0; b < answers.size(); ++b) {
      products += answers[b] * targets[b];
      squares += answers[b] * answers[b];
    }
    CHECK(products / squares == doctest::Approx(1).epsilon(0.04));  // the best factor of the rate
  }
  CHECK(InContextRegression({}).best_rate() == doctest::Approx(1.0 / 3 / 0.22));
  CHECK_THROWS_AS(InContextRegression({}).answers_after_a_step(Array({2, 11, 10}, DType::float32)),
                  std::invalid_argument);
}

TEST_CASE("in context: options out of range name their key") {
  const auto says = [](const InContextOptions& options) {
    return message_of([&] { InContextRegression{options}; });
  };
  check_says(says({.pairs = 0}), {"pairs = 0: expected 1 to 512"});
  check_says(says({.dimensions = 513}), {"dimensions = 513: expected 1 to 512"});
  check_says(says({.examples = 0}), {"0 examples; expected at least 1"});
  CHECK(says({}).empty());
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "in context: linear attention learns a step of gradient descent" *
                      not_sanitized("its training takes ten seconds there")) {
  must_run({"train", "in-context", "--quiet", "--out", path("run"), "data.dimensions=3",
            "data.pairs=6", "model.width=8", "train.steps=600", "train.batch_size=128",
            "optim.learning_rate=1e-2", "train.eval_every=0"});
  const Json last = Json::parse(lines_of(read("run/metrics.jsonl")).back());
  CHECK(last["relative_loss"].get<double>() < 1.05);
  check_says(must_run({"sample", path("run"), "--count", "2"}), {"y ", "gradient step "});
  check_fails(tapestry_run({"train", "in-context", "--out", path("no"), "--set",
                            "model.memory=multi-head", "--set", "model.width=9"}),
              {"model.heads"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
