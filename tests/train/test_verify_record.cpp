#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "tests/support/verified.hpp"

// What of a record that is incomplete, damaged or changed `verify` says.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("proof");

TEST_CASE_FIXTURE(RunFixture, "bug: verify: called missing or damaged files other bits or same") {
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

  // The line of the best evaluation was taken out: its loss can no longer be told.
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

TEST_CASE_FIXTURE(RunFixture, "bug: verify: a test's figures were passed over") {
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

TEST_CASE_FIXTURE(RunFixture, "bug: verify: a changed or doubled checksum of a tensor passed") {
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

TEST_CASE_FIXTURE(RunFixture, "bug: verify: a doubled line of metrics, or key of one, passed") {
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

TEST_CASE_FIXTURE(RunFixture, "bug: verify: advised a given --all, and took any number of steps") {
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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
