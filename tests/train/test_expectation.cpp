#include <doctest/doctest.h>

#include "tests/support/process.hpp"
#include "train/config/config_document.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"

// What a config's [expected] is compared with.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("expectation");

std::string why_not(const std::string& name, const Strings& overrides) {
  return why_not_expected(load_config(name, overrides).settings(),
                          load_config(name, {}).settings());
}

TEST_CASE("bug: results of other data, models or steps were compared with [expected]") {
  CHECK(why_not("karate", {}).empty());
  CHECK(
      why_not("karate", {"seed=7", "train.eval_every=3", "name=club", "train.threads=1"}).empty());
  CHECK(why_not("karate", {"train.steps=20"}) == "train.steps = 20, karate has 100");
  CHECK(why_not("sort", {"data.length=4"}) == "data.length = 4, sort has 8");
  CHECK(why_not("sort", {"model.width=32"}) == "model.width = 32, sort has 64");
  CHECK(why_not("sort", {"data.kind=reverse"}).empty());  // that is `reverse`, of which it is true
  CHECK(why_not("shakespeare-char", {"data.path=notes.txt"}) ==
        "the data are notes.txt, expected.data is tinyshakespeare.txt");
  const std::string right = "data.path=/texts/tinyshakespeare.txt";
  CHECK(why_not("shakespeare-char", {right}).empty());
  CHECK(why_not("shakespeare-char", {right, "data.tokenizer=train"})
            .starts_with("data.tokenizer = \"train\", shakespeare-char has \"\""));
  for (const auto& [name, text] : shipped_configs()) {
    const ConfigSettings own = parse_config(text, name, {}).settings();
    const bool needs_data = own.contains("data.path") &&
                            own.at("expected.data") != "\"built-in\"" &&
                            own.at("expected.data") != "\"\"";
    CHECK_MESSAGE((needs_data || why_not_expected(own, own).empty()), name);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a run resumed by its own config forgot its other steps") {
  const RunOptions here{.folder = path()};
  const auto said = [&](const Words& words) {
    const Finished finished = tapestry_run(words, here);
    CHECK_MESSAGE(finished.status == 0, finished.err);
    return finished.out;
  };
  check_says(said("train karate --out whole"), {" reached, 0.9688 expected ("});
  CHECK(!contains(said("train karate --out run train.steps=20"), "expected"));
  CHECK(!contains(said("train run/config.toml --out run --resume"), "expected"));
  said({"report", "run"});
  check_says(read("run/report.html"), {"not compared with the expected"});

  write("own.toml",
        "base = \"karate\"\n[train]\nsteps = 9\n[expected]\nmetric = \"accuracy\"\n"
        "value = 0.5\nsource = \"mine\"\n");
  check_says(said("train own.toml --out own"), {" reached, 0.5000 expected (mine)"});
  CHECK(!contains(said("train own.toml --out more train.steps=8"), "expected"));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
