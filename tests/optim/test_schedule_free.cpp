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

// x of the paper is the average of the weights that are trained.
TEST_CASE("golden: schedule-free AdamW and its average are the paper's three sequences") {
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

TEST_CASE_FIXTURE(RunFixture, "schedule-free: a resumed run has the same bits, and is verified") {
  must_train("toy", "whole", free_of_schedules);
  must_train("toy", "run", free_of_schedules + "train.steps=12");
  must_train("toy", "run", free_of_schedules + "--resume");
  check_same_run(*this, "whole", "run");
  check_prints(tapestry_run("verify {}", path("run")), {"bitwise identical"});
  CHECK(find_tensor(read_safetensors(checkpoint("run")), "optimizer.learning_rates"));
}

TEST_CASE_FIXTURE(RunFixture, "schedule-free: decaying schedules and other averages are refused") {
  for (const std::string setting :
       {"optim.schedule=cosine", "optim.schedule=wsd", "train.average_decay=0.9"}) {
    CAPTURE(setting);
    const Finished refused = train("toy", "run", free_of_schedules + Words(setting));
    check_fails(refused, {"is not used with optim.name = \"schedule_free_adamw\""});
  }
}

}  // namespace
}  // namespace tapestry
