#include <doctest/doctest.h>

#include "tests/support/verified.hpp"
#include "train/run/session.hpp"

// A run that is resumed with other settings says so, and is made again with those of each session.
namespace tapestry {
namespace {

const Words longer = "--resume train.steps=60 optim.decay_steps=60";

std::string page_of(const RunFixture& fixture, const std::string& run) {
  const std::string page = fixture.path(run + ".html");
  must(tapestry_run("report {} --out {}", fixture.path(run), page));
  return read_bytes(page);
}

// The words of the commands that a page gives to make its run again.
std::vector<Words> commands_of(const std::string& page) {
  const std::size_t at = page.find("<pre>", page.find("To repeat the training"));
  std::vector<Words> commands;
  for (const std::string& line : lines_of(page.substr(at + 5, page.find("</pre>", at) - at - 5))) {
    std::istringstream stream(line);
    Strings& words = commands.emplace_back();
    for (std::string word; stream >> word;) words.push_back(word);
  }
  return commands;
}

TEST_SUITE_BEGIN("proof");

TEST_CASE_FIXTURE(RunFixture, "bug: verify, replay, report: resumed with other settings, unsaid") {
  must_train("toy", "run");
  must_train("toy", "run", longer);
  const std::vector<Session> sessions = read_sessions(Run(path("run")));
  REQUIRE(sessions.size() == 2);
  CHECK(!sessions[0].changed.has_value());
  CHECK(to_text(sessions[1].changed.value()) ==
        "optim.decay_steps = 60 (before: 0), train.steps = 60 (before: 40)");

  const Json verdict = must_verify(*this, "run", "--all");
  CHECK(verdict["last_step"] == 60);
  CHECK(verdict["tensors"].get<int>() > 0);
  check_says(tapestry_run("verify {} --all", path("run")).out,
             {"from step 40 on with optim.decay_steps = 60 (before: 0), train.steps"});
  for (const std::int64_t step : {30, 57}) {
    const Finished replayed =
        must(tapestry_run({"replay", path("run"), "--step", fmt::format("{}", step), "--json"}));
    for (const Json& line : metrics("run"))
      if (line["step"] == step && line["split"] == "train")
        CHECK(Json::parse(replayed.out)["lr"] == line["lr"]);
  }

  const std::string page = page_of(*this, "run");
  check_says(page, {"Settings were changed when the training was resumed",
                    "optim.decay_steps = 60 (before: 0), train.steps = 60 (before: 40)"});
  const auto commands = commands_of(page);
  REQUIRE(commands.size() == 2);
  for (Strings words : commands) {
    words.erase(words.begin());
    words.push_back("--quiet");
    must(tapestry_run(words, {.folder = path()}));
  }
  check_same_checkpoint(checkpoint("run"), path("run-again/checkpoint.safetensors"));
}

TEST_CASE_FIXTURE(RunFixture, "bug: report: a run resumed with other settings by another command") {
  const std::string run = path("run");
  must_train("toy", "run", "train.steps=40");
  must_train("toy", "run", "--resume train.steps=50 optim.decay_steps=80");
  must_train("toy", "run", "--resume train.steps=60 optim.decay_steps=70 train.eval_every=20");
  const auto commands = commands_of(page_of(*this, "run"));
  REQUIRE(commands.size() == 3);
  for (Strings words : commands) {
    words.erase(words.begin());
    words.push_back("--quiet");
    REQUIRE(tapestry_run(words, {.folder = path()}).status == 0);
  }
  check_same_checkpoint(checkpoint("run"), path("run-again/checkpoint.safetensors"));
  must_verify(*this, "run", "--all");
  must_verify(*this, "run", "--from best --all");
}

TEST_CASE_FIXTURE(RunFixture, "sessions: settings that earlier ones did not record are unknown") {
  must_train("toy", "run");
  must_train("toy", "run", longer);
  const std::string path = this->path("run/sessions.jsonl");
  std::string lines;
  for (const std::string& line : lines_of(read_bytes(path))) {
    Json entry = Json::parse(line);
    entry.erase("changed");
    lines += entry.dump() + "\n";
  }
  write("run/sessions.jsonl", lines);
  const Finished said = tapestry_run("verify {} --all", this->path("run"));
  CHECK(said.status == 1);
  check_says(said.out, {"the run was trained in 2 sessions with different settings"});
  check_says(page_of(*this, "run"), {"which an earlier version did not record"});
}

TEST_CASE_FIXTURE(RunFixture, "sessions: a line that lacks what all sessions record is left out") {
  must_train("toy", "run");
  const Run run(path("run"));
  const Strings lines = lines_of(read_bytes(run.sessions()));
  REQUIRE(lines.size() == 2);
  const auto without = [](const std::string& line, const std::string& field) {
    Json entry = Json::parse(line);
    CHECK(entry.erase(field) == 1);
    return entry.dump() + "\n";
  };
  for (const char* field : {"examples", "data", "engines"}) {
    write("run/sessions.jsonl", without(lines[0], field) + lines[1] + "\n");
    CHECK(read_sessions(run).empty());
  }
  write("run/sessions.jsonl", lines[0] + "\n" + without(lines[1], "tensor_bytes"));
  REQUIRE(read_sessions(run).size() == 1);
  CHECK(!read_sessions(run)[0].end);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
