#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "data/toys/recall.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/process.hpp"
#include "train/task.hpp"

// Tests the task recall: the sequences, the task, and the series of memory models.
namespace tapestry {
namespace {

using Symbols = Recall::Symbols;

TEST_SUITE_BEGIN("recall");

TEST_CASE("recall: each sequence has pairs with distinct keys, and a query for one of them") {
  for (const RecallOptions& options :
       {RecallOptions{.examples = 200, .seed = 5},
        RecallOptions{.length = 8, .pairs = 8, .keys = 26, .values = 100, .examples = 200},
        RecallOptions{.length = 64, .pairs = 1, .keys = 2, .values = 2, .examples = 200}}) {
    const Recall data(options);
    for (std::int64_t i = 0; i < data.size(); ++i) {
      const Symbols symbols = data.symbols(i);
      REQUIRE(std::ssize(symbols) == 2 * (options.length + 1));
      std::map<char, std::string> values;
      const Strings items = data.words(symbols);
      REQUIRE(std::ssize(items) == options.length + 1);
      CHECK(data.text(symbols) == fmt::format("{}", fmt::join(items, " ")));
      for (std::size_t t = 0; t + 1 < items.size(); ++t) {
        if (items[t] == ".") continue;
        CHECK_FALSE(values.contains(items[t][0]));
        CHECK(std::ranges::none_of(
            values, [&](const auto& pair) { return pair.second == items[t].substr(1); }));
        values[items[t][0]] = items[t].substr(1);
        CHECK(std::stoll(items[t].substr(1)) < options.values);
      }
      CHECK(std::ssize(values) == options.pairs);
      REQUIRE(items.back().size() == 2);
      CHECK(items.back()[1] == '?');
      const std::string right = std::to_string(data.answer(symbols));
      CHECK(values.at(items.back()[0]) == right);
      CHECK(items[data.answer_position(symbols)] == items.back().substr(0, 1) + right);
      CHECK(std::ranges::all_of(
          symbols, [&](std::int32_t symbol) { return symbol >= 0 && symbol < data.vocabulary(); }));
    }
  }
}

TEST_CASE("recall: a batch has the sequences and their answers") {
  const Recall data({.length = 10, .examples = 50, .seed = 3});
  const std::int64_t examples[] = {7, 0, 49, 7};
  const Batch batch = data.batch(examples);
  CHECK(batch.inputs.shape() == Shape{4, 11, 2});
  CHECK(batch.targets.shape() == Shape{4});
  CHECK(batch.count == 4);
  const auto inputs = batch.inputs.values<std::int32_t>();
  for (std::size_t b = 0; b < 4; ++b) {
    const Symbols wanted = data.symbols(examples[b]);
    CHECK(std::ranges::equal(inputs.subspan(b * 22, 22), wanted));
    CHECK(batch.targets.values<std::int32_t>()[b] == data.answer(wanted));
  }
  CHECK_THROWS_AS(data.symbols(50), std::invalid_argument);
  CHECK_THROWS_AS(data.symbols(-1), std::invalid_argument);
}

TEST_CASE("recall: place and value of the answer are uniform") {
  const Recall data({.length = 16, .pairs = 4, .keys = 8, .values = 8, .examples = 8000});
  std::vector<double> places(16), answers(8), keys(8);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const Symbols symbols = data.symbols(i);
    ++places[data.answer_position(symbols)];
    ++answers[data.answer(symbols)];
    ++keys[data.text(symbols).end()[-2] - 'a'];
  }
  const auto check_even = [](const std::vector<double>& counts) {
    const double even = 8000 / static_cast<double>(counts.size());
    for (const double count : counts) CHECK(std::abs(count - even) < 5 * std::sqrt(even));
  };
  check_even(places);
  check_even(answers);
  check_even(keys);
}

TEST_CASE("recall: an example depends on the seed and its index alone") {
  const Recall few({.examples = 10, .seed = 3}), many({.examples = 1000, .seed = 3}),
      other({.examples = 10, .seed = 4});
  CHECK(few.symbols(9) == many.symbols(9));
  CHECK(few.symbols(9) != many.symbols(8));
  CHECK(few.symbols(9) != other.symbols(9));
}

TEST_CASE("recall: training and validation sequences are disjoint, in a small space") {
  RecallOptions options{
      .length = 8, .pairs = 1, .keys = 2, .values = 2, .distractors = 2, .examples = 6000};
  const Recall train(options);
  options.split = Split::validation;
  options.seed = 99;
  const Recall held(options);
  std::set<Symbols> seen, kept;
  for (std::int64_t i = 0; i < 6000; ++i) {
    seen.insert(train.symbols(i));
    kept.insert(held.symbols(i));
  }
  CHECK(std::ranges::none_of(kept, [&](const Symbols& symbols) { return seen.contains(symbols); }));
  CHECK(kept.size() > 300);  // an eighth of 8 · 4 · 2⁷
  CHECK(kept.size() < 700);
  CHECK(seen.size() > 2000);
}

TEST_CASE("recall: a sequence is read from its text, and an error says what is expected") {
  const Recall data({.length = 12, .pairs = 3, .keys = 4, .values = 12});
  const Symbols symbols = data.encode(". c7  a11 . a?");
  CHECK(data.text(symbols) == ". c7 a11 . a?");
  CHECK(data.answer(symbols) == 11);
  CHECK(data.answer_position(symbols) == 2);
  for (const std::string prompt : {"", "a?", "a1", "a1 b?", "a1 e?", "a12 a?", "e1 e?", "1 a?",
                                   "a1 a", "a1 A?", "a-1 a?", "a01 a?"}) {
    CAPTURE(prompt);
    CHECK_ERROR(data.encode(prompt), "prompt '" + prompt + "'", "keys a to d", "values 0 to 11",
                "like '. a1 b0 . a?'");
  }
  CHECK(data.answer(data.encode(". a1 b0 . a?")) == 1);  // the example of the message
  CHECK_THROWS_AS(data.answer(Symbols{0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(data.answer({}), std::invalid_argument);
}

TEST_CASE("recall: options out of range name their key") {
  const auto says = [](const RecallOptions& options) {
    return message_of([&] { Recall{options}; });
  };
  check_says(says({.length = 7}), {"length = 7: expected 8 to 512"});
  check_says(says({.length = 513}), {"length = 513"});
  check_says(says({.pairs = 0}), {"pairs = 0: expected 1 to 16"});
  check_says(says({.length = 10, .pairs = 11}), {"pairs = 11: expected 1 to 10"});
  check_says(says({.pairs = 5, .keys = 4}), {"pairs = 5: expected 1 to 4"});
  check_says(says({.pairs = 5, .values = 4}), {"pairs = 5: expected 1 to 4"});
  check_says(says({.keys = 1}), {"keys = 1: expected 2 to 26"});
  check_says(says({.keys = 27}), {"keys = 27"});
  check_says(says({.values = 101}), {"values = 101: expected 2 to 100"});
  check_says(says({.distractors = 1}), {"distractors = 1"});
  check_says(says({.examples = 0}), {"0 examples; expected at least 1"});
  CHECK(says({}).empty());
}

// --- the series of memory models ---

// Trains a shipped config, small and short, and returns its last evaluation.
Json climb(const TemporaryFolder& folder, const std::string& config) {
  const Finished finished = tapestry_run(with_sets(
      {"train", config, "--quiet", "--out", folder.path(config), "data.length=16", "data.pairs=4",
       "data.keys=6", "data.values=6", "data.held_back=4000", "train.steps=700",
       "train.batch_size=32", "train.eval_every=0", "train.checkpoint_every=0"}));
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  return Json::parse(lines_of(read_bytes(folder.path(config + "/metrics.jsonl"))).back());
}

TEST_CASE("recall: attention recalls all pairs, a sum few, and forgetting the latest best" *
          not_sanitized("its trainings take half a minute there")) {
  const TemporaryFolder folder;
  const Json sum = climb(folder, "memory-sum"), fading = climb(folder, "memory-forgetting"),
             asking = climb(folder, "memory-query-key");
  CHECK(asking["accuracy"].get<double>() > 0.95);
  CHECK(sum["accuracy"].get<double>() < asking["accuracy"].get<double>() - 0.3);
  CHECK(fading["accuracy_late"].get<double>() > fading["accuracy_early"].get<double>() + 0.15);
  CHECK(std::abs(sum["accuracy_late"].get<double>() - sum["accuracy_early"].get<double>()) < 0.1);

  const auto sample = [&](const std::string& run, const Strings& more) {
    Strings words = {"sample", folder.path(run)};
    words.insert(words.end(), more.begin(), more.end());
    return tapestry_run(words);
  };
  const Finished shown = sample("memory-query-key", {"--prompt", ". b2 . . c5 a0 . c?"});
  CHECK(lines_of(shown.out).size() == 2);  // the answer, and the attention weights
  check_says(shown.out, {". b2 . . c5 a0 . c?  5 right\n", "right\n    c5 "});
  CHECK(lines_of(sample("memory-sum", {}).out).size() == 4);
  const std::string picture = folder.path("map.svg");
  const auto draw = [&](const std::string& run) {
    return tapestry_run(
        {"attention", folder.path(run), "--prompt", "b2 . c5 a0 c?", "--out", picture});
  };
  CHECK(draw("memory-query-key").status == 0);
  check_says(read_bytes(picture), {"memory, head 0", "c?", "a0"});
  const Finished nothing_to_draw = draw("memory-sum");
  check_fails(nothing_to_draw, {"this run's memory has no attention"});
  const Finished wrong = sample("memory-sum", {"--prompt", "b2 z?"});
  check_fails(wrong, {"prompt 'b2 z?'"});
}

TEST_CASE("bug: recall: a recurrent network recalled recent items no better than old ones" *
          not_sanitized("its training takes ten seconds there")) {
  const TemporaryFolder folder;
  const Json found = climb(folder, "memory-recurrent");
  CHECK(found["accuracy_late"].get<double>() > found["accuracy_early"].get<double>() + 0.1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
