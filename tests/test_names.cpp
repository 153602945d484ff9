#include <doctest/doctest.h>

#include <set>

#include "data/names.hpp"
#include "tests/process.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens values_of(const Array& array) {
  const auto values = array.values<std::int32_t>();
  return {values.begin(), values.end()};
}

std::multiset<std::string> names_of(const NameDataset& dataset) {
  std::multiset<std::string> names;
  for (std::int64_t i = 0; i < dataset.size(); ++i) names.insert(dataset.name(i));
  return names;
}

// "n0" to "n<count - 1>", one a line.
std::string numbered(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += fmt::format("n{}\n", i);
  return lines;
}

TEST_SUITE_BEGIN("names");

TEST_CASE("NameDataset: each name begins and ends with 0") {
  const auto list = std::make_shared<const NameList>(
      NameList{{"ada", "bo", "é"}, CharVocabulary::of_text("abdoé"), 3});
  const NameDataset dataset(list, {2, 0, 1});
  CHECK(dataset.size() == 3);
  CHECK(dataset.name(0) == "é");
  CHECK(dataset.vocabulary_size() == 6);
  CHECK(dataset.context() == 4);
  const Batch batch = dataset.batch(std::vector<std::int64_t>{1, 2, 0});
  CHECK(batch.inputs.shape() == Shape{3, 4});
  CHECK(values_of(batch.inputs) == Tokens{0, 1, 3, 1, 0, 2, 4, 0, 0, 5, 0, 0});
  CHECK(values_of(batch.targets) == Tokens{1, 3, 1, 0, 2, 4, 0, -1, 5, 0, -1, -1});
  CHECK(batch.count == 9);
  CHECK(dataset.batch(std::vector<std::int64_t>{0}).inputs.shape() == Shape{1, 2});
  CHECK(dataset.encode("bad") == Tokens{2, 1, 3});
  CHECK(dataset.decode(Tokens{2, 1, 3, 0, 1}) == "bad");
  check_says(message_of([&] { dataset.encode("zo"); }), {"byte 0", "'z'"});
  CHECK_THROWS_AS(dataset.batch(std::vector<std::int64_t>{3}), std::invalid_argument);
  CHECK_THROWS_AS(NameDataset(list, {3}), std::invalid_argument);
  CHECK_THROWS_AS(NameDataset(list, {}), std::invalid_argument);
}

TEST_CASE("load_names: trimmed, without empty lines, with the repeats unless told otherwise") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "names.txt",
      "emma\r\n  olivia\t\n\n   \nava\nemma\nzoë\numa\nida\nada\nlea\nmia\nemma\nnoor");
  const NameSplits splits = load_names(path);
  CHECK(splits.train.size() == 11);
  CHECK(splits.test.size() == 1);
  std::multiset<std::string> all = names_of(splits.train);
  all.merge(names_of(splits.test));
  CHECK(all == std::multiset<std::string>{"ada", "ava", "emma", "emma", "emma", "ida", "lea", "mia",
                                          "noor", "olivia", "uma", "zoë"});
  CHECK(splits.test.context() == 7);
  CHECK(splits.test.characters().symbols() == splits.train.characters().symbols());
  const NameSplits distinct = load_names(path, {.distinct = true});
  CHECK(distinct.train.size() + distinct.test.size() == 10);
  CHECK(names_of(distinct.train).count("emma") + names_of(distinct.test).count("emma") == 1);
}

TEST_CASE("load_names: which names are held back is chosen by the seed") {
  const TemporaryFolder folder;
  const std::string path = folder.write("names.txt", numbered(300));
  const NameSplits splits = load_names(path, {.held_back = 25, .seed = 1});
  CHECK(splits.train.size() == 275);
  CHECK(splits.test.size() == 25);
  std::multiset<std::string> all = names_of(splits.train);
  for (const std::string& name : names_of(splits.test)) CHECK(!all.contains(name));
  CHECK(names_of(splits.test) == names_of(load_names(path, {.held_back = 25, .seed = 1}).test));
  CHECK(names_of(splits.test) != names_of(load_names(path, {.held_back = 25, .seed = 2}).test));
  CHECK(load_names(path).test.size() == 30);  // a tenth, not 1000
}

TEST_CASE("load_names: what is wrong, in which file and line") {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& content, const NameOptions& options = {}) {
    folder.write("names.txt", content);
    return message_of([&] { load_names(folder.path("names.txt"), options); });
  };
  CHECK(load(numbered(10)).empty());
  check_says(load(""), {"names.txt", "at least 10 words", "found 0", "one word a line"});
  check_says(load(numbered(9)), {"at least 10 words", "found 9"});
  check_says(load(numbered(9) + "n0\n", {.distinct = true}), {"10 distinct words", "found 9"});
  check_says(load("eva\n\n" + std::string(257, 'x')), {"names.txt: line 3", "257", "256"});
  check_says(load("eva\nZo\xEB\n"), {"names.txt", "line 2", "UTF-8"});
  check_says(load(numbered(10), {.held_back = 0}), {"data.held_back = 0"});
  check_says(message_of([&] { load_names(folder.path("none.txt")); }),
             {"none.txt", "No such file"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
