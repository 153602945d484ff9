#include <doctest/doctest.h>

#include "tests/support/arrays.hpp"
#include "tests/support/run_fixture.hpp"

// Trainings that end before their last step, and those whose weights are averaged.
namespace tapestry {
namespace {

// One that cannot learn: what it measures after the first evaluation is no gain.
const Words idle = "optim.learning_rate=0 train.eval_every=2 train.early_stopping=2";

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(RunFixture, "training: it ends where so many evaluations gained nothing") {
  must_train("toy", "run", idle);
  CHECK(load_checkpoint(checkpoint("run")).state.step == 6);
  CHECK(load_checkpoint(best("run")).state.step == 2);
  const auto lines = untimed(metrics("run"));

  Words again = idle + "--resume";
  must_train("toy", "run", again);  // there is nothing left to do
  CHECK(load_checkpoint(checkpoint("run")).state.step == 6);
  CHECK(untimed(metrics("run")) == lines);

  again.push_back("train.early_stopping=4");
  must_train("toy", "run", again);
  CHECK(load_checkpoint(checkpoint("run")).state.step == 10);
}

TEST_CASE_FIXTURE(RunFixture, "training: too small a gain is none, though its model is the best") {
  must_train("toy", "run", "train.eval_every=5 train.early_stopping=3 train.min_delta=1000");
  CHECK(load_checkpoint(checkpoint("run")).state.step == 20);
  CHECK(load_checkpoint(best("run")).state.step > 5);
  check_says(train("toy", "other", "train.eval_every=0 train.early_stopping=1").err,
             {"train.early_stopping", "train.eval_every"});
  check_says(train("toy", "other", "train.min_delta=1").err, {"train.min_delta"});
}

TEST_CASE_FIXTURE(RunFixture, "training: after its time it stops, and resumes as if it had not") {
  const Finished stopped = train("toy", "run", "train.time_limit=1e-9");
  CHECK(stopped.status == 130);
  check_says(stopped.out, {"stopped after step 0", "to resume: "});
  CHECK(load_checkpoint(checkpoint("run")).state.step == 0);
  must_train("toy", "run", "--resume");
  must_train("toy", "whole");
  check_same_run(*this, "run", "whole");
}

TEST_CASE("training: averaged weights are evaluated and kept; the weights themselves go on") {
  const Words averaged = "train.average_decay=0.9";
  const RunFixture fixture;
  fixture.must_train("toy", "plain", "optim.schedule=constant");
  fixture.must_train("toy", "whole", {"optim.schedule=constant", averaged[0]});
  const auto plain = load_checkpoint(fixture.checkpoint("plain")),
             whole = load_checkpoint(fixture.checkpoint("whole"));
  CHECK(plain.file.tensors.size() < whole.file.tensors.size());
  for (const auto& [name, array] : plain.file.tensors) {
    if (name.starts_with("optimizer.")) continue;
    const Array* weights = find_tensor(whole.file, "optimizer.weights." + name);
    REQUIRE_MESSAGE(weights != nullptr, name);
    CHECK_MESSAGE(same_bits(*weights, array), name);
  }
  CHECK(fixture.last_validation("plain")["loss"] != fixture.last_validation("whole")["loss"]);
  const double best = load_checkpoint(fixture.best("whole")).state.best_loss;
  CHECK(fixture.eval("whole")["loss"].get<double>() == doctest::Approx(best).epsilon(1e-12));

  fixture.must_train("toy", "run", {"optim.schedule=constant", averaged[0], "train.steps=17"});
  fixture.must_train("toy", "run", {"optim.schedule=constant", averaged[0], "--resume"});
  check_same_checkpoint(fixture.checkpoint("run"), fixture.checkpoint("whole"));
  check_says(fixture.train("toy", "run", "optim.schedule=constant --resume").err,
             {"train.average_decay"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
