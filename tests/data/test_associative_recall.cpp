#include <doctest/doctest.h>

#include <map>
#include <set>

#include "data/toys/associative_recall.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"

// Tests multi-query associative recall: the sequences, and a training by attention and by an LSTM.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("associative recall");

AssociativeRecall recall(std::int64_t length, std::int64_t pairs, std::int64_t alphabet,
                         Split split = Split::train) {
  return AssociativeRecall(
      pairs, {.length = length, .alphabet = alphabet, .examples = 400, .seed = 3, .split = split});
}

TEST_CASE(
    "associative recall: each of several pairs is asked once, and its value is the target there") {
  for (const auto& [length, pairs, alphabet] :
       {std::tuple{64, 4, 8192}, {128, 8, 8192}, {8, 2, 10}, {32, 8, 40}}) {
    const AssociativeRecall data = recall(length, pairs, alphabet);
    CHECK(data.context() == length);
    CHECK(data.vocabulary().size() == alphabet);
    const Batch batch = data.batch(indices(0, 400));
    CHECK(batch.inputs.shape() == Shape{400, length});
    CHECK(batch.count == 400.0 * pairs);
    std::vector<double> places(length / 2 - pairs);
    for (std::int64_t b = 0; b < 400; ++b) {
      const auto inputs = batch.inputs.values<std::int32_t>().subspan(b * length, length),
                 targets = batch.targets.values<std::int32_t>().subspan(b * length, length);
      std::map<std::int32_t, std::int32_t> values, asked;
      for (std::int64_t i = 0; i < 2 * pairs; i += 2) values[inputs[i]] = inputs[i + 1];
      REQUIRE(std::ssize(values) == pairs);
      for (const auto& [key, value] : values) CHECK((key < alphabet / 2 && value >= alphabet / 2));
      for (std::int64_t t = 0; t < length; ++t) {
        CHECK((targets[t] != ignored_target) == (t >= 2 * pairs && values.contains(inputs[t])));
        if (targets[t] == ignored_target) continue;
        CHECK(t % 2 == 0);
        asked[inputs[t]] = targets[t];
        ++places[t / 2 - pairs];
      }
      CHECK(asked == values);
      const std::string prompt = data.prompt(b);
      CHECK(data.completed(prompt) == prompt);
      const std::int32_t last = *std::ranges::find_if(
          targets.rbegin(), targets.rend(), [](auto target) { return target != ignored_target; });
      CHECK(data.answer(prompt) == data.vocabulary().symbols()[last]);
    }
    CHECK(places.front() >= places.back());  // early places are asked more often
  }
}

TEST_CASE("associative recall: sequences are divided into splits without common ones") {
  const AssociativeRecall train = recall(8, 1, 6), held = recall(8, 1, 6, Split::validation);
  std::set<std::string> seen;
  const auto sequence = [](const AssociativeRecall& data, std::int64_t i) {
    return data.vocabulary().decode(data.batch(std::vector{i}).inputs.values<std::int32_t>());
  };
  for (std::int64_t i = 0; i < 400; ++i) seen.insert(sequence(train, i));
  for (std::int64_t i = 0; i < 400; ++i) CHECK(!seen.contains(sequence(held, i)));
}

TEST_CASE("associative recall: options and prompts out of range are refused") {
  const auto says = [](std::int64_t length, std::int64_t pairs, std::int64_t alphabet) {
    return message_of([&] { recall(length, pairs, alphabet); });
  };
  check_says(says(9, 1, 10), {"expected an even number"});
  check_says(says(2, 1, 10), {"length = 2: expected 4 to 512"});
  check_says(says(16, 5, 100), {"pairs = 5: expected 1 to 4"});
  check_says(says(64, 3, 4), {"pairs = 3: expected 1 to 2"});
  check_says(says(64, 4, 16385), {"alphabet = 16385: expected 2 to 16384"});
  const AssociativeRecall data = recall(8, 2, 10);
  CHECK(data.answer("05161") == "6");
  CHECK(data.answer("05169990") == "5");
  for (const std::string prompt : {"", "0516", "05162", "0516999900", "051a1", "05160>"})
    CHECK_ERROR(data.answer(prompt), "prompt '" + prompt + "': expected 2 pairs",
                "up to 4 symbols");
}

TEST_CASE("bug: associative recall: a split without sequences was searched forever") {
  CHECK_ERROR(recall(6, 1, 2), "only 2 different inputs of length 6 and 2 symbols", "at least 64");
  CHECK_ERROR(recall(4, 1, 6), "only 45 different inputs");  // 3 keys, 3 values, 5 other symbols
  CHECK(recall(4, 1, 8, Split::validation).prompt(0).size() == 3);
}

TEST_CASE_FIXTURE(
    TemporaryFolder,
    "associative recall: attention and a recurrent network answer several questions") {
  for (const std::string kind : {"transformer", "lstm"}) {
    const std::string run = path(kind);
    must_run({"train", "recall-many", "--quiet", "--out", run, "model.kind=" + kind,
              "model.width=16", "data.length=16", "data.pairs=2", "data.alphabet=16",
              "data.held_back=100", "train.steps=4", "train.eval_every=2", "train.samples=true"});
    const Json last = Json::parse(lines_of(read(kind + "/metrics.jsonl")).back());
    CHECK(last["exact_match"].get<double>() <= last["accuracy"].get<double>());
    CHECK(last["accuracy"].get<double>() < 1);
    CHECK(lines_of(must_run({"sample", run, "--count", "3"})).size() == 3);
    must_run({"report", run});
    check_fails(tapestry_run({"sample", run, "--prompt", "0819>"}), {"expected 2 pairs"});
    const Finished drawn = tapestry_run({"attention", run, "--out", path("map.svg")});
    if (kind == "transformer")
      CHECK(drawn.status == 0);
    else
      check_fails(drawn, {"a recurrent network has no attention to draw"});
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
