#include <doctest/doctest.h>

#include "autograd/tape.hpp"
#include "optim/averaged_weights.hpp"
#include "optim/schedule_free.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tensor_files.hpp"

namespace tapestry {
namespace {

// The paper's x is the average of the trained weights.
TEST_CASE("golden: schedule-free AdamW computes the paper's three sequences") {
  const Golden golden("schedule_free");
  const auto number = [&](const std::string& key) { return golden[key].values<double>()[0]; };
  for (const DType dtype : {f32, f64}) {
    INFO(std::string(to_string(dtype)));
    Parameter y(golden["initial"].to(dtype).clone(), Role::weight);
    ScheduleFreeAdamW optimizer({&y}, {.beta1 = number("beta1"),
                                       .beta2 = number("beta2"),
                                       .epsilon = number("epsilon"),
                                       .weight_decay = number("weight_decay")});
    AveragedWeights x({&y}, 0);
    const Array gradients = golden["gradients"], rates = golden["rates"];
    for (std::int64_t step = 0; step < gradients.dim(0); ++step) {
      CAPTURE(step);
      const auto row = [&](const Array& rows) {
        return rows.part(10 * step, 10 * step + 10).to(dtype);
      };
      optimizer.step(Tape().backward(y.tensor, row(gradients)), rates.values<double>()[step]);
      x.add(optimizer.average_share());
      const double tolerance = dtype == f32 ? 1e-5 : 1e-10;
      CHECK(distance(y.value(), row(golden["y"])) <= tolerance);
      CHECK(distance(x.arrays()[0].second, row(golden["x"])) <= tolerance);
    }
  }
}

const Words free_of_schedules = "optim.name=schedule_free_adamw train.steps=24 train.eval_every=6";

TEST_CASE_FIXTURE(RunFixture,
                  "schedule-free: a resumed run has the same bits, and can be verified") {
  must_train("toy", "whole", free_of_schedules);
  must_train("toy", "run", free_of_schedules + "train.steps=12");
  must_train("toy", "run", free_of_schedules + "--resume");
  check_same_run(*this, "whole", "run");
  check_prints(tapestry_run("verify {}", path("run")), {"bitwise identical"});
  CHECK(find_tensor(read_safetensors(checkpoint("run")), "optimizer.learning_rates"));
}

TEST_CASE_FIXTURE(RunFixture,
                  "schedule-free: a decaying schedule and averaged weights are refused") {
  for (const std::string setting :
       {"optim.schedule=cosine", "optim.schedule=wsd", "train.average_decay=0.9"}) {
    CAPTURE(setting);
    check_fails(train_here("toy", "run", free_of_schedules + Words(setting)),
                {"is not used with optim.name = \"schedule_free_adamw\""});
  }
}

TEST_CASE("averaged weights: have values computed by hand, and are exchanged") {
  Parameter parameter(Array::of(std::vector<double>{1, -2}, {2}), Role::weight);
  parameter.name = "w";
  AveragedWeights average({&parameter}, 0.5);
  const auto set = [&](double x, double y) {
    Array value = parameter.value();
    value.copy_from(Array::of(std::vector<double>{x, y}, {2}));
  };
  set(2, 0);
  average.follow(1);  // keeps (1 + 1) / (10 + 1)
  const double kept = 2.0 / 11;
  const std::vector<double> first = {kept * 1 + (1 - kept) * 2, kept * -2};
  check_close(average.arrays()[0].second, Array::of(first, {2}), 1e-15);
  set(4, 4);
  average.follow(1000);  // keeps 0.5
  const std::vector<double> second = {0.5 * first[0] + 2, 0.5 * first[1] + 2};
  check_close(average.arrays()[0].second, Array::of(second, {2}), 1e-15);

  average.exchange();
  check_close(parameter.value(), Array::of(second, {2}), 1e-15);
  CHECK(doubles(average.arrays()[0].second) == std::vector<double>{4, 4});
  average.exchange();
  CHECK(doubles(parameter.value()) == std::vector<double>{4, 4});
  CHECK(average.arrays()[0].first == "weights.w");
}

}  // namespace
}  // namespace tapestry
