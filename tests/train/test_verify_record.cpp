#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "tests/support/run_fixture.hpp"
#include "tests/support/verified.hpp"
#include "train/run/session.hpp"

// Tests what verify says of incomplete, damaged or changed records.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("proof");

TEST_CASE_FIXTURE(RunFixture,
                  "bug: verify: missing or damaged files were reported as other or equal bits") {
  must_train("toy", "run");
  const std::string run = path("run"), metrics = run + "/metrics.jsonl";
  const std::string lines = read_bytes(metrics), best = read_bytes(run + "/best.safetensors"),
                    config = read_bytes(run + "/config.toml");
  fs::remove(metrics);
  check_says(must_verify(*this, "run")["not_compared"].dump(),
             {"metrics.jsonl has no line of these"});
  fs::create_symlink("nowhere", metrics);
  check_says(refused_verify(*this, "run"), {"metrics.jsonl: cannot be opened: No such file"});
  fs::remove(metrics);

  // The line of the best evaluation is removed, so that its loss is unknown.
  std::string others;
  const auto best_step = load_checkpoint_metadata(run + "/best.safetensors").state.step;
  for (const std::string& line : lines_of(lines))
    if (const Json read = Json::parse(line); read["split"] != "val" || read["step"] != best_step)
      others += line + "\n";
  write("run/metrics.jsonl", others);
  check_says(must_verify(*this, "run", "--all")["not_compared"].dump(),
             {fmt::format("no evaluation of step {} was recorded", best_step)});
  write("run/metrics.jsonl", lines);

  std::string damaged = best;
  damaged[damaged.size() - 100] ^= 1;
  write("run/best.safetensors", damaged);
  check_says(refused_verify(*this, "run", "--all"),
             {"best.safetensors: tensor ", " is damaged: its checksum differs"});
  damaged = best;
  damaged[20] = '\x01';
  write("run/best.safetensors", damaged);
  check_says(refused_verify(*this, "run"), {"best.safetensors: header at byte 8: is not JSON"});
  write("run/best.safetensors", best);

  write("run/config.toml", replaced(config, "seed = 1", "seed = 2"));
  check_says(refused_verify(*this, "run"),
             {"config.toml: ", "was trained with a different config: seed (1, now 2)"});
}

// Returns what `verify --all` did not compare after the line of this split and step was removed.
std::string without_line(const RunFixture& fixture, const std::string& split, std::int64_t step) {
  const std::string lines = fixture.read("run/metrics.jsonl");
  std::string others;
  for (const std::string& line : lines_of(lines))
    if (const Json read = Json::parse(line); read["split"] != split || read["step"] != step)
      others += line + "\n";
  CHECK(others.size() < lines.size());
  fixture.write("run/metrics.jsonl", others);
  const Json verdict = must_verify(fixture, "run", "--all");
  fixture.write("run/metrics.jsonl", lines);
  return verdict["not_compared"].dump();
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify --all did not notice a line that was removed") {
  must_train("toy", "run");
  CHECK(must_verify(*this, "run", "--all")["not_compared"].empty());
  check_says(without_line(*this, "train", 6), {"training: metrics.jsonl lacks 1 line, of step 6"});
  check_says(without_line(*this, "train", 39), {"lacks 1 line, of step 39"});
  check_says(without_line(*this, "val", 20),
             {"evaluation: metrics.jsonl lacks 1 line, of step 20"});
  check_says(without_line(*this, "val", 40), {"lacks 1 line, of step 40"});
  // Sessions with other intervals, of which the first two stop between their lines.
  must_train("toy", "run", "train.steps=56 optim.decay_steps=40 train.log_every=4 --resume");
  must_train("toy", "run",
             "train.steps=70 optim.decay_steps=40 train.eval_every=6 train.log_every=7 --resume");
  const Json verdict = must_verify(*this, "run", "--all");
  CAPTURE(verdict["not_compared"].dump());
  CHECK(verdict["not_compared"].empty());
  for (const std::int64_t step : {9, 44, 63})
    check_says(without_line(*this, "train", step), {fmt::format("1 line, of step {}", step)});
  for (const std::int64_t step : {30, 50, 56, 66})
    check_says(without_line(*this, "val", step), {fmt::format("1 line, of step {}", step)});
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify, replay: a newline in a run's name broke lines") {
  const std::string name = "a\nforged: the same bits";
  must_train("toy", name);
  for (const char* from : {"start", "best"}) {
    const Finished finished = must(tapestry_run("verify {} --all --from {}", path(name), from));
    check_says(finished.out, {"a\\x0aforged"});
    for (const std::string& line : lines_of(finished.out)) CHECK(!line.starts_with("forged"));
  }
  const Finished looked = must(tapestry_run("replay {} --step 40", path(name)));
  for (const std::string& line : lines_of(looked.out)) CHECK(!line.starts_with("forged"));
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: metrics of the test split were ignored") {
  must_train("vae", "run");
  REQUIRE(metrics("run").back()["split"] == "test");
  CHECK(must_verify(*this, "run", "--all")["tests"] == 1);
  CHECK(must_verify(*this, "run")["tests"] == 0);
  change_metrics(*this, "run", [](Json& line) {
    if (line["split"] == "test") line["loss"] = 1.5;
  });
  const auto [verdict, status] = verified(*this, "run", "--all");
  CHECK(status == 1);
  check_says(verdict["differences"].dump(), {"test loss: recorded 1.5, "});
}

TEST_CASE_FIXTURE(RunFixture, "bug: verify: a changed or repeated checksum of a tensor passed") {
  must_train("toy", "run");
  const std::string path = this->path("run/checksums.jsonl"), good = read_bytes(path);
  Strings lines = lines_of(good);
  const auto write = [&](const Strings& changed) {
    this->write("run/checksums.jsonl", fmt::format("{}\n", fmt::join(changed, "\n")));
  };
  const Json line = Json::parse(lines[lines.size() / 2]);
  Strings other = lines;
  Json changed = line;
  changed["xxh3"] = "0123456789abcdef";
  other[lines.size() / 2] = changed.dump();
  write(other);
  const auto [verdict, status] = verified(*this, "run", "--all");
  CHECK(status == 1);
  CHECK(verdict["differs_at"] == line["step"]);
  check_says(verdict["differences"].dump(), {"1 of the ", "checksums.jsonl"});
  CHECK(verdict["tensors_that_differ"][0]["tensors"] == Json::array({line["tensor"]}));

  other = lines;
  other.insert(other.begin() + 3, lines[3]);
  write(other);
  check_says(refused_verify(*this, "run", "--all"),
             {"checksums.jsonl:5: the tensor occurs twice in this step: the record is damaged"});
  other[3] = "damaged";
  write(other);
  check_says(refused_verify(*this, "run", "--all"),
             {"checksums.jsonl:4: not the checksum of a tensor"});
  lines.erase(lines.begin() + 3);
  write(lines);
  CHECK(verified(*this, "run", "--all").second == 1);
  fs::remove(path);
  check_says(must_verify(*this, "run", "--all")["not_compared"].dump(),
             {"tensors of 4 of 4 evaluations: checksums.jsonl has none of them"});
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: verify: a repeated line of metrics, or a repeated key, passed") {
  must_train("vae", "run");
  const std::string good = read("run/metrics.jsonl");
  const Strings lines = lines_of(good);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Strings twice = lines;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
    write("run/metrics.jsonl", fmt::format("{}\n", fmt::join(twice, "\n")));
    check_says(refused_verify(*this, "run", "--all"),
               {fmt::format("metrics.jsonl:{}: ", i + 2), "the record is damaged"});
  }
  write("run/metrics.jsonl", replaced(good, "\"loss\"", "\"loss\":9,\"loss\""));
  check_says(refused_verify(*this, "run"), {"metrics.jsonl:1: a key occurs twice"});
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: verify: advised the given --all, and accepted any number of steps") {
  must_train("vae", "run");
  change_metrics(*this, "run", [](Json& line) {
    if (line["step"] == 6) line["loss"] = 1.5;
  });
  const auto [verdict, status] = verified(*this, "run", "--all");
  CHECK(status == 1);
  check_says(verdict["not_compared"].dump(), {"test metrics: step 6, before the test, differs"});
  CHECK(verdict["not_compared"].dump().find("--all") == std::string::npos);
  for (const std::string steps : {"99999999999999999999", "9223372036854775808", "-1"})
    check_says(refused_verify(*this, "run", {"--steps", steps}), {"--steps " + steps, "expected "});
}

// Tests replays of steps, also of steps that fail.

Json replayed(const RunFixture& fixture, const std::string& run, int step, const Words& more = {}) {
  return Json::parse(must_run(
      Words("replay {} --json --step {}", fixture.path(run), std::to_string(step)) + more));
}

// "step 12: " of an error -> 12
int step_of_error(const std::string& error) {
  return std::atoi(error.c_str() + error.find("step ") + 5);
}

TEST_CASE_FIXTURE(RunFixture, "replay: prints every op, and the recorded loss and norm") {
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
  const Json& tape = replay["tape"];  // of the first micro-batch
  CHECK(tape.size() > 10);
  for (std::size_t i = 0; i < tape.size(); ++i) {
    CHECK(tape[i]["norm"].get<double>() >= 0);
    for (const Json& input : tape[i]["inputs"]) CHECK(input.get<std::size_t>() < i);
  }
  CHECK(tape.back()["shape"].empty());  // the loss
  CHECK(tape.back()["gradient_norm"].get<double>() > 0);
  CHECK(tape[0]["forward_s"].is_null());
  CHECK(tape[1]["forward_s"].get<double>() > 0);
  must_run("replay {} --step 2 --graph {}", path("run"), path("tape.svg"));
  check_says(read("tape.svg"), {"The tape of step 2", "blocks.0.attention: ", "gradient norm"});
  check_fails(tapestry_run("replay {} --step 2 --json --graph x.svg", path("run")),
              {"--graph: is not used with --json"});
  check_prints(
      tapestry_run("replay {} --step 9", path("run")),
      {"run: step 9, trained again from step 0 (the start)", "grad_norm ", "training examples",
       "blocks.0.attention: ", "final_norm.weight", "loss and gradient are finite"});
}

TEST_CASE_FIXTURE(RunFixture, "replay: shows where a run failed, from the checkpoint before") {
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
  check_fails(run_here({"replay", path("run"), "--step", std::to_string(last + 1)}),
              {fmt::format("--step {}: ", last + 1), "failed after ",
               fmt::format("; expected a step up to {}", last)});
}

TEST_CASE_FIXTURE(RunFixture, "replay: steps that cannot be replayed are refused in one line") {
  must_train("toy", "run", "train.steps=5");
  const Refusal rows[] = {{{}, {"--step is required"}},
                          {"--step 0", {"--step"}},
                          {"--step 6", {"--step 6: expected 1 to 5, the steps of "}},
                          {"--step 2 model.width=8", {"different settings: model.width"}}};
  for (const Refusal& row : rows)
    check_fails(run_here(Words("replay {}", path("run")) + row.words), row.parts);
}

TEST_CASE_FIXTURE(RunFixture,
                  "bug: replay: tokens were shown as numbers, and sums and means had no name") {
  must_train("toy", "toy", "train.steps=2");
  must_train("text", "text", "train.steps=2");
  const std::string question = replayed(*this, "toy", 1)["examples"][0]["text"];
  CHECK(question.find('>') != std::string::npos);
  const std::string read = replayed(*this, "text", 1)["examples"][0]["text"];
  CHECK(story(20).find(read) != std::string::npos);
  check_says(tapestry_run("replay {} --step 1", path("toy")).out,
             {"  \"" + question + "\"\n", "the sum of the loss over the targets"});
}

// Tests runs that were resumed with other settings, whose sessions are repeated with their
// settings.

const Words longer = "--resume train.steps=60 optim.decay_steps=60";

std::string page_of(const RunFixture& fixture, const std::string& run) {
  const std::string page = fixture.path(run + ".html");
  must_run("report {} --out {}", fixture.path(run), page);
  return read_bytes(page);
}

// Returns the words of the commands with which a page repeats its run.
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

TEST_CASE_FIXTURE(RunFixture,
                  "bug: verify, replay and report did not mention other settings of a resume") {
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
    must_run(words, {.folder = path()});
  }
  check_same_checkpoint(checkpoint("run"), path("run-again/checkpoint.safetensors"));
}

TEST_CASE_FIXTURE(RunFixture, "bug: report: settings changed by another command were not shown") {
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

TEST_CASE_FIXTURE(RunFixture,
                  "sessions: settings that earlier versions did not record are unknown") {
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

TEST_CASE_FIXTURE(RunFixture, "sessions: a line without a field of all sessions is left out") {
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
