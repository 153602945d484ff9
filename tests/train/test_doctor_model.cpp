#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "autograd/clock.hpp"
#include "tests/support/drawn_config.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/checkpoint.hpp"
#include "train/task_spec.hpp"
#include "train/tools/doctor/check.hpp"
#include "train/trainer/begin_task.hpp"

// Tests the doctor's checks of model, learning rate and machine: sound configs that once failed,
// and faulty ones that once passed.
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

// Writes weights of a model of copy with this share of units of the first feed-forward layer in the
// flat part of the activation.
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
  must_run("train copy train.steps=300 optim.learning_rate=1e-2 --out " + run + small_copy);
  for (const char* adapters : {"model.lora.rank=0", "model.lora.rank=2"}) {
    const Finished said =
        tapestry_run(Words("doctor copy --from {} {} --skip resume", run, adapters) + small_copy);
    CHECK(!contains(must(said).out, "untrained"));
  }
}

TEST_CASE("bug: doctor: a wrong learning rate was reported as a fault of layers") {
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

TEST_CASE("bug: doctor: a far too low rate passed where the range test is flat") {
  for (const char* rate : {"2e-9", "0"}) {
    TrainingUnderTest under_test(
        shipped("memory-query-key", {std::string("optim.learning_rate=") + rate}));
    CHECK(!check_one_batch(under_test).fault);
    check_says(found_in(check_learning_rate(under_test)), {"one batch was overfitted at 1e-03"});
  }
  // Without the result of the check before it, by the changes of some steps.
  const CheckResult alone =
      outcome_of(check_learning_rate, shipped("memory-query-key", {"optim.learning_rate=2e-9"}));
  check_says(found_in(alone), {"24 steps reach a loss of"});
  REQUIRE(alone.fault);
  CHECK(number_after(alone.fault->advice, "optim.learning_rate=") >= 1e-5);
}

TEST_CASE("bug: doctor: a large first loss hid that one batch was not learned") {
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
  must_run("train copy train.steps=1 --out " + run + small_copy);
  const CheckResult result = outcome_of(
      check_one_batch,
      shipped("copy",
              small_copy + ("model.lora.rank=1 model.lora.targets=[\"key\"] train.from=" + run)));
  CHECK_MESSAGE(!result.fault, found_in(result));
  REQUIRE(result.warnings.size() == 1);
  check_says(result.warnings[0], {"with model.lora.rank = 1 too few weights may be trained"});
}

TEST_CASE("bug: doctor: a graph network with equal inputs was called too small") {
  const CheckResult result = outcome_of(
      check_one_batch, shipped("graphs", {"model.normalization=mean", "model.pooling=mean",
                                          "train.trainable=[\"*\"]"}));
  check_says(found_in(result), {"differ in inputs and targets, but have the same outputs"});
}

TEST_CASE("bug: doctor: large first weights of a model that trains well were a failure") {
  const ConfigWith config_with = shipped("graphs", "model.width=64 model.layers=5");
  for (const auto check : {check_first_loss, check_layers}) {
    const CheckResult result = outcome_of(check, config_with);
    CHECK_MESSAGE(!result.fault, found_in(result));
    CHECK(result.warnings.size() == 1);
  }
}

TEST_CASE("bug: doctor: dead units of some activations were not found") {
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

TEST_CASE("bug: doctor: models without activations were said to have live ones") {
  check_says(outcome_of(check_layers, shipped("karate", {"model.layers=1"})).said,
             {"no known activation"});
}

TEST_CASE("bug: doctor: two targets predicted by chance were called a leak") {
  const CheckResult result = outcome_of(
      check_first_loss,
      shipped("karate", {"seed=6", "model.normalization=sum", "model.layers=4", "model.width=32"}));
  check_says(result.said, {"initial loss 0.000"});
  CHECK(!result.fault);
}

TEST_CASE("bug: doctor: a small model that learns part of a batch was said to ignore its inputs") {
  const CheckResult result = outcome_of(
      check_one_batch, shipped("graphs", {"model.normalization=symmetric", "model.width=16",
                                          "data.held_back=200", "data.least_nodes=12"}));
  CHECK(!result.fault);
  REQUIRE(result.warnings.size() == 1);
  check_says(result.warnings[0], {"goes from", "the model may be too small"});
}

TEST_CASE("bug: doctor: a training too large for the memory was examined") {
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

TEST_CASE("bug: doctor: the memory of the plan was that of the doctor" *
          not_sanitized("the sanitizer's own memory counts")) {
  const auto report = Json::parse(
      tapestry_run("doctor memory-sum --json --skip learning-rate --skip threads --skip resume")
          .out);
  const auto& check = report["gates"].back();
  REQUIRE(check["gate"] == "plan");
  const auto plan = Json::parse(tapestry_run("plan memory-sum --seconds 0 --json").out);
  const double megabytes = plan["bytes"]["process"].get<double>() / 1e6;
  CHECK(std::stod(check["said"].get<std::string>()) == doctest::Approx(megabytes).epsilon(0.05));
  CHECK(report["skipped"] == Strings{"learning rate", "threads", "resume"});
}

TEST_CASE("bug: doctor: planning a training took a step of minutes" *
          not_sanitized("it would take minutes")) {
  const CheckResult result =
      outcome_of(check_plan, shipped("copy", "train.batch_size=100000 train.micro_batches=1000"));
  CHECK(!result.fault);
  check_says(result.said, {"for 1500 steps; `tapestry plan` measures the time"});
}

TEST_CASE("bug: doctor: errors of the system were reported as faults of the model") {
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

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: doctor: ignored signals ended it, and results were printed late") {
  const std::string out = path("out");
  const std::string command = fmt::format(
      "trap '' HUP; exec {} {} doctor graphs --skip plan --skip learning-rate --skip one-batch "
      "--set data.examples=400 --set data.held_back=50 >{}",
      paths::emulator, paths::program, out);
  bool seen = false;
  const auto shows_layers = [&] {
    return seen = fs::exists(out) && contains(read_bytes(out), "layers");
  };
  for (int attempt = 0; attempt < 20 && !seen; ++attempt) {  // this process may have waited
    fs::remove(out);
    must(run_program({"sh", "-c", command}, {.when = shows_layers, .signal = SIGHUP}));
  }
  CHECK(seen);
  check_says(read_bytes(out), {"ok    resume"});
}

TEST_CASE("bug: doctor: an impossible folder or an unknown check was refused late") {
  check_refused(run_here("doctor karate --out /proc/none/pictures"),
                {"--out /proc/none/pictures: cannot create the folder"});
  check_fails(run_here("doctor karate --skip nope"),
              {"no such check; expected one of shared-examples, values", "resume"});
}

TEST_CASE("doctor: shipped configs whose data are built in pass" *
          not_sanitized("it would take minutes")) {
  must_run("doctor graphs data.examples=800 data.held_back=100");
  must_run("doctor memory-sum");
  must_run("doctor waves train.batch_size=16");
}

// Runs the doctor on random sound configs, which must pass. The campaign is skipped by default, and
// TAPESTRY_DOCTOR_CONFIGS sets the number of configs: tapestry-tests -ns -tc='campaign: *'

TEST_CASE("doctor: random sound configs use every key that is not listed as excluded") {
  for (const auto& [task, spec] : task_registry())
    for (const KeyInfo& key : key::with_common_keys(spec.keys)) {
      if (task == "disc" || !is_of_program(key)) continue;
      CAPTURE(key.name);
      const bool has_values =
          !key.limits.choices.empty() || std::holds_alternative<bool>(key.fallback);
      const auto bounds = usual_bounds.find(key.name);
      CHECK((has_values || bounds != usual_bounds.end() || not_drawn.contains(key.name)));
      if (bounds == usual_bounds.end()) continue;
      CHECK(!not_drawn.contains(key.name));
      CHECK(bounds->second.low <= key.limits.high);
      CHECK(bounds->second.high >= key.limits.low);
    }
}

TEST_CASE_FIXTURE(ConfigGenerator,
                  "campaign: the doctor finds no fault in random sound configs" * doctest::skip()) {
  const std::int64_t wanted = from_environment("TAPESTRY_DOCTOR_CONFIGS", 200);
  const double start_s = now_s();
  const std::int64_t first = from_environment("TAPESTRY_DOCTOR_FIRST", 0);
  std::int64_t blind = 0, faults = 0;
  std::map<std::string, int> warnings;
  for (std::int64_t i = first; i < first + wanted; ++i) {
    const DrawnConfig drawn = draw(i);
    Strings command = {"doctor", drawn.name(), "--json", "--skip", "plan"};
    for (const std::string& word : drawn.words()) command.push_back(word);
    const Finished said = tapestry_run(command);
    if (said.status == 2) {
      FAIL_CHECK(i << ": refused: " << fmt::format("{}", fmt::join(command, " ")) << "\n"
                   << said.err);
      continue;
    }
    const auto report = Json::parse(said.out);
    const auto& last = report["gates"].back();
    if (drawn.is_blind() && said.status == 1) {
      ++blind;
      if (last["gate"] != "layers")  // attention to equal nodes has no gradient
        CHECK(last["cause"] == "the model ignores what distinguishes these examples");
    } else {
      faults += said.status != 0;
      CHECK_MESSAGE(said.status == 0, fmt::format("{}: {}", i, fmt::join(command, " ")), "\n",
                    last.dump());
    }
    for (const auto& check : report["gates"])
      if (check["verdict"] == "warning") ++warnings[check["gate"]];
  }
  std::string text;
  for (const auto& [check, count] : warnings) text += fmt::format("\n  {:4} {}", count, check);
  MESSAGE(
      fmt::format("{} configs in {:.0f} s: {} faults, {} graphs that a model cannot see; "
                  "warnings:{}",
                  wanted, now_s() - start_s, faults, blind, text));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
