#include <doctest/doctest.h>

#include <cstring>
#include <fstream>

#include "tests/support/run_fixture.hpp"
#include "train/task_spec.hpp"
#include "train/tools/search/ledger.hpp"
#include "train/tools/search/search.hpp"

// Tests searches over settings of tiny models.
namespace tapestry {
namespace {

// Returns the lines of a ledger without times.
Strings ledger_of(const std::string& experiment) {
  Strings lines;
  for (const std::string& line : lines_of(read_bytes(experiment + "/ledger.jsonl"))) {
    Json read = Json::parse(line);
    read.erase("elapsed_s");
    read.erase("tried_before");  // of another search in the same folder
    lines.push_back(read.dump());
  }
  return lines;
}

Strings decisions_of(const std::string& experiment) {
  Strings decisions;
  for (const std::string& line : ledger_of(experiment))
    if (const Json read = Json::parse(line); read.contains("decision"))
      decisions.push_back(fmt::format("{} {} {}", read["decision"].get<std::string>(),
                                      read.value("candidate", ""), read.value("reason", "")));
  return decisions;
}

// Changes the lines of a ledger, and removes those for which `change` returns false.
void change_ledger(const std::string& experiment, const std::function<bool(Json&)>& change) {
  std::string text;
  for (const std::string& line : lines_of(read_bytes(experiment + "/ledger.jsonl"))) {
    Json read = Json::parse(line);
    if (change(read)) text += read.dump() + "\n";
  }
  std::ofstream(experiment + "/ledger.jsonl", std::ios::binary) << text;
}

// Removes the lines of a ledger after this run, and makes it a run that failed.
void end_with_failure(const std::string& experiment, const std::string& run, int budget) {
  bool has_ended = false;
  change_ledger(experiment, [&](Json& line) {
    if (has_ended) return false;
    has_ended = line.value("run", "") == run && line["budget"] == budget;
    if (has_ended) line["ended"] = "failed: step 3: the loss is nan";
    return true;
  });
  CHECK(has_ended);
}

class SearchFixture : public RunFixture {
 public:
  // Runs tapestry search toy.toml --out OUT --quiet MORE.
  Finished search(const std::string& out, const Words& more, const RunOptions& options = {}) const {
    return tapestry_run(Words{"search", path("toy.toml"), "--quiet", "--out", path(out)} + more,
                        options);
  }
};

TEST_SUITE_BEGIN("search");

TEST_CASE("search: successive halving has rounds computed by hand") {
  using Rounds = std::vector<std::int64_t>;
  CHECK(rounds_of(2, 900) == Rounds{900});
  CHECK(rounds_of(3, 900) == Rounds{300, 900});
  CHECK(rounds_of(9, 900) == Rounds{100, 300, 900});
  CHECK(rounds_of(26, 900) == Rounds{100, 300, 900});
  CHECK(rounds_of(27, 900) == Rounds{33, 100, 300, 900});
  CHECK(rounds_of(27, 5) == Rounds{1, 5});
}

TEST_CASE_FIXTURE(SearchFixture,
                  "search: finds a rate that is significantly better than the base") {
  const Words more = "--vary=optim.learning_rate=3e-2,1e-7 --seeds 4 optim.learning_rate=1e-6";
  const Finished found = must(search("found", more));
  CAPTURE(found.out);
  check_says(found.out, {"candidate-01 is better than the base: loss is lower by", "4 new seeds",
                         "worse than candidate-01", "winner.toml has the config of candidate-01"});
  check_says(read_bytes(path("found/config.toml")),
             {"vary = [\"optim.learning_rate=", "seeds = 4"});
  for (const std::string name : {"winner.toml", "candidate-01/seed-1/config.toml"}) {
    const std::string config = read_bytes(path("found/" + name));
    check_says(config, {"learning_rate = 0.03", "vary = []\n"});
    CHECK(!contains(config, "seeds = "));
  }
  // compare and verify read the folders of candidates.
  check_prints(
      tapestry_run("compare --groups {} {}", path("found/base"), path("found/candidate-01")),
      {"loss"});
  must(tapestry_run("verify {}", path("found/candidate-01/seed-1")));
  must(tapestry_run("train {} --out {} --quiet train.steps=2", path("found/winner.toml"),
                    path("again")));
  check_refused(search("found", "--vary=optim.learning_rate=3e-2"), {"already exists", "--resume"});
  check_refused(search("found", "--resume --vary=optim.learning_rate=2e-3"),
                {"was begun with another config", "differ in optim.learning_rate, search.seeds, "});
  must(search("found", more + Words("--resume train.log_every=7 name=renamed")));

  // The final test on the new seeds 5 to 8.
  const std::string ledger = path("found/ledger.jsonl"), good = read_bytes(ledger);
  const std::pair<std::vector<double>, Strings> rows[] = {
      {{10, 10.01, 10.03, 10.02},
       {"the base is better than candidate-01: loss is lower by", "the config of base",
        "learning_rate=3e-2: not significantly better on new seeds"}},
      {{0.1, 10, 0.2, 10},
       {"no candidate is significantly better than the base: candidate-01 was best, but its loss",
        "final test: not decided with 4 seeds (p = ", "the config of base"}}};
  for (const auto& [losses, parts] : rows) {
    write("found/ledger.jsonl", good);
    auto loss = losses.begin();
    change_ledger(path("found"), [&](Json& line) {
      const std::string run = line.value("run", "");
      if (run.starts_with("candidate-01/") && run.back() > '4') line["loss"] = *loss++;
      return line.value("decision", "") != "winner";
    });
    CHECK(loss == losses.end());
    check_prints(search("found", more + Words("--resume")), parts);
  }
  for (const auto& [run, parts] :
       {std::pair{"base/seed-5",
                  Strings{"candidate-01 is better than the base: it completed its runs on 4 new "
                          "seeds, but the base failed: step 3: the loss is nan",
                          "the config of candidate-01"}},
        std::pair{"candidate-01/seed-5",
                  Strings{"no candidate is significantly better than the base: candidate-01 was "
                          "best, but on new seeds it failed: step 3: the loss is nan",
                          "the config of base"}}}) {
    write("found/ledger.jsonl", good);
    end_with_failure(path("found"), run, 40);
    check_prints(search("found", more + Words("--resume")), parts);
  }
}

TEST_CASE_FIXTURE(SearchFixture, "search: after kills the ledger and runs are the same") {
  for (const std::string method : {"grid", "halving"}) {
    CAPTURE(method);
    const Words more =
        Words("--vary=optim.learning_rate=1e-3,3e-2,1e-6 --seeds 3 --method") + Words{method};
    must(search(method, more));
    const std::string killed = method + "-killed";
    std::int64_t lines = 0;
    for (; lines < 60; ++lines) {
      const auto is_further = [&] {
        const std::string ledger = path(killed + "/ledger.jsonl");
        return fs::exists(ledger) && std::ssize(lines_of(read_bytes(ledger))) > lines;
      };
      const Finished end = search(killed, lines == 0 ? more : more + Words("--resume"),
                                  {.when = is_further, .signal = SIGKILL});
      if (end.status == 0) break;
    }
    CHECK(lines > 5);
    CHECK(lines < 60);
    CHECK(ledger_of(path(killed)) == ledger_of(path(method)));
    CHECK(read_bytes(path(killed + "/winner.toml")) == read_bytes(path(method + "/winner.toml")));
    for (const auto& candidate : fs::directory_iterator(path(method)))
      for (const std::string& seed : seed_folders(candidate.path()))
        CHECK(run_difference(seed, path(killed) + seed.substr(path(method).size())) == "");
  }
}

TEST_CASE_FIXTURE(SearchFixture, "search: a signal stops it, and it resumes from its folder") {
  const auto begun = [&] { return fs::exists(path("run/base/seed-2/metrics.jsonl")); };
  const Words more = "--vary=train.micro_batches=2,4 --seeds 2 train.steps=400";
  const Finished stopped = search("run", more, {.when = begun, .signal = SIGTERM});
  CHECK(stopped.status == 130);
  check_says(stopped.out, {"stopped; to resume: tapestry search ", "run --resume"});
  must(tapestry_run("search {} --resume --quiet", path("run")));
  must(search("whole", more));
  CHECK(ledger_of(path("run")) == ledger_of(path("whole")));
}

TEST_CASE_FIXTURE(SearchFixture, "search: a ledger that does not belong to it is refused") {
  const Words more = "--vary=train.micro_batches=2 --seeds 2";
  must(search("run", more));
  const std::string ledger = path("run/ledger.jsonl"), good = read_bytes(ledger);
  const std::pair<std::string, Strings> rows[] = {
      {replaced(good, "base/seed-2", "base/seed-7"), {"ledger.jsonl:2: run is ", "base/seed-2"}},
      {replaced(good, "\"loss\"", "\"less\""), {"ledger.jsonl:1: ", "loss", "restore the file"}},
      {replaced(good, "[\"train.micro_batches=2\"]", "[\"train.micro_batches=4\"]"),
       {"ledger.jsonl:3: settings is ", "micro_batches=4", "this search records ",
        "micro_batches=2"}},
      {good + good, {"the ledger is of another search"}},
      {replaced(good, "\"steps\":40", "\"steps\":41"), {"ledger.jsonl:1: steps is 41", "0 to 40"}},
      {"[]\n" + good, {"ledger.jsonl:1: ", "not a JSON object"}}};
  for (const auto& [text, parts] : rows) {
    write("run/ledger.jsonl", text);
    check_refused(search("run", more + Words("--resume")), parts);
    CHECK(read_bytes(ledger) == text);
  }
  fs::rename(path("run/config.toml"), path("config.toml"));
  check_refused(search("run", more + Words("--resume")), {"has no config.toml of the search"});
  CHECK(!fs::exists(path("run/config.toml")));
  fs::rename(path("config.toml"), path("run/config.toml"));
  // An incomplete line is written again.
  write("run/ledger.jsonl", good.substr(0, good.size() / 2));
  must(search("run", more + Words("--resume")));
  must(search("whole", more));
  CHECK(ledger_of(path("run")) == ledger_of(path("whole")));
}

TEST_CASE_FIXTURE(SearchFixture, "bug: settings of search --resume were accepted without effect") {
  must(search("run", "--vary=train.micro_batches=2 --seeds 2 train.steps=2"));
  for (const char* given : {"train.log_every=7", ""}) {
    must(tapestry_run(Words("search {} --resume --quiet", path("run")) + Words(given)));
    check_says(read("run/config.toml"), {"log_every = 7 "});
  }
  check_refused(tapestry_run("search {} --resume optim.learning_rate=7", path("run")),
                {"was begun with another config", "differ in optim.learning_rate"});
  fs::rename(path("run/ledger.jsonl"), path("far"));
  fs::create_symlink("../far", path("run/ledger.jsonl"));
  const std::string far = read("far"), config = read("run/config.toml");
  check_refused(tapestry_run("search {} --resume train.log_every=8", path("run")),
                {"run/ledger.jsonl: is a link"});
  CHECK(read("far") == far);
  CHECK(read("run/config.toml") == config);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: the removal of a ledger was not noticed") {
  const Run run(path("run"));
  RunLock lock(run, RunLock::Folder::make);
  Ledger ledger(run, &lock);
  ledger.append({{"decision", "best"}});
  fs::remove(run.ledger());
  CHECK_THROWS_WITH_AS(ledger.append({{"decision", "best"}}),
                       doctest::Contains("because ledger.jsonl was removed or replaced"),
                       FolderLost);
}

TEST_CASE_FIXTURE(SearchFixture, "bug: other commands read a search's folder as a run") {
  must(search("x", "--vary=train.micro_batches=2 --seeds 2"));
  const Refusal rows[] = {
      {"train x --resume", {"is the folder of a search", "`tapestry search x --resume`"}},
      {"train x", {"is the folder of a search", "`tapestry search x --resume`"}},
      {"train toy.toml --out x", {"is the folder of a search"}},
      {"train toy.toml --out x --resume", {"is the folder of a search"}},
      {"train toy.toml --out x --seeds 2", {"is the folder of a search"}},
      {"sample x", {"is a search, not a run", "such as x/base/seed-"}},
      {"eval x", {"is a search, not a run"}},
      {"verify x", {"is a search, not a run"}},
      {"replay x --step 1", {"is a search, not a run"}},
      {"plan x", {"is the folder of a search; give x/config.toml"}}};
  for (const Refusal& row : rows) {
    CAPTURE(row.words);
    check_refused(run(row.words), row.parts);
    CHECK(!has("x/metrics.jsonl"));
  }
}

TEST_CASE_FIXTURE(SearchFixture, "bug: a search resumed with other data") {
  const auto text = [&](const std::string& out, const Words& more, const RunOptions& options) {
    return tapestry_run(
        Words("search {} --vary=optim.learning_rate=1e-3,3e-2 --seeds 2 --quiet --out {}",
              path("text.toml"), path(out)) +
            more,
        options);
  };
  const auto lines = [&](const std::string& out) {
    const std::string ledger = path(out + "/ledger.jsonl");
    return fs::exists(ledger) ? std::ssize(lines_of(read_bytes(ledger))) : 0;
  };
  text("resumed", {}, {.when = [&] { return lines("resumed") > 0; }, .signal = SIGKILL});
  write("story.txt", replaced(story(20), "a", "o"));
  const std::string ledger = read_bytes(path("resumed/ledger.jsonl"));
  check_refused(text("resumed", {"--resume"}, {}), {"base/seed-1: ", "different contents"});
  CHECK(read_bytes(path("resumed/ledger.jsonl")) == ledger);
  write("story.txt", story(20));
  must(text("resumed", {"--resume"}, {}));

  bool is_changed = false;
  const auto change = [&] {
    if (!is_changed && lines("changed") > 1) write("story.txt", story(25)), is_changed = true;
    return false;
  };
  check_refused(text("changed", {}, {.when = change}), {"/seed-", "the original data"});
  write("story.txt", story(20));
  must(text("changed", {"--resume"}, {}));  // no run has the other data
}

TEST_CASE_FIXTURE(SearchFixture, "search: the seed may choose the test split, as of names") {
  std::string names;
  for (int i = 0; i < 60; ++i)
    names += std::string(1 + i % 7, static_cast<char>('a' + i % 5)) + "\n";
  must(
      tapestry_run("search names --vary=optim.learning_rate=1e-3 --seeds 3 --steps 2 --quiet "
                   "--out {} data.path={} data.held_back=10 model.layers=1 model.width=8",
                   path("named"), write("names.txt", names)));
}

TEST_CASE_FIXTURE(SearchFixture, "bug: messages of trainings were printed before the JSON object") {
  const Finished found =
      must(search("noted",
                  "--json --vary=optim.learning_rate=log:0.00012344:0.00012366:2 --seeds 2 "
                  "train.early_stopping=1 train.min_delta=10"));
  const Json result = Json::parse(found.out);
  // bug: drawn values were rounded to numbers outside of the range.
  CHECK(result["candidates"][1]["settings"][0] == "optim.learning_rate=0.00012344");
  CHECK(result["candidates"][2]["settings"][0] == "optim.learning_rate=0.00012366");
}

TEST_CASE_FIXTURE(SearchFixture, "search: candidates that agree to the bit are called identical") {
  const Finished found =
      must(search("same", "--vary=train.log_every=1,2 --vary=optim.learning_rate=3e-3,3e-2"));
  check_says(found.out, {"identical to base", "identical to candidate-"});
  const Finished none = must(search("none", "--vary=train.log_every=1,2,4"));
  check_says(none.out,
             {"no candidate is significantly better than the base", "the config of base"});
  CHECK(decisions_of(path("none")) ==
        Strings{"drop candidate-01 identical to base", "drop candidate-02 identical to base",
                "drop candidate-03 identical to base", "best base ", "winner base "});
}

// Returns a result whose first contestant is the base, each with these losses by seed.
SearchResult result_of(const std::vector<std::vector<double>>& losses) {
  SearchResult result;
  for (const std::vector<double>& of_seeds : losses) {
    Contestant one{.candidate = {.name = fmt::format("candidate-{:02}", result.contestants.size()),
                                 .config = load_config("sort", {})},
                   .chosen_on = std::ssize(of_seeds)};
    for (const double loss : of_seeds)
      one.runs[std::ssize(one.runs) + 1] = {.budget = 1, .steps = 1, .loss = loss};
    result.contestants.push_back(std::move(one));
  }
  return result;
}

TEST_CASE("bug: search: two seeds with distant losses were called no significant difference") {
  // Differences 0.9 and 1.62: t = 3.5, p = 0.177.
  const SearchResult two = result_of({{1.60, 1.60}, {0.34, 0.34}});
  CHECK(outcome_of(result_of({{0.34, 0.34}, {1.24, 1.96}}), 1) ==
        "not decided with 2 seeds (p = 0.18); --seeds 5");
  CHECK(outcome_of(result_of({{0.3, 0.3, 0.3, 0.3, 0.3}, {0.2, 0.4, 0.3, 0.35, 0.26}}), 1) ==
        "no significant difference from the lowest mean loss");
  CHECK(outcome_of(result_of({{0.34, 0.36}, {1.60, 1.62}}), 1) ==
        "its loss differs from the lowest by 1.26 on each: no test, because the seeds have no "
        "spread");

  // The final test of the best candidate on new seeds.
  const auto conclusion = [&](const std::vector<double>& base, const std::vector<double>& best) {
    SearchResult result = two;
    result.metric = "loss";
    result.judged = paired_tests({base}, {best}).front();
    return conclusion_of(result.contestants[1], result.contestants[0], result, std::ssize(base));
  };
  check_says(conclusion({1.24, 1.96}, {0.34, 0.34}),
             {"candidate-01 was best, but its loss on 2 new seeds differs by",
              "(95 % CI): not decided with 2 seeds (p = 0.18); --seeds 5"});
  check_says(conclusion({1.60, 1.62}, {0.34, 0.36}),
             {"its loss on 2 new seeds differs by -1.26 on each: no test"});
  CHECK(!contains(conclusion({1, 2, 1, 2, 1.5}, {2, 1, 2, 1, 1.5}), "not decided"));
}

TEST_CASE_FIXTURE(
    SearchFixture,
    "bug: search: the base was kept without saying that the comparison is undecided") {
  const Finished found = must(search("open", "--vary=optim.learning_rate=3e-2,1e-4 --seeds 2"));
  CAPTURE(found.out);
  check_says(found.out, {"no candidate is significantly better than the base: candidate-01 has the "
                         "lowest mean loss; base: not decided with 2 seeds (p = 0.",
                         "); --seeds 5"});
}

TEST_CASE_FIXTURE(SearchFixture, "search: settings without effect make no significant difference") {
  const int repetitions = static_cast<int>(from_environment("TAPESTRY_REPETITIONS", 2));
  int told = 0;
  for (int i = 0; i < repetitions; ++i) {
    const std::string out = fmt::format("null-{}", i);
    const Finished found =
        must(search(out, Words("--vary=model.dropout=0.1001,0.1002,0.0999 seed={}", 100 * i + 1)));
    told += !contains(found.out, "no candidate");
  }
  CHECK(20 * told <= repetitions);
}

TEST_CASE_FIXTURE(SearchFixture, "search: a candidate that diverges is dropped") {
  const Finished found =
      must(search("diverged",
                  "--vary=optim.learning_rate=1000,1e-3 --seeds 2 optim.name=sgd "
                  "optim.clip_norm=0 optim.weight_decay=0"));
  CAPTURE(found.out);
  check_says(found.out, {"failed: step "});

  const Finished none =
      search("none",
             "--vary=train.log_every=1,2 --seeds 2 optim.learning_rate=1000 optim.name=sgd "
             "optim.clip_norm=0 optim.weight_decay=0");
  CAPTURE(none.out);
  CHECK(none.status == 1);
  check_says(none.out, {"no candidate is left: the base and every candidate failed"});
  CHECK(!fs::exists(path("none/winner.toml")));
}

TEST_CASE_FIXTURE(SearchFixture, "search: a first training that is refused leaves no folder") {
  must_train("toy", "start", "train.steps=2");
  std::string bytes = read_bytes(best("start"));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  for (std::size_t i = sizeof header_bytes + header_bytes; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(bytes[i] ^ 1);
  write("start/best.safetensors", bytes);
  check_refused(
      search("refused", Words("--vary=optim.learning_rate=1e-4 --from {}", path("start"))),
      {"best.safetensors: "});
  CHECK(!fs::exists(path("refused")));
}

TEST_CASE_FIXTURE(SearchFixture, "search: halving resumes the runs of the previous round") {
  must(search("halved",
              "--method halving --trials 9 --vary=optim.learning_rate=log:1e-5:1e-1 "
              "--seeds 2 --steps 36"));
  std::map<std::int64_t, int> runs;  // by budget
  for (const std::string& line : ledger_of(path("halved")))
    if (const Json read = Json::parse(line); read.contains("run")) ++runs[read["budget"]];
  CHECK(runs[4] == 2 * 10);
  CHECK(runs[12] == 2 * 4);
  CHECK(runs[36] >= 2 * 2);
  for (const auto& candidate : fs::directory_iterator(path("halved"))) {
    if (!candidate.is_directory()) continue;
    const std::string config = read_bytes(candidate.path() / "seed-1/config.toml");
    CHECK((contains(config, "steps = 36 ") || contains(config, "decay_steps = 36\n")));
  }
  // The last round ends as a training without rounds, except for evaluations at the rounds.
  must_train("toy", "whole", "train.steps=36");
  CHECK(last_validation("whole")["parameters_xxh3"] ==
        last_validation("halved/base/seed-1")["parameters_xxh3"]);
  // A base that fails in the last round is trained no further.
  end_with_failure(path("halved"), "base/seed-1", 36);
  const Finished failed = must(tapestry_run("search {} --resume --quiet", path("halved")));
  check_says(failed.out, {" is best; the base failed: step 3: the loss is nan"});
  for (const std::string& line : ledger_of(path("halved")))
    if (const Json read = Json::parse(line); read.value("run", "") == "base/seed-2")
      CHECK(read["budget"] < 36);
}

TEST_CASE_FIXTURE(SearchFixture, "search: limits the minutes of a search and of a run") {
  const Words vary = "--vary=train.micro_batches=2,4";
  must(search("small", vary + Words("--total-steps 720")));  // 6 runs, 10 for the test, 3 more
  const Strings decisions = decisions_of(path("small"));
  CHECK(std::ranges::count(decisions, "budget  ") + (decisions.size() <= 4) > 0);
  check_refused(search("less", vary + Words("--total-steps 600")),
                {"search.total_steps", "the first 6 runs and the final test need 640 steps"});
  must(search("hasty", vary + Words("--total-minutes 1e-6")));
  CHECK(std::ranges::count(decisions_of(path("hasty")), "budget  ") == 1);
  must(search("timed", vary + Words("--seeds 2 --minutes 1e-6")));
  for (const std::string& line : ledger_of(path("timed")))
    if (const Json read = Json::parse(line); read.contains("run")) CHECK(read["steps"] == 10);
}

TEST_CASE_FIXTURE(SearchFixture, "search: wrong arguments are refused before anything is written") {
  const Refusal rows[] = {
      {"", {"no setting to vary; give --vary KEY=A,B,C"}},
      {"--vary=optim.lr=1,2", {"--vary: unknown key optim.lr", "optim.learning_rate"}},
      {"--vary=optim.learning_rate=1e-3,x", {"--vary: optim.learning_rate = \"x\": expected"}},
      {"--vary=model.heads=2,3", {"model.heads = 3", "must divide"}},
      {"--vary=optim.learning_rate", {"--vary optim.learning_rate: expected KEY=A,B,C"}},
      {"--vary=optim.learning_rate=", {"a value is empty"}},
      {"--vary=optim.learning_rate=log:1e-2:1e-4", {"the range is empty"}},
      {"--vary=optim.learning_rate=log:0:1", {"above 0"}},
      {"--vary=model.layers=linear:1.4:2 --method random", {"expected integers for LOW and HIGH"}},
      {"--vary=optim.learning_rate=linear:-1e308:1e308 --method random", {"KEY=linear:LOW:HIGH"}},
      {"--vary=expected.source=" + std::string(9000, 'x'), {"the settings have", "at most 8192"}},
      {"--vary=" + std::string(9000, 'x') + "=1", {"--vary: unknown key xxx", "xxx… ("}},
      {"--vary=model.layers=1,2 --minutes 1 train.eval_every=0", {"set train.eval_every"}},
      {"--vary=optim.learning_rate=log:1e-4:1e-2:1", {"a count from 2 to 1000"}},
      {"--vary=optim.learning_rate=log:1e-4:1e-2", {"a grid needs values", ":COUNT"}},
      {"--vary=seed=1,2", {"same task, data, steps and seeds"}},
      {"--vary=model.layers=1", {"every candidate has the settings of the base"}},
      {"--vary=model.width=16 --vary=model.width=32", {"model.width is varied twice"}},
      {"--vary=data.length=3,4", {"losses cannot be compared", "data.length is 3 and 4"}},
      {"--vary=train.log_every=linear:1:900:900 --vary=model.layers=1,2",
       {"more than 1000 candidates", "--trials"}},
      {"--vary=model.layers=1,2 --trials 3", {"a grid tries all combinations"}},
      {"--vary=model.layers=1,2 --method gird", {"--method gird", "grid, random, halving"}},
      {"--vary=model.layers=1,2 --resume", {"there is no run to resume"}},
      {{R"(--vary=optim.groups=["nothing.* lr=2"])"},
       {"--vary: optim.groups = ", "no trainable parameter of the model matches"}},
      {"--vary=model.layers=1,2 --method halving optim.schedule=wsd",
       {"optim.schedule = \"wsd\"", "successive halving resumes runs"}},
      {"--vary=optim.schedule=linear,wsd --method halving",
       {"--vary: optim.schedule = \"wsd\"", "use another schedule"}}};
  for (const Refusal& row : rows) {
    CAPTURE(row.words);
    check_refused(search("refused", row.words), row.parts);
    CHECK(!fs::exists(path("refused")));
  }
  check_refused(run("search toy.toml --quiet --vary=model.layers=1,2 name=../other"),
                {"name = \"../other\": expected the name of a folder"});
  CHECK(!fs::exists(path("other")));
}

TEST_CASE_FIXTURE(SearchFixture,
                  "search: --dry-run prints the trainings, and [search] sets options") {
  write("own.toml",
        std::string(toy_toml) +
            "[search]\nvary = [\"model.layers=1,2\", \"optim.learning_rate=1e-3,1e-2\"]\n"
            "seeds = 3\nsteps = 7\n");
  const Finished planned = must(tapestry_run("search {} --dry-run", path("own.toml")));
  check_says(planned.out, {"4 candidates and the base: 10 to 21 runs, 70 to 147 steps",
                           "estimated time with the base's speed: "});
  CHECK(!fs::exists("searches"));
  const Finished found =
      must(tapestry_run("search {} --json --out {} --seeds 2", path("own.toml"), path("own")));
  const Json result = Json::parse(found.out);
  CHECK(result["candidates"].size() == 5);
  CHECK(result["candidates"][1]["settings"][0] == "model.layers=1");
  must(tapestry_run("train {} --quiet --out {} train.steps=2", path("own.toml"), path("plain")));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
