#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/trainer/begin_task.hpp"

// What the doctor says of a model, its learning rate and its machine: configs that are well and
// were held for ill, and such that are ill and passed.
namespace tapestry {
namespace {

ConfigWith shipped(const std::string& name, const Words& overrides = {}) {
  return [=](const Words& more) { return load_config(name, overrides + more); };
}

CheckResult outcome_of(CheckResult (*check)(TrainingUnderTest&), const ConfigWith& config_with) {
  TrainingUnderTest under_test(config_with);
  return check(under_test);
}

std::string found_in(const CheckResult& result) { return result.fault ? result.fault->found : ""; }

double number_after(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return std::stod(text.substr(at + word.size()));
}

const Words small_copy = "model.width=16 model.layers=1 data.length=4 train.batch_size=16";

// The weights of a copying model, of whose first feed-forward layer such a share of the units is
// far in the flat part of its activation.
std::string with_shut_units(const TemporaryFolder& folder, const Config& config, double share) {
  const std::unique_ptr<Task> task = begin_task(config);
  for (Parameter* parameter : task->model().parameters())
    if (parameter->name == "blocks.0.feed_forward.expand.bias") {
      Array bias = parameter->value();
      const auto values = bias.mutable_values<float>();
      std::fill_n(values.begin(), static_cast<std::size_t>(share * double(values.size())), -30.0F);
    }
  const std::string path = folder.path("shut.safetensors");
  save_weights([&](const auto& parts) { write_file_atomically(path, parts); }, *task, config);
  return path;
}

TEST_SUITE_BEGIN("doctor");

TEST_CASE_FIXTURE(TemporaryFolder, "bug: doctor: trainings from a model or of adapters failed") {
  const std::string run = path("run");
  must(tapestry_run("train copy train.steps=300 optim.learning_rate=1e-2 --out " + run +
                    small_copy));
  for (const char* adapters : {"model.lora.rank=0", "model.lora.rank=2"}) {
    const Finished said =
        tapestry_run(Words("doctor copy --from {} {} --skip resume", run, adapters) + small_copy);
    CHECK(!contains(must(said).out, "untrained"));
  }
}

TEST_CASE("bug: doctor: layers are judged apart from the learning rate, which has its own check") {
  for (const auto& [config, rate] : std::map<std::string, std::string>{
           {"memory-gate", "2e-9"}, {"karate", "10"}, {"copy", "100"}}) {
    const CheckResult result =
        outcome_of(check_layers, shipped(config, {"optim.learning_rate=" + rate}));
    CHECK_MESSAGE(!result.fault, config, " at ", rate, ": ", found_in(result));
  }
  const Finished said = tapestry_run("doctor karate optim.learning_rate=10");
  CHECK(said.status == 1);
  check_says(said.out, {"FAIL  learning rate", "times as large"});
}

TEST_CASE("bug: doctor: far too low a rate is found where the range test is flat") {
  for (const char* rate : {"2e-9", "0"}) {
    TrainingUnderTest under_test(
        shipped("memory-query-key", {std::string("optim.learning_rate=") + rate}));
    CHECK(!check_one_batch(under_test).fault);
    check_says(found_in(check_learning_rate(under_test)), {"one batch was overfitted at 1e-03"});
  }
  // Without the evidence of the check before it, by what some steps change.
  const CheckResult alone =
      outcome_of(check_learning_rate, shipped("memory-query-key", {"optim.learning_rate=2e-9"}));
  check_says(found_in(alone), {"24 steps reach a loss of"});
  REQUIRE(alone.fault);
  CHECK(number_after(alone.fault->advice, "optim.learning_rate=") >= 1e-5);
}

TEST_CASE("bug: doctor: one batch is learned better than guessing, however large the first loss") {
  const CheckResult result = outcome_of(check_one_batch, shipped("graphs"));
  CHECK(!result.fault);
  CHECK(number_after(result.said, "(expected below ") < std::log(5) / 2);
}

TEST_CASE("bug: doctor: a model that gradient descent does not overfit was called too small") {
  const CheckResult result = outcome_of(
      check_one_batch,
      shipped("copy", small_copy + "model.norm=post optim.name=sgd optim.learning_rate=1e-3"));
  CHECK_MESSAGE(!result.fault, found_in(result));
  REQUIRE(result.warnings.size() == 1);
  check_says(result.warnings[0], {"with adam at learning rate", "not with sgd at 1.0e-03"});
}

TEST_CASE("bug: doctor: sound trainings failed a check") {
  const auto passes = [](const char* bug, const auto& check, const ConfigWith& training) {
    CAPTURE(bug);
    const CheckResult result = outcome_of(check, training);
    CHECK_MESSAGE(!result.fault, found_in(result));
  };
  passes(
      "with train.check_finite, one batch failed at the first rate that diverges", check_one_batch,
      shipped("graphs",
              "optim.name=sgd optim.learning_rate=1000 optim.clip_norm=0 train.check_finite=true"));
  passes(
      "a rate whose first steps gain nothing was called one that destroys", check_learning_rate,
      shipped("reverse",
              "data.alphabet=20 data.length=4 model.activation=silu model.bias=false "
              "model.attention_bias=same model.dropout=0.28927491669641153 model.feed_forward=64 "
              "model.heads=1 model.layers=4 model.norm_kind=rms model.tied_embeddings=false "
              "model.window=4 optim.beta2=0.9926143201305133 optim.clip_norm=1.1932521741695636 "
              "optim.learning_rate=0.0034294244691893605 optim.warmup_steps=0 seed=32 "
              "train.batch_size=4 train.average_decay=0.9277301090418414 train.max_bad_steps=0"));
  passes(
      "a rate was too low where a noisy loss falls fastest at a far higher one",
      check_learning_rate,
      shipped("graphs",
              "data.examples=800 data.held_back=200 model.l2=0.00041263949161193613 model.width=32 "
              "optim.beta1=0.8507576327742797 optim.beta2=0.9906773033926934 optim.clip_norm=0 "
              "seed=2048 optim.learning_rate=0.0002557779891472714 train.batch_size=8 "
              "optim.weight_decay=0.01823009271212912 train.max_bad_steps=2"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: doctor: rank-1 adapters, too small for a batch, failed") {
  const std::string run = path("run");
  must(tapestry_run("train copy train.steps=1 --out " + run + small_copy));
  const CheckResult result = outcome_of(
      check_one_batch,
      shipped("copy",
              small_copy + ("model.lora.rank=1 model.lora.targets=[\"key\"] train.from=" + run)));
  CHECK_MESSAGE(!result.fault, found_in(result));
  REQUIRE(result.warnings.size() == 1);
  check_says(result.warnings[0], {"with model.lora.rank = 1 too few weights may be trained"});
}

TEST_CASE("bug: doctor: a graph network that sees no difference was called too small") {
  const CheckResult result = outcome_of(
      check_one_batch, shipped("graphs", {"model.normalization=mean", "model.pooling=mean",
                                          "train.trainable=[\"*\"]"}));
  check_says(found_in(result), {"differ in inputs and targets, but have the same outputs"});
}

TEST_CASE("bug: doctor: large first weights of a model that trains well only warn") {
  const ConfigWith config_with = shipped("graphs", "model.width=64 model.layers=5");
  for (const auto check : {check_first_loss, check_layers}) {
    const CheckResult result = outcome_of(check, config_with);
    CHECK_MESSAGE(!result.fault, found_in(result));
    CHECK(result.warnings.size() == 1);
  }
}

TEST_CASE("bug: doctor: dead units of every activation are found, and called dead") {
  for (const char* activation : {"gelu", "gelu_tanh", "silu", "relu"}) {
    const TemporaryFolder folder;
    const Words keys = small_copy + (std::string("model.activation=") + activation);
    const Config config = load_config("copy", keys);
    CHECK(outcome_of(check_layers, shipped("copy", keys)).said.find("at most 0 % dead") !=
          std::string::npos);
    for (const double share : {0.97, 1.0}) {
      const std::string found = found_in(outcome_of(
          check_layers,
          shipped("copy", keys + ("train.from=" + with_shut_units(folder, config, share)))));
      CAPTURE(activation);
      check_says(found, {"% of the units of", "in blocks.0.feed_forward"});
    }
  }
}

TEST_CASE("bug: doctor: where there is no activation, none is said to be alive") {
  check_says(outcome_of(check_layers, shipped("karate", {"model.layers=1"})).said,
             {"no known activation"});
}

TEST_CASE("bug: doctor: two targets that are predicted by chance are no leak") {
  const CheckResult result = outcome_of(
      check_first_loss,
      shipped("karate", {"seed=6", "model.normalization=sum", "model.layers=4", "model.width=32"}));
  check_says(result.said, {"initial loss 0.000"});
  CHECK(!result.fault);
}

TEST_CASE("bug: doctor: a small model that learns a batch in part does not ignore its inputs") {
  const CheckResult result = outcome_of(
      check_one_batch, shipped("graphs", {"model.normalization=symmetric", "model.width=16",
                                          "data.held_back=200", "data.least_nodes=12"}));
  CHECK(!result.fault);
  REQUIRE(result.warnings.size() == 1);
  check_says(result.warnings[0], {"goes from", "the model may be too small"});
}

TEST_CASE("bug: doctor: a training that memory does not hold is told so before anything") {
  const Admitted small = admit(shipped("copy"), 1 << 20);
  CHECK(!small.under_test);
  check_says(found_in(small.refused), {"the training needs", "1.05 MB are available"});
  const Admitted enough = admit(shipped("karate"));
  REQUIRE(enough.under_test);
  CHECK(!check_plan(*enough.under_test).fault);
}

TEST_CASE("bug: doctor: free disk space that is unknown was taken for a full disk") {
  TrainingPlan plan = plan_training(shipped("karate"), {.seconds = 0});
  plan.disk_free.reset();
  TrainingUnderTest unknown(shipped("karate"), plan);
  const CheckResult result = check_plan(unknown);
  CHECK(!result.fault);
  check_says(result.said, {"of disk (the free space is unknown) for "});
  plan.disk_free = plan.disk - 1;
  TrainingUnderTest full(shipped("karate"), plan);
  check_says(found_in(check_plan(full)), {"the run's folder needs ", " of disk; "});
}

TEST_CASE("bug: doctor: the plan's memory is the training's, not the doctor's" *
          not_sanitized("the sanitizer's own memory counts")) {
  const auto report =
      Json::parse(tapestry_run("doctor graphs --json --skip threads --skip resume").out);
  const auto& check = report["gates"].back();
  REQUIRE(check["gate"] == "plan");
  const auto plan = Json::parse(tapestry_run("plan graphs --seconds 0 --json").out);
  const double megabytes = plan["bytes"]["process"].get<double>() / 1e6;
  CHECK(std::stod(check["said"].get<std::string>()) == doctest::Approx(megabytes).epsilon(0.05));
  CHECK(report["skipped"] == Strings{"threads", "resume"});
}

TEST_CASE("bug: doctor: a training whose steps take minutes is planned without taking one" *
          not_sanitized("it would take minutes")) {
  const CheckResult result =
      outcome_of(check_plan, shipped("copy", "train.batch_size=100000 train.micro_batches=1000"));
  CHECK(!result.fault);
  check_says(result.said, {"for 1500 steps; `tapestry plan` measures the time"});
}

TEST_CASE("bug: doctor: what the system refuses is no fault of the model") {
  TrainingUnderTest under_test(shipped("karate"));
  const DoctorCheck full{"full",
                         [](TrainingUnderTest&) -> CheckResult { throw FileError("no space"); }};
  CHECK_THROWS_AS(examine(full, under_test), FileError);

  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/nonexistent", 1);
  const Finished said = tapestry_run("doctor karate");
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  check_fails(said, {"TMPDIR=/nonexistent"});
  CHECK(!contains(said.out, "FAIL"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: doctor: ignored signals ended it; results came late") {
  const std::string out = path("out");
  std::string command = fmt::format(
      "trap '' HUP; exec {} {} doctor graphs --skip plan --skip 'learning rate' --skip 'one batch' "
      ">{}",
      TAPESTRY_EMULATOR, TAPESTRY_BINARY, out);
  bool seen = false;
  must(run_program({"sh", "-c", command}, {.when =
                                               [&] {
                                                 std::error_code none;
                                                 if (!fs::exists(out, none)) return false;
                                                 return seen = read_bytes(out).find("layers") !=
                                                               std::string::npos;
                                               },
                                           .signal = SIGHUP}));
  CHECK(seen);
  check_says(read_bytes(out), {"ok    resume"});
}

TEST_CASE("bug: doctor: an impossible folder or an unknown check is told at once") {
  check_refused(tapestry_run("doctor karate --out /proc/none/pictures"),
                {"--out /proc/none/pictures: cannot create the folder"});
  check_fails(tapestry_run("doctor karate --skip nope"),
              {"no such check; expected one of shared-examples, values", "resume"});
}

TEST_CASE("doctor: shipped configs whose data are built in pass" *
          not_sanitized("it would take minutes")) {
  for (const std::string name : {"graphs", "memory-sum", "waves"}) {
    const Finished said = tapestry_run("doctor " + name);
    CHECK_MESSAGE(said.status == 0, name, ": ", said.out, said.err);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
