#include <doctest/doctest.h>

#include "tests/support/run_fixture.hpp"

// A step of a run that is looked into again, and a step that fails, which explains itself.
namespace tapestry {
namespace {

Json replayed(const RunFixture& fixture, const std::string& run, int step, const Words& more = {}) {
  return Json::parse(
      must(tapestry_run(
               Words("replay {} --json --step {}", fixture.path(run), std::to_string(step)) + more))
          .out);
}

// "step 12: " of an error -> 12
int step_of_error(const std::string& error) {
  return std::atoi(error.c_str() + error.find("step ") + 5);
}

TEST_SUITE_BEGIN("proof");

TEST_CASE_FIXTURE(RunFixture, "replay: shows every op, and the recorded loss and norm") {
  must_train("toy", "run", "train.log_every=1 train.micro_batches=2 train.average_decay=0.9");
  const std::vector<Json> lines = metrics("run");
  for (const int step : {1, 7, 12, 40}) {
    CAPTURE(step);
    const Json replay = replayed(*this, "run", step, {"--threads", "1"});
    CHECK(replay["from_step"].get<int>() < step);
    for (const Json& line : lines)
      if (line["step"] == step && line["split"] == "train")
        for (const char* figure : {"loss", "grad_norm", "lr"})
          CHECK_MESSAGE(replay[figure] == line[figure], figure);
    CHECK(replay["fault"].is_null());
    CHECK(replay["examples"].size() == 8);
    CHECK(replay["examples"][0]["inputs"].get<std::string>().starts_with("(1, "));
  }
  const Json replay = replayed(*this, "run", 1);
  CHECK(replay["from"] == "the start");
  const Json& first = replay["ops"][0];
  CHECK(first["op"].get<std::string>().starts_with("embed"));
  bool attends = false;
  for (const Json& op : replay["ops"]) {
    CHECK(op["calls"].get<int>() % 2 == 0);  // two parts
    CHECK(op["outputs"]["nan"] == 0);
    attends |= op["module"] == "blocks.0.attention" && op["gradients"].is_object();
  }
  CHECK(attends);
  double squares = 0;
  for (const Json& parameter : replay["parameters"]) {
    CHECK(parameter["values"]["min"] <= parameter["values"]["max"]);
    squares += parameter["gradients"]["mean_magnitude"].get<double>();
  }
  CHECK(squares > 0);
  check_prints(
      tapestry_run("replay {} --step 9", path("run")),
      {"run: step 9, trained again from step 0 (the start)", "grad_norm ", "training examples",
       "blocks.0.attention: ", "final_norm.weight", "loss and gradient are finite"});
}

TEST_CASE_FIXTURE(RunFixture, "replay: a run that failed shows where, from the checkpoint before") {
  const Finished failed =
      train("toy", "run",
            "optim.name=sgd optim.learning_rate=1000 optim.clip_norm=0 optim.schedule=constant "
            "train.checkpoint_every=1 train.eval_every=0 optim.momentum=1 train.steps=100000");
  REQUIRE(failed.status == 1);
  CHECK(lines_of(failed.err).size() == 1);
  check_says(failed.err, {"the loss is ", "the output of ", " in blocks.0.", " is not finite: ",
                          "; from ", "training examples ", "the checkpoints in "});
  const int step = step_of_error(failed.err);
  REQUIRE(step > 1);
  const Json replay = replayed(*this, "run", step);
  CHECK(replay["from_step"] == step - 1);
  CHECK(replay["loss"].is_null());
  const std::string fault = replay["fault"];
  CHECK(contains(failed.err, fault));
  const auto& ops = replay["ops"];
  const auto bad = std::ranges::find_if(ops, [](const Json& op) {
    return op["outputs"]["nan"].get<int>() + op["outputs"]["infinite"].get<int>() > 0;
  });
  REQUIRE(bad != ops.end());
  check_says(fault, {(*bad)["op"], (*bad)["module"]});
}

TEST_CASE_FIXTURE(RunFixture, "bug: replay: showed steps after a failure, and NaN as inf") {
  const Finished failed =
      train("toy", "run", "optim.name=sgd optim.learning_rate=1000 optim.clip_norm=0");
  REQUIRE(failed.status == 1);
  CHECK(!contains(failed.err, "-nan"));
  const int last = step_of_error(failed.err);
  const Json replay = replayed(*this, "run", last);
  bool has_nothing_else = false;
  for (const Json& op : replay["ops"])
    if (const Json& outputs = op["outputs"]; outputs["min"].is_null() && outputs["infinite"] == 0) {
      has_nothing_else = true;
      CHECK(outputs["mean_magnitude"].is_null());
    }
  CHECK(has_nothing_else);
  check_fails(tapestry_run({"replay", path("run"), "--step", std::to_string(last + 1)}),
              {fmt::format("--step {}: ", last + 1), "failed after ",
               fmt::format("; expected a step up to {}", last)});
}

TEST_CASE_FIXTURE(RunFixture, "replay: what cannot be looked at is refused in one line") {
  must_train("toy", "run", "train.steps=5");
  const auto refused = [&](const Words& words) {
    const Finished finished = tapestry_run(Words("replay {}", path("run")) + words);
    check_fails(finished, {});
    return finished.err;
  };
  check_says(refused({}), {"--step is required"});
  check_says(refused({"--step", "0"}), {"--step"});
  check_says(refused({"--step", "6"}), {"--step 6: expected 1 to 5, the steps of "});
  check_says(refused({"--step", "2", "model.width=8"}), {"different settings: model.width"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: replay: tokens were shown as numbers, sums and means unnamed") {
  must_train("toy", "toy", "train.steps=2");
  must_train("text", "text", "train.steps=2");
  const std::string question = replayed(*this, "toy", 1)["examples"][0]["text"];
  CHECK(question.find('>') != std::string::npos);
  const std::string read = replayed(*this, "text", 1)["examples"][0]["text"];
  CHECK(story(20).find(read) != std::string::npos);
  check_says(tapestry_run("replay {} --step 1", path("toy")).out,
             {"  \"" + question + "\"\n", "the sum of the loss over the targets"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
