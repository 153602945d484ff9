#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "tests/support/run_fixture.hpp"
#include "train/measure/statistics.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"

namespace tapestry {
namespace {

using Judged = FigureDifference::Outcome;
using Folders = Strings;

TEST_SUITE_BEGIN("compare");

// Runs of a graph with 34 nodes, whose steps are fast.
class Club : public CommandFolder {
 public:
  void train(const std::string& out, const Words& more = {}) const {
    must(run(Words("train karate --quiet --out {} train.steps=20", out) + more));
  }
  std::vector<RunGroup> groups(Folders names) const {
    for (std::string& name : names) name = path(name);
    return read_groups(names);
  }
  // Replaces the recorded evaluation by this one.
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

TEST_CASE_FIXTURE(Club,
                  "compare: compares groups of seeds by pairs, and lists differing settings") {
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
  CHECK(difference->outcome == Judged::differs);  // its rate is three times as high
  CHECK(difference->value < 0);

  const std::vector<SettingDifference> settings = settings_that_differ(groups);
  REQUIRE(settings.size() == 1);  // without threads and name
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
  CHECK(groups[1]["figures"]["loss"].size() == 2);  // one run has only n and mean
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

TEST_CASE_FIXTURE(Club, "compare: runs that differ in their seeds alone are a group") {
  train("a", "seed=5");
  train("b", "seed=6 train.log_every=3 expected.value=0");
  train("c", "seed=5 model.width=5");
  train("again", "seed=5");
  const std::vector<RunGroup> groups = this->groups({"a", "b", "c", "again", "./a"});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].seeds() == std::vector<std::int64_t>{5, 6});
  CHECK(groups[1].runs[0].folder == path("c"));
  // A training counts once, and ./a is a.
  CHECK(groups[2].runs[0].folder == path("again"));
  CHECK(groups[2].runs.size() == 1);
  CHECK(losses(groups[2])[0] == losses(groups[0])[0]);

  const Finished text = run("compare a b c");
  check_says(text.out, {"a: 2 runs of one config with different seeds: a, b\n",
                        "needs several seeds (n = 2 and 1)\n", "train with --seeds 3 or more\n",
                        "model.width  ", "  5\n"});
  const Finished single = run("compare a c");
  check_says(single.out, {"the spread between seeds: train with --seeds 3 or more\n"});
  CHECK(!contains(single.out, "95 %"));  // one run has no interval
  check_says(run("compare a again").out, {"settings that differ: none\n"});
}

TEST_CASE_FIXTURE(Club, "compare: groups with other seeds or data are compared by Welch's test") {
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

TEST_CASE_FIXTURE(
    Club, "compare: handles metrics without spread, out of range, or missing in some runs") {
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
  CHECK(outcome("loss") == Judged::not_in_all);  // one has a value that is not finite
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

TEST_CASE_FIXTURE(Club,
                  "compare: ignores keys without effect, and tells tasks and other steps apart") {
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

TEST_CASE_FIXTURE(Club, "compare: says when a folder of seeds is no group, or not complete") {
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
  write("other/config.toml", "task = \"graph\"\n[model]\nwidht = 5\n");
  check_says(message({"other"}), {"other/config.toml:3:1: unknown key model.widht; did you mean"});
}

TEST_CASE_FIXTURE(RunFixture, "bug: compare: losses of other tokenizers and data were compared") {
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

TEST_CASE_FIXTURE(Club, "bug: compare: only the loss had a better direction") {
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

TEST_CASE("compare: each task says in which direction its metrics improve") {
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

using Values = std::vector<double>;

const Values first = {1.893, 1.887, 1.901, 1.890, 1.884}, other = {1.879, 1.885, 1.872},
             partners = {1.871, 1.869, 1.880, 1.866, 1.865};

// Golden values are those of SciPy 1.17.1.
bool is_near(double value, double golden) {
  return std::abs(value - golden) <= 1e-9 * std::abs(golden);
}

TEST_CASE("statistics: Student's t has the values of tables") {
  const std::pair<double, double> table[] = {{1, 12.706}, {2, 4.303},  {5, 2.571},
                                             {10, 2.228}, {30, 2.042}, {120, 1.980}};
  for (const auto& [degrees, t] : table) CHECK(std::abs(student_t(0.95, degrees) - t) < 5e-4);
  // scipy.stats.t.ppf
  CHECK(is_near(student_t(0.95, 1), 12.706204736175));
  CHECK(is_near(student_t(0.95, 1.5), 6.016663104428));
  CHECK(is_near(student_t(0.95, 2.941), 3.218870677813));
  CHECK(is_near(student_t(0.95, 1998), 1.961152014837));
  CHECK(is_near(student_t(0.99, 2), 9.924843200918));
  CHECK(is_near(student_t(0.5, 1), 1));  // of Cauchy's distribution: tan(π / 4)
  CHECK_THROWS_AS(student_t(1, 3), std::invalid_argument);
  CHECK_THROWS_AS(student_t(0.95, 0), std::invalid_argument);
}

TEST_CASE("statistics: p-values agree with Student's t") {
  for (const double degrees : {1.0, 4.0, 30.0})
    for (const double probability : {0.5, 0.95, 0.999})
      CHECK(is_near(student_p(-student_t(probability, degrees), degrees), 1 - probability));
  CHECK(student_p(0, 3) == 1);
  CHECK(is_near(student_p(1, 1), 0.5));  // of Cauchy's distribution
  CHECK_THROWS_AS(student_p(1, 0), std::invalid_argument);
}

TEST_CASE("bug: statistics: differences equal up to rounding had a spread") {
  // 0.66 - 0.32, 0.7 - 0.36 and 0.78 - 0.44 are 0.34, but differ in the last bits.
  const Values before = {0.32, 0.36, 0.44}, after = {0.66, 0.7, 0.78};
  CHECK(after[0] - before[0] != after[1] - before[1]);
  const Confidence paired = paired_difference(before, after);
  CHECK(paired.margin == 0);
  CHECK(is_near(paired.value, 0.34));
  CHECK(paired_p(before, after) == 1);
  // Values that differ by rounding alone, in one group, two groups and pairs.
  const Values tenths = {0.1 + 0.2, 0.3, 0.3}, same = {0.3, 0.3, 0.1 + 0.2};
  CHECK(estimate_of(tenths).deviation == 0);
  const Confidence of_pairs = paired_difference(tenths, same),
                   welch = welch_difference(estimate_of(tenths), estimate_of(same));
  for (const Confidence& difference : {of_pairs, welch}) {
    CHECK(difference.value == 0);
    CHECK(difference.margin == 0);
  }
  // They differ in float32, so that there is a spread.
  CHECK(estimate_of(Values{0.3, 0.3 * (1 + 1e-7)}).deviation > 0);
}

TEST_CASE("statistics: an interval has a p-value, and few seeds are stated") {
  CHECK(
      is_near(p_value({.value = 1, .margin = student_t(0.95, 3), .degrees = 3}), student_p(1, 3)));
  CHECK(p_value({.value = 1}) == 1);
  CHECK(undecided(2, 0.1416) == "not decided with 2 seeds (p = 0.14); --seeds 5");
}

TEST_CASE("statistics: the interval of a rate agrees with Clopper and Pearson") {
  // scipy.stats.binomtest(k, n).proportion_ci(0.95, "exact")
  const std::tuple<int, int, double, double> rows[] = {
      {0, 20, 0, 0.16843347098308548},
      {1, 20, 0.0012650894979560339, 0.24873276277202772},
      {7, 20, 0.1539092047845412, 0.5921885345328283},
      {20, 20, 0.8315665290169145, 1},
      {3, 1000, 0.0006190999316499173, 0.008742023238657654}};
  for (const auto& [k, n, low, high] : rows) {
    CHECK(is_near(binomial_interval(k, n).low, low));
    CHECK(is_near(binomial_interval(k, n).high, high));
  }
  CHECK_THROWS_AS(binomial_interval(3, 2), std::invalid_argument);
  CHECK_THROWS_AS(binomial_interval(0, 0), std::invalid_argument);
}

TEST_CASE("statistics: Holm's method has values computed by hand") {
  // Sorted: 0.005 * 4 = 0.02, 0.01 * 3 = 0.03, 0.03 * 2 = 0.06, and 0.04 * 1, but not below 0.06.
  const std::vector<HolmTest> tests = holm(Values{0.01, 0.04, 0.03, 0.005});
  const double adjusted[] = {0.03, 0.06, 0.06, 0.02};
  const double levels[] = {0.05 / 3, 0.05, 0.05 / 2, 0.05 / 4};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(is_near(tests[i].adjusted_p, adjusted[i]));
    CHECK(is_near(tests[i].level, levels[i]));
    CHECK(tests[i].is_rejected == (adjusted[i] <= 0.05));
  }
  CHECK(holm({}).empty());
  CHECK(holm(Values{0.7}).front().adjusted_p == 0.7);
  CHECK(holm(Values{0.7, 0.9}).front().adjusted_p == 1);
}

TEST_CASE("statistics: mean, deviation and the interval of the mean have values computed by hand") {
  const Estimate estimate = estimate_of(first);
  CHECK(estimate.n == 5);
  CHECK(is_near(estimate.mean, 1.891));
  CHECK(is_near(estimate.deviation, 0.006519202405202688));
  CHECK(is_near(confidence_of(estimate).margin, 0.008094658923543552));
  CHECK(confidence_of(estimate).degrees == 4);
  CHECK(is_near(confidence_of(estimate_of(other)).margin, 0.016162811241750674));
  CHECK(estimate_of(Values{3}).deviation == 0);
  CHECK_THROWS_AS(estimate_of({}), std::invalid_argument);
  CHECK_THROWS_AS(confidence_of(estimate_of(Values{3})), std::invalid_argument);
}

TEST_CASE("statistics: equal values have no deviation, however their sum is rounded") {
  for (const double value : {0.1, 1.0 / 3, 1e-300, 1e300})
    for (const std::size_t n : {2, 3, 7, 10}) {
      const Estimate estimate = estimate_of(Values(n, value));
      CHECK(estimate.mean == value);
      CHECK(estimate.deviation == 0);
    }
}

TEST_CASE("statistics: Welch's test has SciPy's values") {
  const Confidence welch = welch_difference(estimate_of(first), estimate_of(other));
  CHECK(is_near(welch.value, -0.012333333333333307));
  CHECK(is_near(welch.degrees, 4.346573428408421));
  CHECK(is_near(welch.margin, 0.012797340473026206));
  const Confidence even = welch_difference(estimate_of(first), estimate_of(partners));
  CHECK(is_near(even.degrees, 7.939962476547819));
  CHECK(is_near(even.margin, 0.009131672954999448));

  // If one group has no spread, the degrees of freedom are the other's; if both have none, there is
  // no test.
  const Confidence half = welch_difference(estimate_of(Values(3, 2)), estimate_of(other));
  CHECK(is_near(half.degrees, 2));
  CHECK(is_near(half.margin, 0.016162811241750702));
  const Confidence none = welch_difference(estimate_of(Values(3, 2)), estimate_of(Values(4, 5)));
  CHECK(none.value == 3);
  CHECK(none.margin == 0);
  const Confidence huge = welch_difference({.mean = 0, .deviation = 1e200, .n = 3},
                                           {.mean = 0, .deviation = 1e-200, .n = 2});
  CHECK(is_near(huge.degrees, 2));
  CHECK_THROWS_AS(welch_difference(estimate_of(first), estimate_of(Values{1})),
                  std::invalid_argument);
}

TEST_CASE("statistics: pairs are compared by their differences") {
  const Confidence paired = paired_difference(first, partners);
  CHECK(is_near(paired.value, -0.0208));
  CHECK(is_near(paired.degrees, 4));
  CHECK(is_near(paired.margin, 0.0029644321650665537));
  CHECK_THROWS_AS(paired_difference(first, other), std::invalid_argument);
  CHECK_THROWS_AS(paired_difference(Values{1}, Values{2}), std::invalid_argument);
}

TEST_CASE("statistics: the median of an even number of values is the upper middle one") {
  CHECK(median_of({3}) == 3);
  CHECK(median_of({5, 1, 3}) == 3);
  CHECK(median_of({4, 1, 3, 2}) == 3);
  CHECK_THROWS_AS(median_of({}), std::invalid_argument);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
