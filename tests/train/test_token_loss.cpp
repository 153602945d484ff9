#include <doctest/doctest.h>

#include <cmath>

#include "autograd/dry_run.hpp"
#include "autograd/ops/losses.hpp"
#include "layers/models/transformer.hpp"
#include "tests/support/arrays.hpp"
#include "train/tasks/token_loss.hpp"

// Tests that the head of a language model is computed where there is a target, and only there.
namespace tapestry {
namespace {

// Six positions of two rows, of which those in `ignored` have no target.
Batch batch_without(const std::vector<int>& ignored) {
  Batch batch{.inputs = Array::of(std::vector<std::int32_t>{1, 2, 0, 4, 3, 2}, {2, 3}),
              .targets = Array::of(std::vector<std::int32_t>{2, 0, 1, 3, 2, 3}, {2, 3}),
              .count = 6.0 - static_cast<double>(ignored.size())};
  for (const int place : ignored) batch.targets.mutable_values<std::int32_t>()[place] = -1;
  return batch;
}

Transformer small_model(Random& random) {
  return Transformer({.vocabulary = 5,
                      .context = 3,
                      .layers = 1,
                      .block = {.width = 8, .attention = {.heads = 2}}},
                     random);
}

TEST_SUITE_BEGIN("tasks");

TEST_CASE("counted rows: the loss and its gradients are those of all logits") {
  for (const auto& ignored : std::vector<std::vector<int>>{{}, {1}, {0, 2, 5}, {0, 1, 2, 3, 4}}) {
    CAPTURE(ignored.size());
    Random random(3, Stream::init);
    Transformer model = small_model(random);
    for (Parameter* parameter : model.parameters()) parameter->convert(DType::float64);
    const Batch batch = batch_without(ignored);
    const auto gradients = [&](bool only_counted) {
      Tape tape;
      const Tensor all = model.hidden(batch.inputs);
      const CountedRows rows =
          only_counted ? counted_rows(all, batch) : CountedRows{all, batch.targets};
      CHECK((ignored.empty() || !only_counted ||
             rows.hidden.shape() == Shape{6 - std::ssize(ignored), 8}));
      const Tensor loss = cross_entropy(model.logits(rows.hidden), rows.targets, {.mean = false});
      const Gradients found = tape.backward(loss);
      std::vector<double> values = {loss.item()};
      for (const Parameter* parameter : model.parameters())
        for (const double value : found[*parameter].values<double>()) values.push_back(value);
      return values;
    };
    const std::vector<double> all = gradients(false), counted = gradients(true);
    REQUIRE(all.size() == counted.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(counted[i] == doctest::Approx(all[i]).epsilon(1e-12));
    if (ignored.empty()) CHECK(counted == all);
  }
}

TEST_CASE("counted rows: NaN where there is no target changes nothing") {
  const Batch batch = batch_without({1, 3});
  Array hidden = Array::full({2, 3, 4}, 0.5);
  for (const std::int64_t row : {1, 3})
    for (std::int64_t i = 0; i < 4; ++i) hidden.mutable_values<float>()[row * 4 + i] = NAN;
  const Parameter states(hidden, Role::weight);
  Tape tape;
  const CountedRows rows = counted_rows(states.tensor, batch);
  const Tensor loss = cross_entropy(rows.hidden, rows.targets, {.mean = false});
  CHECK(loss.item() == doctest::Approx(4 * std::log(4.0)));
}

TEST_CASE("counted rows: without any target all rows stay, and a dry run takes the count") {
  const Batch none = batch_without({0, 1, 2, 3, 4, 5});
  const Tensor hidden = Array::full({2, 3, 4}, 0.5);
  CHECK(counted_rows(hidden, none).hidden.shape() == Shape{2, 3, 4});
  const Batch some = batch_without({0, 4});
  const DryRun dry_run;
  CHECK(counted_rows(hidden, some).hidden.shape() == Shape{4, 4});
  CHECK(counted_rows(hidden, some).targets.shape() == Shape{4});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
