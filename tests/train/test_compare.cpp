#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/run_fixture.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"

namespace tapestry {
namespace {

using Judged = FigureDifference::Outcome;
using Folders = Strings;

TEST_SUITE_BEGIN("compare");

// Runs of a graph with 34 nodes: a few steps take no time.
class Club : public CommandFolder {
 public:
  void train(const std::string& out, const Words& more = {}) const {
    must(run(Words("train karate --quiet --out {} train.steps=20", out) + more));
  }
  std::vector<RunGroup> groups(Folders names) const {
    for (std::string& name : names) name = path(name);
    return read_groups(names);
  }
  // Puts such an evaluation in the place of what was measured.
  void measured(const std::string& run, const std::string& figures) const {
    const auto best = load_checkpoint_metadata(path(run + "/best.safetensors"));
    write(run + "/metrics.jsonl",
          fmt::format(R"({{"step":{},"split":"val","elapsed_s":1,"parameters_xxh3":"{}",{}}})",
                      best.state.step, combined(parameter_checksums(best)), figures) +
              "\n");
  }
};

std::vector<double> losses(const RunGroup& group) { return group.values("loss"); }

const SettingDifference* find(const std::vector<SettingDifference>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &SettingDifference::name);
  return found == all.end() ? nullptr : &*found;
}

TEST_CASE_FIXTURE(Club, "compare: groups of seeds, by pairs, and what differs in their configs") {
  train("slow", "--seeds 3");
  train("fast", "--seeds 3 optim.learning_rate=0.03 --threads 2 name=quick");
  const std::vector<RunGroup> groups = this->groups({"slow", "fast/"});
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].name == path("fast"));
  CHECK(groups[1].seeds() == std::vector<std::int64_t>{1, 2, 3});

  const auto difference = difference_of(groups[0], groups[1], "loss");
  REQUIRE(difference);
  CHECK(difference->is_paired);
  CHECK(difference->degrees == 2);
  const std::vector<double> a = losses(groups[0]), b = losses(groups[1]);
  const double d[] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]}, mean = (d[0] + d[1] + d[2]) / 3;
  double squares = 0;
  for (const double one : d) squares += (one - mean) * (one - mean);
  CHECK(difference->value == doctest::Approx(mean));
  CHECK(*difference->margin == doctest::Approx(4.302652729749 * std::sqrt(squares / 2 / 3)));
  CHECK(difference->outcome == Judged::differs);  // three times the steps, as it were
  CHECK(difference->value < 0);

  const std::vector<SettingDifference> settings = settings_that_differ(groups);
  REQUIRE(settings.size() == 1);  // neither threads nor name
  CHECK(settings[0].name == "optim.learning_rate");
  CHECK(settings[0].values == Strings{"0.01", "0.03"});

  const Finished text = must(run("compare slow fast"));
  check_says(text.out,
             {"fast/seed-3 ", "95 % CI of the mean", "difference from slow:\n", "  paired  ",
              "significantly lower (better)\n", "settings that differ:\n",
              "optim.learning_rate  0.01  0.03\n", "2 intervals, not corrected for their number"});
  const Finished alone = run("compare slow fast --groups");
  CHECK(alone.out.starts_with("metric "));
  CHECK(!contains(alone.out, "seed-"));
  CHECK(text.out.ends_with("\n" + alone.out));
}

TEST_CASE_FIXTURE(Club, "compare: JSON has an object per run, and per group and comparison") {
  train("slow", "--seeds 2");
  train("fast", "optim.learning_rate=0.03");
  const auto objects = [&](const Words& more) {
    Words words = "compare slow fast --json" + more;
    std::vector<Json> parsed;
    for (const std::string& line : lines_of(run(words).out)) parsed.push_back(Json::parse(line));
    return parsed;
  };
  const std::vector<Json> runs = objects({});
  REQUIRE(runs.size() == 3);
  CHECK(runs[1]["run"] == "slow/seed-2");
  CHECK(runs[1]["step"] == 20);
  CHECK(runs[2]["run"] == "fast");
  const std::vector<Json> groups = objects("--groups");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0]["group"] == "slow");
  CHECK(groups[0]["runs"] == Json{"slow/seed-1", "slow/seed-2"});
  CHECK(groups[0]["seeds"] == Json{1, 2});
  const Json& loss = groups[0]["figures"]["loss"];
  const double a = runs[0]["loss"], b = runs[1]["loss"], half = std::abs(a - b) / 2;
  CHECK(loss["n"] == 2);
  CHECK(loss["mean"] == doctest::Approx((a + b) / 2));
  CHECK(loss["deviation"] == doctest::Approx(half * std::sqrt(2.0)));
  CHECK(loss["high"].get<double>() - loss["mean"].get<double>() ==
        doctest::Approx(12.706204736175 * half));
  CHECK(groups[1]["figures"]["loss"].size() == 2);  // of one run n and mean alone
  CHECK(groups[2]["comparison"] == "fast");
  CHECK(groups[2]["with"] == "slow");
  CHECK(groups[2]["figures"]["loss"]["verdict"] == "seeds unknown");
  CHECK(!groups[2]["figures"]["loss"].contains("low"));
  CHECK(groups[2]["settings"]["optim.learning_rate"] == Json{"0.01", "0.03"});
  CHECK(groups[2]["settings"]["seed"] == Json{"1, 2", "1"});
}

TEST_CASE_FIXTURE(Club, "bug: compare: seed-01 took the place of seed-1") {
  train("a", "--seeds 2");
  fs::copy(path("a/seed-1"), path("a/seed-01"));
  const std::vector<RunGroup> groups = this->groups({"a"});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].runs[0].folder == path("a/seed-1"));
}

TEST_CASE_FIXTURE(Club, "compare: runs named one by one are a group if only their seeds differ") {
  train("a", "seed=5");
  train("b", "seed=6 train.log_every=3 expected.value=0");
  train("c", "seed=5 model.width=5");
  train("again", "seed=5");
  const std::vector<RunGroup> groups = this->groups({"a", "b", "c", "again", "./a"});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].seeds() == std::vector<std::int64_t>{5, 6});
  CHECK(groups[1].runs[0].folder == path("c"));
  // The same training twice is no second sample of it, and ./a is a.
  CHECK(groups[2].runs[0].folder == path("again"));
  CHECK(groups[2].runs.size() == 1);
  CHECK(losses(groups[2])[0] == losses(groups[0])[0]);

  const Finished text = run("compare a b c");
  check_says(text.out, {"a: 2 runs of one config with different seeds: a, b\n",
                        "needs several seeds (n = 2 and 1)\n", "train with --seeds 3 or more\n",
                        "model.width  ", "  5\n"});
  const Finished single = run("compare a c");
  check_says(single.out, {"the spread between seeds: train with --seeds 3 or more\n"});
  CHECK(!contains(single.out, "95 %"));  // no interval of one
  check_says(run("compare a again").out, {"settings that differ: none\n"});
}

TEST_CASE_FIXTURE(Club, "compare: groups of other seeds or data are compared by Welch's test") {
  train("a", "--seeds 2");
  train("b", "--seeds 3 seed=2");
  const auto groups = this->groups({"a", "b"});
  const auto difference = difference_of(groups[0], groups[1], "loss");
  REQUIRE(difference);
  CHECK(!difference->is_paired);
  const Confidence welch =
      welch_difference(estimate_of(losses(groups[0])), estimate_of(losses(groups[1])));
  CHECK(*difference->margin == welch.margin);
  CHECK(difference->degrees == welch.degrees);
  const auto differing = settings_that_differ(groups);
  REQUIRE(differing.size() == 1);
  CHECK(differing[0].name == "seed");
  CHECK(differing[0].values == Strings{"1, 2", "2, 3, 4"});

  const RunFixture fixture;
  const Words two = "--seeds 2 train.steps=4 train.eval_every=2";
  fixture.must_train("text", "before", two);
  fixture.write("story.txt", story(21));
  fixture.must_train("text", "after", two);
  const auto texts = read_groups({fixture.path("before"), fixture.path("after")});
  CHECK(!difference_of(texts[0], texts[1], "loss")->is_paired);
  const auto settings = settings_that_differ(texts);
  REQUIRE(settings.size() == 1);
  CHECK(settings[0].name == "data");
  CHECK(settings[0].values[0] == texts[0].runs[0].data);
}

TEST_CASE_FIXTURE(Club, "compare: figures without a spread, out of range, or of some runs alone") {
  train("a", "--seeds 3");
  train("b", "--seeds 3 model.width=5");
  for (int seed = 1; seed <= 3; ++seed) {
    const std::string rest = fmt::format(R"("same":0.1,"steady":{{}},"huge":{}1e308,"noisy":{})",
                                         seed == 2 ? "-" : "", seed);
    const auto figures = [&](const char* steady, const std::string& more) {
      return fmt::format(fmt::runtime(rest), steady) + more;
    };
    measured(fmt::format("a/seed-{}", seed),
             figures("1", seed == 2 ? R"(,"loss":null,"some":1)" : R"(,"loss":1)"));
    measured(fmt::format("b/seed-{}", seed),
             figures("0.5", R"(,"loss":2,"own":3,"x_signature":"13a")"));
  }
  const auto groups = this->groups({"a", "b"});
  const auto outcome = [&](const char* figure) {
    return difference_of(groups[0], groups[1], figure)->outcome;
  };
  CHECK(outcome("same") == Judged::same);
  CHECK(outcome("steady") == Judged::no_spread);
  CHECK(outcome("huge") == Judged::no_significant_difference);
  CHECK(outcome("noisy") == Judged::same);
  CHECK(outcome("loss") == Judged::not_in_all);  // one came to no number
  CHECK(!difference_of(groups[0], groups[1], "own"));
  CHECK(!difference_of(groups[0], groups[1], "some"));
  CHECK(measured_figures(groups) ==
        Strings{"loss", "huge", "noisy", "own", "same", "some", "steady"});
  check_prints(run("compare a b"),
               {"  x_signature", "  13a", "not in all of the runs (n = 2 and 3)\n",
                "the seeds have no spread (n = 3 and 3)\n", "the same (n = 3 and 3)\n"});
  const Finished json = run("compare a b --groups --json");
  for (const std::string& line : lines_of(json.out)) CHECK(!Json::parse(line).is_null());
}

TEST_CASE_FIXTURE(Club, "bug: compare: equal differences were called significant") {
  train("a", "--seeds 3");
  train("b", "--seeds 3 model.width=5");
  const std::vector<double> before = {0.32, 0.36, 0.44}, after = {0.66, 0.7, 0.78};
  for (int seed = 1; seed <= 3; ++seed) {
    const auto figures = [&](double accuracy, double loss) {
      return fmt::format(R"("accuracy":{},"loss":{})", accuracy, loss);
    };
    measured(fmt::format("a/seed-{}", seed), figures(before[seed - 1], 1.5));
    measured(fmt::format("b/seed-{}", seed), figures(after[seed - 1], 0.9 * seed));
  }
  const Finished found = must(run("compare a b --groups"));
  check_says(found.out, {"+0.3400 ", "no test: the seeds have no spread (n = 3 and 3)",
                         "not decided with 3 seeds (p = 0.6"});
  CHECK(!contains(found.out, "significantly"));
  const Json json = Json::parse(lines_of(must(run("compare a b --groups --json")).out).back());
  CHECK(json["figures"]["accuracy"]["verdict"] == "no spread to judge by");
  CHECK(!json["figures"]["accuracy"].contains("low"));
  CHECK(json["figures"]["loss"]["verdict"] == "cannot be told apart");
  CHECK(json["figures"]["loss"]["p"] > 0.05);
  must(run("report a b --out report.html"));
  check_says(read("report.html"), {"the seeds have no spread", "not decided with 3 seeds"});
}

TEST_CASE_FIXTURE(Club, "compare: keys that do not count, tasks, and runs that stopped elsewhere") {
  train("adam");
  train("momentum", "optim.name=sgd optim.momentum=0.5");
  auto settings = settings_that_differ(groups({"adam", "momentum"}));
  REQUIRE(find(settings, "optim.momentum"));
  CHECK(find(settings, "optim.momentum")->values == Strings{"", "0.5"});
  CHECK(find(settings, "optim.beta1")->values.back().empty());
  CHECK(!find(settings, "steps done"));
  CHECK(!contains(must(run("compare adam momentum")).out, "parameters_xxh3"));

  Words words = "train memory-sum --quiet --out sum train.steps=2" + small("recall");
  REQUIRE(run(words).status == 0);
  settings = settings_that_differ(groups({"adam", "sum"}));
  CHECK(find(settings, "task")->values == Strings{"\"graph\"", "\"recall\""});
  CHECK(find(settings, "train.steps"));
  CHECK(!find(settings, "model.memory"));  // of one task alone
  const auto tasks = groups({"adam", "sum"});
  CHECK(!difference_of(tasks[0], tasks[1], "loss"));

  train("long", "train.steps=40 train.eval_every=10");
  Strings lines = lines_of(read("long/metrics.jsonl"));
  std::erase_if(lines, [](const std::string& line) {
    return !contains(line, "\"val\"") || line.starts_with("{\"step\":40");
  });
  write("long/metrics.jsonl", lines.back() + "\n");
  fs::remove(path("long/best.safetensors"));  // of step 40
  settings = settings_that_differ(groups({"adam", "long"}));
  CHECK(find(settings, "steps done")->values == Strings{"20", "30"});
}

TEST_CASE_FIXTURE(Club, "compare: folders of seeds that are no group, or not yet, say so") {
  train("a", "--seeds 3");
  train("other", "seed=3 model.width=5");
  write("a/seed-2/metrics.jsonl", R"({"step":1,"split":"train","elapsed_s":1})"
                                  "\n");
  check_says(run("compare a").out, {"a/seed-2: left out, because it has no evaluation yet\n"});
  CHECK(groups({"a"})[0].seeds() == std::vector<std::int64_t>{1, 3});

  const auto message = [&](const Folders& names) { return message_of([&] { groups(names); }); };
  write("a/seed-2/metrics.jsonl", "{}\n");
  check_says(message({"a"}), {"a/seed-2/metrics.jsonl:1: not a line of metrics"});
  fs::remove_all(path("a/seed-2"));
  fs::copy(path("a/seed-1"), path("a/seed-7"));
  check_says(message({"a"}), {"a/seed-7: has seed 1, like ", "a/seed-1; move one of them out"});
  fs::remove_all(path("a/seed-7"));
  fs::remove_all(path("a/seed-3"));
  fs::copy(path("other"), path("a/seed-3"));
  check_says(message({"a"}), {"a/seed-3: model.width is 5, but ", " in ",
                              "a/seed-1: runs in a folder of seeds must differ in the seed alone"});
  fs::remove_all(path("a/seed-3"));
  write("a/seed-1/metrics.jsonl", "");
  check_says(message({"a"}), {"a: none of its seeds has been evaluated yet"});
  check_says(message({"other", "none"}), {"none: no such run"});
  write("other/config.toml", "task = \"grahp\"\n");
  check_says(message({"other"}), {"other/config.toml", "did you mean \"graph\"?"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: compare: losses of other tokenizers and data were judged") {
  const Words few = "--seeds 2 train.steps=4 train.eval_every=2";
  const auto train = [&](const std::string& run, const Words& more) {
    must_train("text", run, few + more);
  };
  train("characters", {});
  train("pairs", "data.tokenizer=train data.vocabulary=270");
  train("wide", "model.width=24");
  train("fraction", "data.validation_fraction=0.3");
  train("other", {"data.path=" + write("other.txt", story(30))});
  const auto why = [&](const std::string& run, const std::string& figure) {
    const auto groups = read_groups({path("characters"), path(run)});
    const auto difference = difference_of(groups[0], groups[1], figure);
    CHECK((difference->outcome == Judged::not_comparable) == !difference->reason.empty());
    return difference->reason;
  };
  CHECK(why("pairs", "loss") == "the metric is per token, and the tokenizers differ");
  CHECK(why("pairs", "bits_per_byte").empty());
  CHECK(why("wide", "loss").empty());
  CHECK(why("fraction", "loss") == "data.validation_fraction is 0.1 and 0.3");
  for (const char* figure : {"loss", "bits_per_byte"})
    CHECK(why("other", figure) == "the validation data differ");

  const RunOptions here{.folder = path()};
  check_says(tapestry_run("compare characters pairs", here).out,
             {"not comparable: the metric is per token, and the tokenizers differ\n"});
  const Finished single = tapestry_run("compare characters/seed-1 other/seed-1", here);
  check_says(single.out, {"not comparable between characters/seed-1 and other/seed-1: loss, ",
                          "bits_per_byte", ": the validation data differ\n"});
  const Json figures =
      Json::parse(lines_of(tapestry_run("compare characters pairs --groups --json", here).out)
                      .back())["figures"];
  CHECK(figures["loss"]["verdict"] == "not comparable");
  CHECK(figures["loss"]["reason"] == "the metric is per token, and the tokenizers differ");
  CHECK(!figures["loss"].contains("difference"));
  CHECK(figures["bits_per_byte"].contains("difference"));
}

TEST_CASE_FIXTURE(Club, "bug: compare: of the loss alone it was said which way is better") {
  train("a", "--seeds 3");
  train("b", "--seeds 3 model.width=5");
  for (int seed = 1; seed <= 3; ++seed)
    for (const auto& [run, moved] : {std::pair{"a", 0}, std::pair{"b", 100}})
      measured(fmt::format("{}/seed-{}", run, seed),
               fmt::format(R"("loss":{0},"accuracy":{0},"attended":{0})",
                           seed * 0.1 + moved * (1 + 0.01 * seed * seed)));
  const Strings lines = lines_of(this->run("compare a b").out);
  for (const auto& [figure, outcome] : {std::pair{"loss", "significantly higher (worse)"},
                                        std::pair{"accuracy", "significantly higher (better)"},
                                        std::pair{"attended", "significantly higher"}})
    CHECK_MESSAGE(std::ranges::any_of(lines,
                                      [&](const std::string& line) {
                                        return line.starts_with(std::string(figure) + " ") &&
                                               line.ends_with(outcome);
                                      }),
                  figure);
}

TEST_CASE("compare: keys of augmentation change the training data alone") {
  const auto group = [](const std::string& key, const std::string& value) {
    const ConfigSettings settings = {{"task", "\"image-classification\""}, {key, value}};
    const ComparedRun run{.task = "image-classification", .settings = settings};
    return RunGroup{.name = "", .runs = {run}};
  };
  for (const std::string key : {"data.flip", "data.shift"})
    CHECK(why_not_comparable(group(key, "1"), group(key, "2"), "loss").empty());
  CHECK(why_not_comparable(group("data.skip_broken", "false"), group("data.skip_broken", "true"),
                           "loss") == "data.skip_broken is false and true");
}

TEST_CASE("compare: each task says of its metrics which way is better") {
  using enum MetricInfo::Better;
  CHECK(metric_info("forecast", "test_mse").better == lower);
  CHECK(metric_info("translation", "bleu").better == higher);
  CHECK(metric_info("recall", "attended").better == neither);
  CHECK(metric_info("no task", "loss").better == lower);
  CHECK(metric_info("graph", "bleu").better == neither);
  CHECK(metric_info("graph", "bleu").meaning.empty());
  for (const auto& [task, spec] : task_registry()) {
    CHECK_MESSAGE(!spec.metrics.empty(), task);
    for (const MetricInfo& metric : spec.metrics)
      CHECK_MESSAGE(!metric.meaning.empty(), metric.name);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
