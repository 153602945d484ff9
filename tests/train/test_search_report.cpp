#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/run_fixture.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/search/experiment_report.hpp"

// Tests pages of searches over tiny models.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

class ExperimentFixture : public RunFixture {
 public:
  void search(const std::string& out, const Words& more) const {
    must(tapestry_run(Words{"search", path("toy.toml"), "--quiet", "--out", path(out)} + more));
  }
  // Returns the page about an experiment.
  std::string report(const std::string& experiment) const {
    must(tapestry_run("report {} --out {}", path(experiment), path("page.html")));
    return read_bytes(path("page.html"));
  }
};

TEST_SUITE_BEGIN("search");

TEST_CASE_FIXTURE(ExperimentFixture, "report: the page of a search shows its ledger") {
  // The learning rates are too similar for a final test on other seeds.
  search("tried", "--vary=optim.learning_rate=2.9e-3,3.1e-3 --seeds 2");
  const std::string page = report("tried");
  check_says(page, {"This search (grid search; 2 candidates and the base; 2 seeds each; 40 steps "
                    "per run) has ended: no candidate is significantly better than the base",
                    "Trained: 6 runs, 240 steps, ", "<h2 id=\"candidates\">", "<h2 id=\"effects\">",
                    "\"metric\":\"loss\"", "\"seeds\":2", "mean seconds of a run", "config.toml",
                    "winner.toml", "\"candidate-01: optim.learning_rate=2.9e-3, mean loss "});

  const SearchResult result = recorded_search(Run(path("tried")));
  CHECK(result.has_ended);
  const std::vector<RunGroup> groups =
      read_groups({path("tried/base"), path("tried/candidate-01"), path("tried/candidate-02")});
  for (std::size_t i = 0; i < 3; ++i) {
    const Contestant& one = result.contestants[i];
    CAPTURE(one.candidate.name);
    check_says(page, {fmt::format("\">{}</td>", outcome_of(result, i)),
                      fmt::format("\">{:.4f}</td>", one.mean_loss())});
    if (i == 0) continue;
    // `tapestry compare --groups` has the same difference and interval.
    const auto compared = difference_of(groups.front(), groups[i], "loss");
    const LossDifference difference = difference_from(result.contestants[0], one);
    REQUIRE((compared && compared->margin));
    CHECK(compared->is_paired);
    CHECK(difference.test.difference == doctest::Approx(compared->value).epsilon(1e-9));
    CHECK(difference.test.margin == doctest::Approx(*compared->margin).epsilon(1e-9));
    CHECK(difference.test.is_significant ==
          (compared->outcome == FigureDifference::Outcome::differs));
    check_says(must(tapestry_run("compare --groups {} {}", path("tried/base"),
                                 path("tried/" + one.candidate.name)))
                   .out,
               {difference.interval(), difference.value()});
    check_says(page, {fmt::format("\">{}</td>", difference.interval())});
  }
  // The page has the table of compare, too.
  check_says(page, {"tapestry compare --groups", "not decided with 2 seeds (p = "});
}

TEST_CASE_FIXTURE(ExperimentFixture,
                  "report: the effects of settings have values computed by hand") {
  search("grid",
         "--vary=model.layers=1,2 --vary=optim.learning_rate=3e-3,1e-2 --steps 1 --seeds 2");
  SearchResult result = recorded_search(Run(path("grid")));  // the base, 1 1e-2, 2 3e-3, 2 1e-2
  REQUIRE(result.contestants.size() == 4);
  const double losses[4][2] = {{1, 2}, {3, 5}, {2, 4}, {7, 8}};
  for (std::size_t i = 0; i < 4; ++i) {
    result.contestants[i].runs.clear();
    for (int seed = 0; seed < 2; ++seed)
      result.contestants[i].runs[seed] = {.budget = 1, .steps = 1, .loss = losses[i][seed]};
  }
  std::vector<KeyEffect> effects = effects_of(result);
  REQUIRE(effects.size() == 2);
  // By seed: of the layers 4.5 - 2 and 6 - 3.5, of the learning rate 5 - 1.5 and 6.5 - 3.
  CHECK(effects[0].key == "model.layers");
  CHECK(effects[0].reference == "1");
  CHECK(effects[0].value == "2");
  CHECK(effects[0].difference.pairs == 2);
  CHECK(effects[0].difference.seeds == 2);
  CHECK(effects[0].difference.value() == "+2.5000");
  CHECK(effects[0].difference.interval() == "-");  // both seeds have the same difference
  CHECK(effects[1].value == "0.01");
  CHECK(effects[1].difference.value() == "+3.5000");
  // The differences 2.5 and 1.5 have the interval 2 ± 12.706 · 0.5.
  result.contestants[3].runs[1].loss = 6;
  effects = effects_of(result);
  CHECK(effects[0].difference.test.difference == doctest::Approx(2));
  CHECK(effects[0].difference.test.margin == doctest::Approx(6.3531).epsilon(1e-4));
  // Runs of other lengths and failed runs are in no pair.
  result.contestants[3].runs[0].budget = 3;
  result.contestants[3].runs[1].failure = "failed";
  CHECK(effects_of(result)[0].difference.pairs == 1);
}

TEST_CASE_FIXTURE(ExperimentFixture,
                  "bug: a setting with its old name had an effect without value") {
  search("old", "--vary=train.least_gain=0,0.5 train.early_stopping=2 --steps 1 --seeds 2");
  check_says(read_bytes(path("old/ledger.jsonl")), {"train.least_gain=0.5"});  // as before
  const std::vector<KeyEffect> effects = effects_of(recorded_search(Run(path("old"))));
  REQUIRE(effects.size() == 1);
  CHECK(effects[0].key == "train.min_delta");
  CHECK(effects[0].value == "0.5");
}

TEST_CASE_FIXTURE(ExperimentFixture, "report: random values are plotted as points") {
  search("drawn",
         "--method random --trials 3 --vary=optim.learning_rate=log:1e-4:1e-1 "
         "--vary=model.layers=1,2 --steps 4 --seeds 2");
  const std::string page = report("drawn");
  check_says(page, {"This search (random search; 3 candidates",
                    R"("x":"optim.learning_rate","y":"mean loss","logX":true)",
                    R"("marks":true,"points":[[)", "A setting with many values"});
}

TEST_CASE_FIXTURE(ExperimentFixture,
                  "report: shows searches that are stopped or damaged, and refuses others") {
  const std::string name = "<img src=x onerror=alert(1)>&'";
  search(name, "--vary=optim.learning_rate=2e-3,4e-3 --steps 10 --seeds 2");
  const std::string ledger = path(name + "/ledger.jsonl"), good = read_bytes(ledger);
  std::vector<std::string> lines = lines_of(good);
  REQUIRE(lines.size() > 6);
  lines[3] = replaced(lines[3], "\"ended\":\"done\"", "\"ended\":\"failed: <script>\"");
  lines[6].clear();
  write(name + "/ledger.jsonl",
        fmt::format("{}", fmt::join(lines.begin(), lines.begin() + 7, "\n")));
  const std::string page = report(name);
  check_says(page, {"<h1>&lt;img src=x onerror=alert(1)&gt;&amp;&#39;</h1>",
                    "was stopped; <code>tapestry search", "not decided yet",
                    ">failed: &lt;script&gt;<", "Trained: 6 runs"});
  CHECK(!contains(page, "<img src=x"));
  CHECK(!contains(page, "failed: <script>"));

  {
    const std::string before = read_bytes(ledger);
    fs::remove(path(name + "/winner.toml"));
    const RunLock lock(Run(path(name)), RunLock::Folder::find);
    check_says(report(name), {"is running."});
    CHECK(read_bytes(ledger) == before);  // nothing is trained or written
    CHECK(!fs::exists(path(name + "/winner.toml")));
  }

  write(name + "/ledger.jsonl", "");
  check_says(report(name), {"was stopped", "Nothing was measured yet.", "Trained: 0 runs"});
  fs::remove_all(path(name + "/base"));
  write(name + "/ledger.jsonl", good);
  check_says(report(name), {"<h2>Not shown</h2>", "candidate-01"});

  const auto refused = [&](const std::vector<std::string>& parts) {
    check_refused(tapestry_run("report {} --out {}", path(name), path("none.html")), parts);
  };
  write(name + "/ledger.jsonl", good.substr(0, 40) + "\n");
  refused({"ledger.jsonl:1: not a JSON object"});
  write(name + "/ledger.jsonl", "{\"run\": \"other/seed-1\"}\n");
  refused({"ledger.jsonl:1: run is"});
  write(name + "/ledger.jsonl", good);
  check_refused(tapestry_run("report {} {}", path(name), path(name + "/candidate-01")),
                {"is the folder of a search; give it alone"});
  check_refused(tapestry_run("report {} --out {}", path(name), ledger),
                {"is the name of a file of a run"});
  write(name + "/config.toml", toy_toml);
  refused({"has no search.vary"});
  fs::remove(path(name + "/config.toml"));
  refused({"has no config.toml"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
