#include <doctest/doctest.h>

#include <set>

#include "data/text/names.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

std::multiset<std::string> names_of(const NameDataset& dataset, const CharVocabulary& vocabulary) {
  std::multiset<std::string> names;
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    names.insert(vocabulary.decode(dataset.name(i)));
  return names;
}

// Returns "n0" to "n<count - 1>", one per line.
std::string numbered(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += fmt::format("n{}\n", i);
  return lines;
}

TEST_SUITE_BEGIN("names");

TEST_CASE("NameDataset: each name begins and ends with 0") {
  const NameList list{"names.txt", {"ada", "bo", "é"}, 3};
  const CharVocabulary vocabulary = name_vocabulary(list);
  CHECK(vocabulary.symbols() == Strings{"\n", "a", "b", "d", "o", "é"});
  const NameDataset dataset(
      {vocabulary.encode("é"), vocabulary.encode("ada"), vocabulary.encode("bo")});
  CHECK(dataset.size() == 3);
  CHECK(dataset.name(1) == Tokens{1, 3, 1});
  const Batch batch = dataset.batch(std::vector<std::int64_t>{1, 2, 0});
  CHECK(batch.inputs.shape() == Shape{3, 4});
  CHECK(ints_of(batch.inputs) == Tokens{0, 1, 3, 1, 0, 2, 4, 0, 0, 5, 0, 0});
  CHECK(ints_of(batch.targets) == Tokens{1, 3, 1, 0, 2, 4, 0, -1, 5, 0, -1, -1});
  CHECK(batch.count == 9);
  CHECK(dataset.batch(std::vector<std::int64_t>{0}).inputs.shape() == Shape{1, 2});
  CHECK_THROWS_AS(dataset.batch(std::vector<std::int64_t>{3}), std::invalid_argument);
  CHECK_THROWS_AS(dataset.name(-1), std::invalid_argument);
  CHECK_THROWS_AS(NameDataset({}), std::invalid_argument);
}

TEST_CASE_FIXTURE(
    TemporaryFolder,
    "load_names: trims, skips empty lines, and keeps repeated names unless told otherwise") {
  const std::string path =
      write("names.txt",
            "emma\r\n  olivia\t\n\n   \nava\nemma\nzoë\numa\nida\nada\nlea\nmia\nemma\nnoor");
  const NameList list = load_names(path);
  CHECK(list.names == Strings{"emma", "olivia", "ava", "emma", "zoë", "uma", "ida", "ada", "lea",
                              "mia", "emma", "noor"});
  CHECK(list.longest == 6);
  const NameList distinct = load_names(path, true);
  CHECK(distinct.names.size() == 10);
  CHECK(std::ranges::count(distinct.names, "emma") == 1);
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "split_names: with data.rules = 1 the seed chooses the test split") {
  const NameList list = load_names(write("names.txt", numbered(300)));
  const CharVocabulary vocabulary = name_vocabulary(list);
  const auto held_back = [&](const NameOptions& options) {
    return names_of(split_names(list, vocabulary, options).test, vocabulary);
  };
  const NameSplits splits = split_names(list, vocabulary, {.held_back = 25, .seed = 1, .rules = 1});
  CHECK(splits.train.size() == 275);
  CHECK(splits.test.size() == 25);
  std::multiset<std::string> all = names_of(splits.train, vocabulary);
  all.merge(names_of(splits.test, vocabulary));
  CHECK(all == std::multiset<std::string>(list.names.begin(), list.names.end()));
  CHECK(held_back({.held_back = 25, .seed = 1, .rules = 1}) == names_of(splits.test, vocabulary));
  CHECK(held_back({.held_back = 25, .seed = 2, .rules = 1}) != names_of(splits.test, vocabulary));
  CHECK(held_back({.rules = 1}).size() == 30);  // a tenth, not 1000
  CHECK_ERROR(held_back({.held_back = 0}), "0 names for testing; expected at least 1");
  CHECK_ERROR(split_names(list, CharVocabulary::of_text("n012345678"), {}), "names.txt: 'n", "'9'");
}

TEST_CASE_FIXTURE(TemporaryFolder, "load_names: errors name file and line") {
  const auto load = [&](const std::string& content, bool distinct = false) {
    write("names.txt", content);
    return message_of([&] { load_names(path("names.txt"), distinct); });
  };
  CHECK(load(numbered(10)).empty());
  check_says(load(""), {"names.txt", "at least 10 names", "found 0", "one per line"});
  check_says(load(numbered(9)), {"at least 10 names", "found 9"});
  check_says(load(numbered(9) + "n0\n", true), {"10 distinct names", "found 9"});
  check_says(load("eva\n\n" + std::string(257, 'x')), {"names.txt: line 3", "257", "256"});
  check_says(load("eva\nZo\xEB\n"), {"names.txt", "line 2", "UTF-8"});
  CHECK_ERROR(load_names(path("none.txt")), "none.txt", "No such file");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "names: a model writes one name per line, independent of the earlier ones") {
  write("names.txt", numbered(300));
  const auto run = [&](const Strings& words) {
    return tapestry_run(with_sets(words), {.folder = path()});
  };
  const Strings small = {"model.layers=1",          "model.width=16",  "model.context=5",
                         "model.dropout=0",         "train.steps=200", "train.batch_size=16",
                         "optim.learning_rate=1e-2"};
  for (const std::string kind : {"transformer", "recurrent"}) {
    Strings words = {
        "train", "names", "--quiet", "--out", kind, "data.path=names.txt", "model.kind=" + kind};
    words.insert(words.end(), small.begin(), small.end());
    if (kind == "transformer") words.push_back("model.heads=1");
    REQUIRE(run(words).status == 0);
    const Strings invented = lines_of(run({"sample", kind}).out);
    CHECK(invented.size() == 20);
    CHECK(std::ranges::count_if(invented, [](const std::string& name) {
            return name.starts_with("n") && name.size() >= 2 && name.size() <= 4;
          }) > 10);
    const Finished begun = run({"sample", kind, "--prompt", "n1", "--count", "3", "--seed", "2"});
    CHECK(lines_of(begun.out).size() == 3);
    for (const std::string& name : lines_of(begun.out)) CHECK(name.starts_with("n1"));
    CHECK(run({"eval", kind, "--json"}).status == 0);
  }
  const Finished longer = run({"train", "names", "data.path=names.txt", "model.context=4"});
  check_fails(longer,
              {"model.context = 4", "a name of 4 characters; expected a context of at least 5"});
  check_fails(run_here("train names", RunOptions{.folder = path()}),
              {"there is no text", "karpathy/makemore"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
