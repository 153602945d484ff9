#include <doctest/doctest.h>

#include <csignal>
#include <thread>

#include "autograd/clock.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/measure/machine.hpp"
#include "train/task_spec.hpp"
#include "train/trainer/training.hpp"

// Tests how a training ends by a signal or an error.
namespace tapestry {
namespace {

// A callback that sends this process a signal at the first evaluation.
class RaiseAtEvaluation final : public Callback {
 public:
  void on_metrics(const MetricsLine& line) override {
    if (line.split == "val") std::raise(SIGINT);
  }
};

void own_handler(int) {}

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(RunFixture,
                  "bug: a stopped training ended every later one of the process at step 0") {
  const auto config = [&](const std::string& more) {
    return load_config(path("toy.toml"), {more});
  };
  RaiseAtEvaluation callback;
  const sighandler_t before = std::signal(SIGINT, own_handler);
  const FinishedTraining stopped =
      train_into(Run(path("stopped")), config("seed=1"),
                 {.quiet = true, .callbacks = {&callback}, .stops_at_signals = true});
  CHECK((std::signal(SIGINT, before) == own_handler));  // which a training replaced
  CHECK(stopped.metrics.empty());
  CHECK(stopped.state.step == 10);
  CHECK(train_into(Run(path("whole")), config("seed=1"), {.quiet = true}).state.step == 40);
  std::atomic<bool> stop = true;
  CHECK(
      train_into(Run(path("none")), config("seed=1"), {.quiet = true, .stop = &stop}).state.step ==
      0);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a time limit counted from the start of the process") {
  while (process_age_s() < 5) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto minutes = [](double seconds) {
    return fmt::format("train.time_limit={}", seconds / 60);
  };
  const Config config = load_config(path("toy.toml"), {minutes(5), "train.steps=1"});
  CHECK(train_into(Run(path("whole")), config, {.quiet = true}).state.step == 1);
  CHECK(
      train_into(Run(path("none")), config, {.quiet = true, .started_s = now_s() - 6}).state.step ==
      0);
}

TEST_CASE_FIXTURE(RunFixture, "bug: Ctrl-C was ignored until the end of an evaluation") {
  write("long.txt", story(400));
  // An evaluation of 13000 batches after each of two steps.
  const Words keys(
      "data.path={} data.validation_fraction=0.8 train.eval_batch_size=1 "
      "model.context=1 train.steps=2 train.eval_every=1 train.log_every=1",
      path("long.txt"));
  must_train("text", "whole", keys);
  Words more = keys;
  for (const std::int64_t step : {1, 2}) {
    CAPTURE(step);
    const std::string trained = fmt::format("{{\"step\":{},\"split\":\"train\"", step);
    const std::string metrics = path("run/metrics.jsonl");
    const Finished stopped = train(
        "text", "run", more,
        {.when = [&] { return fs::exists(metrics) && contains(read_bytes(metrics), trained); },
         .signal = SIGINT});
    if (stopped.status == 0) break;  // it ended before this process checked
    CHECK(stopped.status == 130);
    check_says(stopped.out, {fmt::format("stopped after step {};", step)});
    CHECK(this->metrics("run").back()["split"] == "train");
    CHECK(load_checkpoint(checkpoint("run")).state.evaluation_due);
    if (step == 1) more.push_back("--resume");
  }
  must_train("text", "run", keys + "--resume");
  check_same_run(*this, "whole", "run");
}

TEST_CASE_FIXTURE(RunFixture, "training: nohup keeps SIGHUP from ending it") {
  const std::string run = path("run");
  must(run_program(with_sets({"nohup", paths::program, "train", path("toy.toml"), "--out", run}),
                   {.when = when_holds(run + "/metrics.jsonl"), .signal = SIGHUP}));
  CHECK(load_checkpoint(checkpoint("run")).state.step == 40);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a limit of CPU time ended a training without a checkpoint") {
  const std::string command = fmt::format(
      "{} train {} --quiet --out {} --set train.steps=1000000 --set train.checkpoint_every=0 & "
      "until [ -s {}/metrics.jsonl ]; do sleep 0.01; done; "
      "kill -XCPU $!; kill -XCPU $!; wait $!",  // the system sends it each second
      paths::program, path("toy.toml"), path("run"), path("run"));
  CHECK(run_program({"sh", "-c", command}).status == 130);
  CHECK(load_checkpoint(checkpoint("run")).state.step > 0);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a closed terminal ended the training without a checkpoint") {
  const std::string command = fmt::format(
      "{} train {} --out {} --set train.eval_every=1 --set train.steps=200 "
      "--set train.checkpoint_every=0 > /dev/full",
      paths::program, path("toy.toml"), path("run"));
  CHECK(run_program({"sh", "-c", command}).status == 1);  // the result could not be printed
  CHECK(load_checkpoint(checkpoint("run")).state.step == 200);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a training whose output was closed ended as a failure") {
  const std::string command = fmt::format(
      "({} train {} --out {} --set train.eval_every=1 --set train.steps=200; echo $? > {}) | head "
      "-1",
      paths::program, path("toy.toml"), path("run"), path("status"));
  const Finished finished = run_program({"sh", "-c", command});
  CHECK(lines_of(finished.out).size() == 1);
  CHECK(finished.err.empty());
  CHECK(read("status") == "0\n");
  CHECK(load_checkpoint(checkpoint("run")).state.step == 200);
}

TEST_CASE("bug: an error was printed behind the progress line") {
  if (run_program({"script", "-qec", "true", "/dev/null"}).status != 0) {
    MESSAGE("not checked: no terminal can be opened here");
    return;
  }
  const RunFixture fixture;
  std::string command = fmt::format("{} train {} --out {}", paths::program,
                                    fixture.path("toy.toml"), fixture.path("run"));
  for (const std::string& key :
       Words("optim.name=sgd optim.learning_rate=1000 train.log_every=1 train.eval_every=0 "
             "optim.warmup_steps=1000000 train.batch_size=64 train.steps=1000000 optim.momentum=1 "
             "optim.clip_norm=0 optim.weight_decay=0"))
    command += fmt::format(" --set {}", key);
  const Finished finished = run_program({"script", "-qec", command, "/dev/null"});  // a terminal
  CHECK(finished.status == 1);
  check_says(finished.out, {"loss", "\r\033[Ktapestry: step "});
}

TEST_CASE("bug: tests depended on the caller's terminal, language and threads") {
  const std::string tests = fs::read_symlink("/proc/self/exe");
  const Finished finished =
      run_program({"env", "-i", "TERM=dumb", "LC_ALL=POSIX", "OMP_NUM_THREADS=many", tests,
                   "-tc=bug: an error was printed behind*"});
  CHECK_MESSAGE(finished.status == 0, finished.out);
  check_says(finished.out, {" 1 passed"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
