#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "autograd/random.hpp"
#include "tests/support/run_fixture.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/search/experiment_report.hpp"
#include "train/tools/search/ledger.hpp"

// Tests how often searches err, and what they say of their evidence.
namespace tapestry {
namespace {

// Returns n contestants without runs, the base first.
std::vector<Contestant> contestants_of(std::size_t n) {
  std::vector<Contestant> all;
  const Config config = load_config("sort", {});
  for (std::size_t i = 0; i < n; ++i)
    all.push_back({.candidate = {.name = fmt::format("{}", i), .config = config}});
  return all;
}

// How often the tests of simulated searches dropped a candidate.
struct Drops {
  double of_any = 0, of_base = 0;  // shares of the searches
};

// Returns the drops of searches whose candidates have normally distributed losses, which share a
// part that depends on the seed. The mean loss of the base is lower than the others' by `lead`.
Drops simulated_drops(std::size_t candidates, std::int64_t seeds, double lead,
                      std::int64_t interim_tests, int searches) {
  std::vector<Contestant> all = contestants_of(candidates);
  Drops drops;
  for (int search = 0; search < searches; ++search) {
    Random random(7, Stream::sample, static_cast<std::uint64_t>(search));
    for (Contestant& one : all) one.runs.clear(), one.dropped.clear();
    for (std::int64_t seed = 1; seed <= seeds; ++seed) {
      const double common = random.normal();
      for (Contestant& one : all) {
        const double loss = 5 + common + random.normal() - (&one == all.data() ? lead : 0);
        if (one.dropped.empty()) one.runs[seed] = {.budget = 1, .steps = 1, .loss = loss};
        if (one.dropped.empty()) one.chosen_on = seed;
      }
      if (seed == 1) continue;
      for (const auto& [worse, test] : worse_ones(all, interim_tests)) all[worse].dropped = "worse";
    }
    drops.of_base += !all[0].dropped.empty();
    drops.of_any += !std::ranges::all_of(all, &std::string::empty, &Contestant::dropped);
  }
  drops.of_any /= searches;
  drops.of_base /= searches;
  return drops;
}

class DecisionsFixture : public RunFixture {
 public:
  Finished search(const std::string& out, const Words& more, const RunOptions& options = {}) const {
    return tapestry_run(Words{"search", path("toy.toml"), "--quiet", "--out", path(out)} + more,
                        options);
  }
  // Returns the lines of a ledger without times.
  std::vector<Json> ledger(const std::string& experiment) const {
    std::vector<Json> lines;
    for (const std::string& line : lines_of(read(experiment + "/ledger.jsonl"))) {
      lines.push_back(Json::parse(line));
      lines.back().erase("elapsed_s");
    }
    return lines;
  }
  // Replaces a ledger by what `change` makes of its lines.
  void change_ledger(const std::string& experiment,
                     const std::function<void(std::vector<Json>&)>& change) const {
    std::vector<Json> lines;
    for (const std::string& line : lines_of(read(experiment + "/ledger.jsonl")))
      lines.push_back(Json::parse(line));
    change(lines);
    std::string text;
    for (const Json& line : lines) text += line.dump() + "\n";
    write(experiment + "/ledger.jsonl", text);
  }
  // Returns the page about an experiment.
  std::string report(const std::string& experiment) const {
    must(tapestry_run("report {} --out {}", path(experiment), path("page.html")));
    return read("page.html");
  }
};

TEST_SUITE_BEGIN("search");

TEST_CASE(
    "bug: search: repeated tests dropped equal candidates more often than in 5 % of searches") {
  // 4 tests of the base and one equal candidate.
  const Drops uncorrected = simulated_drops(2, 5, 0, 1, 400),
              corrected = simulated_drops(2, 5, 0, 4, 400);
  CHECK(uncorrected.of_any > 0.1);
  CHECK(uncorrected.of_base > 0.05);  // the candidate was declared better
  CHECK(corrected.of_any <= 0.05);
  CHECK(corrected.of_base <= 0.025);
  // The base is truly best by a tenth of the spread.
  CHECK(simulated_drops(4, 5, 0.1, 1, 300).of_base > 0.025);
  CHECK(simulated_drops(4, 5, 0.1, 4, 300).of_base <= 0.025);
  // A lead of ten times the spread is found.
  CHECK(simulated_drops(2, 5, 10, 4, 50).of_any > 0.9);
}

TEST_CASE("search: a test that is repeated has a stricter level") {
  const std::vector<std::vector<double>> first = {{1, 2, 3}}, other = {{2, 3.5, 4.2}};
  const PairedTest once = paired_tests(first, other)[0], often = paired_tests(first, other, 4)[0];
  CHECK(often.difference == once.difference);
  CHECK(often.adjusted_p == doctest::Approx(4 * once.adjusted_p));
  CHECK(often.level == 0.05 / 4);
  CHECK(often.margin / once.margin == doctest::Approx(8.8602 / 4.3027).epsilon(1e-4));  // t tables
  CHECK(once.is_significant);
  CHECK(!often.is_significant);

  // The outcome of a candidate that is not dropped has the corrected p-value.
  SearchResult result{.contestants = contestants_of(2), .interim_tests = 4};
  for (std::size_t i = 0; i < 3; ++i) {
    result.contestants[0].runs[i] = {.loss = first[0][i]};
    result.contestants[1].runs[i] = {.loss = other[0][i]};
  }
  for (Contestant& one : result.contestants) one.chosen_on = 3;
  CHECK(outcome_of(result, 1) ==
        fmt::format("not decided with 3 seeds (p = {:.2g}); --seeds 5", often.adjusted_p));
  CHECK(worse_ones(result.contestants, 4).empty());
  CHECK(worse_ones(result.contestants, 1).size() == 1);
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: a ledger of an earlier version keeps its level") {
  const Words more = "--vary=optim.learning_rate=1e-3,3e-2 --seeds 3";
  must(search("old", more));
  change_ledger("old", [](std::vector<Json>& lines) {
    CHECK(lines.front()["interim_tests"] == 2);
    lines.resize(6);  // before the first decision
    for (Json& line : lines)
      for (const char* added :
           {"interim_tests", "evaluations", "validation_examples", "effective_xxh3"})
        line.erase(added);
  });
  const Run old(path("old"));
  CHECK(Ledger(old, nullptr).interim_tests(2) == 1);
  const SearchResult result = recorded_search(old);
  CHECK(result.interim_tests == 1);
  CHECK(!validation_looks(result));
  CHECK(!contains(must(search("old", more + Words("--resume"))).out, "chosen after"));
  change_ledger("old", [](std::vector<Json>& lines) { lines[0]["interim_tests"] = 7; });
  check_refused(search("old", more + Words("--resume")),
                {"ledger.jsonl:1: interim_tests is 7, but this search has 2"});
  change_ledger("old", [](std::vector<Json>& lines) {
    lines[0]["interim_tests"] = 2;
    lines[0]["evaluations"] = -1;
  });
  check_refused(search("old", more + Words("--resume")),
                {"ledger.jsonl:1: evaluations is -1; expected 0 to 41"});
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: says how often the validation split was consulted") {
  // Each of 6 runs of 40 steps is evaluated every 10 steps.
  const Words more = "--vary=optim.learning_rate=2.9e-3,3.1e-3 --seeds 2";
  const std::string looks = "chosen after 24 looks at the validation split (20 examples)";
  check_says(must(search("run", more)).out, {"\nbase: " + looks + "\n"});
  const Json json = Json::parse(must(search("run", more + Words("--resume --json"))).out);
  CHECK(json["validation_looks"] == 24);
  CHECK(json["validation_examples"] == 20);
  check_says(report("run"), {" The config of base was " + looks + "."});
  // A run that failed had some evaluations.
  const Finished failed =
      must(search("failed",
                  "--vary=optim.learning_rate=1000,1e-3 --seeds 2 optim.name=sgd optim.clip_norm=0 "
                  "optim.weight_decay=0"));
  check_says(failed.out, {"chosen after ", "(20 examples)"});
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: --aa tests the base against itself") {
  const Words more = "--aa 3 --seeds 2 --steps 10";
  const Finished found = must(search("aa", more));
  CAPTURE(found.out);
  const std::string conclusion =
      "0 of 3 searches of the base against itself found a false winner (95 % CI of the rate: 0 to "
      "0.71)";
  check_says(found.out, {conclusion, "candidate-03", "seed=21: "});
  CHECK(!contains(found.out, "chosen after"));
  CHECK(!has("aa/winner.toml"));
  check_says(read("aa/config.toml"), {"vary = [\"seed\"]", "trials = 3", "seeds = 2"});
  std::set<std::string> runs;
  for (const Json& line : ledger("aa"))
    if (line.contains("run")) CHECK(runs.insert(line["run"].get<std::string>()).second);
  for (const char* run : {"base/seed-1", "candidate-01/seed-5", "base/seed-9",
                          "candidate-02/seed-13", "base/seed-17", "candidate-03/seed-22"})
    CHECK(runs.contains(run));
  CHECK(ledger("aa").back() == Json({{"decision", "aa"}, {"tests", 3}, {"false_winners", 0}}));

  const Json json = Json::parse(must(search("aa", more + Words("--resume --json"))).out);
  CHECK(json["winner"].is_null());
  CHECK(json["aa"]["tests"] == 3);
  CHECK(json["aa"]["false_winners"] == 0);
  CHECK(json["aa"]["high"].get<double>() == doctest::Approx(0.7076).epsilon(1e-4));
  const std::string page = report("aa");
  check_says(page, {"This A/A test (3 searches of the base against itself; 2 seeds each; 10 steps "
                    "per run) has ended: " +
                    conclusion});
  CHECK(!contains(page, "effects"));

  // The searches of an A/A test decide as others do: a candidate wins if the base fails.
  change_ledger("aa", [](std::vector<Json>& lines) {
    lines[0]["ended"] = "failed: step 3: the loss is nan";
    lines.resize(1);
  });
  check_says(report("aa"), {"was stopped; ", "not decided yet"});
  check_says(must(search("aa", more + Words("--resume"))).out,
             {"seed=5: false winner", "1 of 3 searches of the base against itself"});
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: an A/A test is resumed after kills") {
  const Words more = "--aa 2 --seeds 2 --steps 10";
  must(search("whole", more));
  for (std::ptrdiff_t lines = 0; lines < 40; lines += 3) {
    const auto is_further = [&] {
      return has("killed/ledger.jsonl") && std::ssize(ledger("killed")) > lines;
    };
    const Words resumed = lines == 0 ? more : more + Words("--resume");
    if (search("killed", resumed, {.when = is_further, .signal = SIGKILL}).status == 0) break;
  }
  CHECK(ledger("killed") == ledger("whole"));
  must(tapestry_run("search {} --resume --quiet", path("killed")));
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: --aa refuses other settings to vary") {
  check_refused(search("x", "--aa 2 --vary=model.layers=1,2"),
                {"--aa 2: an A/A test varies only the seed; leave out --vary"});
  check_refused(search("x", "--aa 2 --trials 3"), {"leave out --trials"});
  check_refused(search("x", "--aa 0"), {"--aa"});
  check_refused(search("x", "--vary=seed --vary=model.layers=1,2"), {"--vary seed: expected KEY="});
  check_says(must(run("search toy.toml --aa 5 --seeds 3 --dry-run")).out,
             {"5 searches of the base against itself: 20 to 60 runs, 800 to 2400 steps"});
  // [search] of the config may vary other settings.
  write("own.toml", std::string(toy_toml) + "[search]\nvary = [\"model.layers=1,2\"]\nseeds = 2\n");
  must(run("search own.toml --aa 1 --steps 2 --quiet"));
  CHECK(has("searches/own-aa/ledger.jsonl"));
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: says what another search has tried before") {
  const auto searched = [&](const std::string& config, const std::string& out, const char* more) {
    return must(tapestry_run(Words("search {} --seeds 2 --steps 10 --quiet --out {}", path(config),
                                   path("searches/" + out)) +
                             Words(more)));
  };
  const Finished first = searched("text.toml", "a", "--vary=optim.learning_rate=3e-3,1e-2");
  CHECK(!contains(first.out, "tried before"));
  // The same data at another path, and settings that do not affect the result.
  replace_in(path("text.toml"), path("story.txt"), write("moved.txt", story(20)));
  const char* more = "--vary=optim.learning_rate=1e-2,2e-2 train.log_every=7";
  const Finished again = searched("text.toml", "b", more);
  CAPTURE(again.out);
  const SearchResult a = recorded_search(Run(path("searches/a")));
  REQUIRE(a.contestants.size() == 3);
  const std::string told =
      fmt::format("tried before: {}, loss {:.4f}", path("searches/a/candidate-02"),
                  a.contestants[2].mean_loss());
  check_says(again.out, {"; " + told + "\n", "tried before: " + path("searches/a/base")});
  CHECK(!contains(again.out, "a/candidate-01"));
  check_says(report("searches/b"), {"; " + told + "<"});
  CHECK(ledger("searches/a")[4]["effective_xxh3"] == ledger("searches/b")[2]["effective_xxh3"]);
  const Json json =
      Json::parse(must(tapestry_run("search {} --resume --json", path("searches/b"))).out);
  CHECK("tried before: " + json["candidates"][1]["tried_before"].get<std::string>() == told);
  CHECK(!json["candidates"][2].contains("tried_before"));

  // Other data, and another budget.
  write("moved.txt", replaced(story(20), "a", "o"));
  CHECK(!contains(searched("text.toml", "c", more).out, "tried before"));
  write("moved.txt", story(20));
  CHECK(!contains(searched("text.toml", "d", "--vary=model.layers=2 train.batch_size=3").out,
                  "tried"));
}

TEST_CASE_FIXTURE(DecisionsFixture, "search: other ledgers that are damaged are left out") {
  const Words more = "--vary=optim.learning_rate=2e-3 --seeds 2 --steps 5";
  must(search("good", more));
  const std::string good = read("good/ledger.jsonl");
  const std::string failed =
      replaced(replaced(good, "\"done\"", "\"failed: <b>\""), "\"done\"", "\"failed: <b>\"");
  const std::pair<std::string, std::string> rows[] = {
      {"[1, 2\n", "ledger.jsonl:1: not a JSON object: "},
      {replaced(good, "\"budget\":5", "\"budget\":\"5\""), "ledger.jsonl:1: "},
      {replaced(good, "\"effective_xxh3\":\"", "\"effective_xxh3\":7,\"x\":\""),
       "ledger.jsonl:1: "},
      {replaced(good, "\"base/seed-1\"", "[3]"), ""},
      {std::string(40000, 'x') + "\n", "ledger.jsonl:1: "},
      {failed, ""}};
  for (const auto& [text, complaint] : rows) {
    CAPTURE(text.substr(0, 200));
    write("good/ledger.jsonl", text);
    const Finished found = must(search("next", more));
    CHECK_MESSAGE(contains(found.err, complaint), found.err);
    CHECK(complaint.empty() != contains(found.err, "its candidates are not compared"));
    CHECK(lines_of(found.err).size() <= (complaint.empty() ? 0 : 1));
    CHECK(contains(found.out, "good/base, failed") == (text == failed));
    fs::remove_all(path("next"));
  }
  fs::remove(path("good/ledger.jsonl"));
  fs::create_directory(path("good/ledger.jsonl"));
  CHECK(contains(must(search("next", more)).err, "ledger.jsonl: "));
}

// Tests pages of searches over tiny models.

namespace fs = std::filesystem;

TEST_CASE_FIXTURE(DecisionsFixture, "report: the page of a search shows its ledger") {
  // The learning rates are too similar for a final test on other seeds.
  must(search("tried", "--vary=optim.learning_rate=2.9e-3,3.1e-3 --seeds 2"));
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

TEST_CASE_FIXTURE(DecisionsFixture,
                  "report: the effects of settings have values computed by hand") {
  must(search("grid",
              "--vary=model.layers=1,2 --vary=optim.learning_rate=3e-3,1e-2 --steps 1 --seeds 2"));
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

TEST_CASE_FIXTURE(DecisionsFixture,
                  "bug: a setting with its old name had an effect without value") {
  must(search("old", "--vary=train.least_gain=0,0.5 train.early_stopping=2 --steps 1 --seeds 2"));
  check_says(read_bytes(path("old/ledger.jsonl")), {"train.least_gain=0.5"});  // as before
  const std::vector<KeyEffect> effects = effects_of(recorded_search(Run(path("old"))));
  REQUIRE(effects.size() == 1);
  CHECK(effects[0].key == "train.min_delta");
  CHECK(effects[0].value == "0.5");
}

TEST_CASE_FIXTURE(DecisionsFixture, "report: random values are plotted as points") {
  must(search("drawn",
              "--method random --trials 3 --vary=optim.learning_rate=log:1e-4:1e-1 "
              "--vary=model.layers=1,2 --steps 4 --seeds 2"));
  const std::string page = report("drawn");
  check_says(page, {"This search (random search; 3 candidates",
                    R"("x":"optim.learning_rate","y":"mean loss","logX":true)",
                    R"("marks":true,"points":[[)", "A setting with many values"});
}

TEST_CASE_FIXTURE(DecisionsFixture,
                  "report: shows searches that are stopped or damaged, and refuses others") {
  const std::string name = "<img src=x onerror=alert(1)>&'";
  must(search(name, "--vary=optim.learning_rate=2e-3,4e-3 --steps 10 --seeds 2"));
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
