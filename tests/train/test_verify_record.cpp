#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/verified.hpp"

// What of a record that is incomplete, damaged or changed `verify` says.
namespace tapestry {
namespace {
namespace fs = std::filesystem;

TEST_SUITE_BEGIN("proof");

TEST_CASE("bug: verify: what is missing, damaged or changed was called other bits, or the same") {
  const Workshop shop;
  shop.must_train("toy", "run");
  const std::string run = shop.folder.path("run"), metrics = run + "/metrics.jsonl";
  const std::string lines = read_bytes(metrics), best = read_bytes(run + "/best.safetensors"),
                    config = read_bytes(run + "/config.toml");
  fs::remove(metrics);
  check_says(must_verify(shop, "run")["not_compared"].dump(), {"metrics.jsonl has none of these"});
  fs::create_symlink("nowhere", metrics);
  check_says(refused_verify(shop, "run"), {"metrics.jsonl: cannot be opened: No such file"});
  fs::remove(metrics);

  // The line of the best evaluation was taken out: its loss can no longer be told.
  std::string others;
  const auto best_step = load_checkpoint_head(run + "/best.safetensors").state.step;
  for (const std::string& line : lines_of(lines))
    if (const Json read = Json::parse(line); read["split"] != "val" || read["step"] != best_step)
      others += line + "\n";
  shop.folder.write("run/metrics.jsonl", others);
  check_says(must_verify(shop, "run", {"--all"})["not_compared"].dump(),
             {fmt::format("no evaluation of step {} was recorded", best_step)});
  shop.folder.write("run/metrics.jsonl", lines);

  std::string damaged = best;
  damaged[damaged.size() - 100] ^= 1;
  shop.folder.write("run/best.safetensors", damaged);
  check_says(refused_verify(shop, "run", {"--all"}),
             {"best.safetensors: tensor ", " is damaged: its bytes are not those"});
  damaged = best;
  damaged[20] = '\x01';
  shop.folder.write("run/best.safetensors", damaged);
  check_says(refused_verify(shop, "run"), {"best.safetensors: header at byte 8: it is damaged"});
  shop.folder.write("run/best.safetensors", best);

  std::string changed = config;
  changed.replace(changed.find("seed = 1"), 8, "seed = 2");
  shop.folder.write("run/config.toml", changed);
  check_says(refused_verify(shop, "run"),
             {"config.toml: ", "was trained under another config: seed (1, now 2)"});
}

TEST_CASE(
    "bug: verify, replay: a newline in a run's name broke the lines that name its checkpoints") {
  const Workshop shop;
  const std::string name = "a\nforged: the same bits";
  shop.must_train("toy", name);
  for (const char* from : {"start", "best"}) {
    const Finished finished =
        tapestry_run({"verify", shop.folder.path(name), "--all", "--from", from});
    CHECK(finished.status == 0);
    check_says(finished.out, {"a\\x0aforged"});
    for (const std::string& line : lines_of(finished.out)) CHECK(!line.starts_with("forged"));
  }
  const Finished looked = tapestry_run({"replay", shop.folder.path(name), "--step", "40"});
  CHECK(looked.status == 0);
  for (const std::string& line : lines_of(looked.out)) CHECK(!line.starts_with("forged"));
}

TEST_CASE("bug: verify: a test's figures were passed over") {
  const Workshop shop;
  shop.must_train("vae", "run");
  REQUIRE(shop.metrics("run").back()["split"] == "test");
  CHECK(must_verify(shop, "run", {"--all"})["tests"] == 1);
  CHECK(must_verify(shop, "run")["tests"] == 0);
  change_metrics(shop, "run", [](Json& line) {
    if (line["split"] == "test") line["loss"] = 1.5;
  });
  const auto [verdict, status] = verified(shop, "run", {"--all"});
  CHECK(status == 1);
  check_says(verdict["differences"].dump(), {"the test's loss 1.5 was recorded, "});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
