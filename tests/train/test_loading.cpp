#include <doctest/doctest.h>

#include <chrono>

#include "tests/support/run_fixture.hpp"

// What steps read, by the command line.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("training");

// Sentences of 1 to 9 words.
std::string sentences(int lines, const std::string& word) {
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (int i = 0; i <= line * 7 % 9; ++i)
      text += fmt::format("{}{}{}", i ? " " : "", word, (line + i) % 10);
    text += "\n";
  }
  return text;
}

TEST_CASE_FIXTURE(RunFixture, "bug: micro-batches of alike lengths give the same gradient") {
  for (const std::string part : {"train", "val", "test"}) {
    write(part + ".de", sentences(50, "wort"));
    write(part + ".en", sentences(50, "word"));
  }
  std::vector<Json> whole;
  for (const std::string parts : {"1", "2", "4"}) {
    CAPTURE(parts);
    must(tapestry_run({"train", "multi30k", "--quiet", "--out", path("run" + parts),
                       "data.path=" + path(), "data.vocabulary=300", "model.layers=1",
                       "model.width=16", "model.heads=2", "model.feed_forward=16",
                       "model.dropout=0", "train.batch_size=8", "train.steps=8",
                       "train.eval_every=8", "train.log_every=1", "train.micro_batches=" + parts}));
    const std::vector<Json> lines = metrics("run" + parts);
    if (parts == "1") whole = lines;
    REQUIRE(lines.size() == whole.size());
    for (std::size_t i = 0; i < lines.size(); ++i)
      for (const char* field : {"loss", "grad_norm"})
        if (lines[i].contains(field))
          CHECK(lines[i][field].get<double>() ==
                doctest::Approx(whole[i][field].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: a billion drawn examples: begins and resumes at once") {
  const auto begin = std::chrono::steady_clock::now();
  must_train("toy", "whole", "data.examples=1000000000 train.steps=8");
  must_train("toy", "halves", "data.examples=1000000000 train.steps=4");
  must_train("toy", "halves",
             "data.examples=1000000000 train.steps=8 --resume optim.decay_steps=8");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(120));
  CHECK(load_checkpoint(checkpoint("whole")).state.position == 64);
  CHECK(load_checkpoint(checkpoint("halves")).state.position == 64);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
