#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/graphs/node_tables.hpp"
#include "data/images/picture_folder.hpp"
#include "data/option_error.hpp"
#include "data/text/labeled_texts.hpp"
#include "data/text/names.hpp"
#include "data/validation_split.hpp"
#include "tests/support/process.hpp"

// Tests the random splits of data.rules = 2.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("validation split");

using Hashes = std::vector<std::uint64_t>;

// Returns the hashes of "0" to "<count - 1>".
Hashes numbered_hashes(std::int64_t count) {
  Hashes hashes;
  for (std::int64_t i = 0; i < count; ++i) hashes.push_back(text_hash(fmt::to_string(i)));
  return hashes;
}

// Returns the split of each example: 0, 1 or 2.
std::vector<int> splits_of(const HeldExamples& held, std::size_t examples) {
  std::vector<int> splits(examples);
  for (const std::int64_t i : held.validation) splits[i] = 1;
  for (const std::int64_t i : held.test) splits[i] = 2;
  return splits;
}

TEST_CASE("divide_by_hash: splits are intervals of the hash, with the shares on average") {
  const Hashes hashes = numbered_hashes(20'000);
  const HeldExamples held = divide_by_hash(hashes, {}, {.validation = 0.1, .test = 0.2});
  CHECK(std::abs(std::ssize(held.validation) - 2000) < 4 * 43);  // four deviations
  CHECK(std::abs(std::ssize(held.test) - 4000) < 4 * 57);
  CHECK(held.moved == 0);
  CHECK(std::ranges::is_sorted(held.validation));
  CHECK(std::ranges::is_sorted(held.test));
  const std::vector<int> splits = splits_of(held, hashes.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const double place = static_cast<double>(mix(hashes[i])) * 0x1p-64;
    CHECK(splits[i] == (place < 0.1 ? 1 : place < 0.3 ? 2 : 0));
  }
  // A larger share contains every smaller one, and a share of 0 gives no split.
  const HeldExamples more = divide_by_hash(hashes, {}, {.validation = 0.15});
  CHECK(std::ranges::includes(more.validation, held.validation));
  CHECK(more.test.empty());
  CHECK(divide_by_hash(hashes, {}, {.validation = 0}).validation.empty());
  CHECK(divide_by_hash({}, {}, {}).validation.empty());
}

TEST_CASE(
    "divide_by_hash: order and other examples do not matter, and equal examples stay together") {
  const Hashes all = numbered_hashes(301);
  const Hashes fewer(all.begin(), all.end() - 1), reversed(all.rbegin(), all.rend());
  const SplitShares shares{.validation = 0.2, .test = 0.2};
  const std::vector<int> splits = splits_of(divide_by_hash(all, {}, shares), all.size());
  std::vector<int> backwards = splits_of(divide_by_hash(reversed, {}, shares), all.size());
  std::ranges::reverse(backwards);
  CHECK(splits == backwards);
  std::vector<int> before = splits_of(divide_by_hash(fewer, {}, shares), fewer.size());
  before.push_back(splits.back());
  CHECK(splits == before);
  Hashes twice = all;
  twice.insert(twice.end(), all.begin(), all.end());
  std::vector<int> doubled = splits;
  doubled.insert(doubled.end(), splits.begin(), splits.end());
  CHECK(splits_of(divide_by_hash(twice, {}, shares), twice.size()) == doubled);
}

TEST_CASE("divide_by_hash: a split that lacks a small class gets its lowest hash") {
  // Sorted by mixed hash.
  Hashes hashes = numbered_hashes(400);
  std::ranges::sort(hashes, {}, mix);
  const auto splits = [&](const std::vector<std::size_t>& chosen, const SplitShares& shares,
                          std::int64_t moved) {
    Hashes few;
    for (const std::size_t i : chosen) few.push_back(hashes[i]);
    const HeldExamples held = divide_by_hash(few, std::vector<std::int32_t>(few.size()), shares);
    CHECK(held.moved == moved);
    return splits_of(held, few.size());
  };
  const SplitShares both{.validation = 0.1, .test = 0.1}, one{.validation = 0.1};
  using Splits = std::vector<int>;
  CHECK(splits({399}, both, 0) == Splits{0});
  CHECK(splits({0}, both, 1) == Splits{0});  // a single example is in training
  CHECK(splits({398, 399}, one, 1) == Splits{1, 0});
  CHECK(splits({0, 1}, one, 1) == Splits{0, 1});  // the lowest one is in the split without one
  CHECK(splits({398, 399}, both, 1) == Splits{1, 0});
  CHECK(splits({0, 60}, both, 2) == Splits{0, 1});
  CHECK(splits({397, 398, 399}, both, 2) == Splits{1, 2, 0});
  CHECK(splits({0, 1, 2}, both, 2) == Splits{0, 2, 1});
  CHECK(splits({60, 398, 399}, both, 2) == Splits{1, 2, 0});
  CHECK(splits({399, 399, 399}, both, 0) == Splits{0, 0, 0});  // equal examples count once
  CHECK(splits({398, 399, 398}, one, 1) == Splits{1, 0, 1});
}

TEST_CASE(
    "divide_by_hash: each class of three or more is in all splits, and each class in training") {
  for (std::int64_t size = 1; size < 60; ++size) {
    const Hashes hashes = numbered_hashes(size * 5);
    std::vector<std::int32_t> labels;  // few and many examples
    for (std::int64_t i = 0; i < size * 5; ++i)
      labels.push_back(static_cast<std::int32_t>(i % 5 == 0 ? i : i % 5));
    const std::vector<int> splits =
        splits_of(divide_by_hash(hashes, labels, {.validation = 0.1, .test = 0.1}), hashes.size());
    std::map<std::int32_t, std::multiset<int>> classes;
    for (std::size_t i = 0; i < labels.size(); ++i) classes[labels[i]].insert(splits[i]);
    for (const auto& [label, found] : classes)
      for (int split = 0; split < 3; ++split)
        CHECK(found.contains(split) == (split < std::ssize(found)));
  }
}

TEST_CASE(
    "divide_by_hash: equal examples of several classes stay together, and each class is in "
    "training") {
  const Hashes hashes = {7, 7, 8, 9};
  for (const std::vector<std::int32_t>& labels :
       {std::vector<std::int32_t>{0, 1, 0, 1}, std::vector<std::int32_t>{1, 0, 0, 0}}) {
    const std::vector<int> splits =
        splits_of(divide_by_hash(hashes, labels, {.validation = 0.1}), hashes.size());
    CHECK(splits[0] == splits[1]);
    for (const std::int32_t label : labels) {
      bool is_trained = false;
      for (std::size_t i = 0; i < labels.size(); ++i)
        is_trained |= labels[i] == label && splits[i] == 0;
      CHECK(is_trained);
    }
  }
}

// --- readers: an added example moves no other, and equal ones stay together ---

using Place = std::map<std::string, int>;  // split by example

// Checks that `after` has the splits of `before` and one more example.
void check_one_more(const Place& before, const Place& after) {
  CHECK(after.size() == before.size() + 1);
  for (const auto& [example, split] : before) CHECK(after.at(example) == split);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: an added name moved others between the splits") {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("n{}\n", i);
  const auto splits = [&](const std::string& content, std::int64_t held_back, std::uint64_t seed) {
    const NameList list = load_names(write("names.txt", content));
    const CharVocabulary vocabulary = name_vocabulary(list);
    const NameSplits read = split_names(list, vocabulary, {.held_back = held_back, .seed = seed});
    Place place;
    for (const auto& [split, names] : {std::pair(0, &read.train), std::pair(1, &read.test)})
      for (std::int64_t i = 0; i < names->size(); ++i) {
        const std::string name = vocabulary.decode(names->name(i));
        CHECK(place.emplace(name, split).first->second ==
              split);  // a repeated name has the split of the first
      }
    return place;
  };
  for (const std::int64_t held_back : {5, 1000}) {
    const Place before = splits(lines, held_back, 1);
    CHECK(before == splits(lines, held_back, 2));
    check_one_more(before, splits("new\n" + lines, held_back, 1));
    CHECK(before == splits(lines + lines.substr(0, 40), held_back, 1));
    const std::int64_t held =
        std::ranges::count(before, 1, [](const auto& one) { return one.second; });
    CHECK(held >= (held_back == 5 ? 1 : 8));
    CHECK(held <= (held_back == 5 ? 14 : 34));
  }
  const NameList same =
      load_names(write("same.txt", "eva\neva\neva\neva\neva\neva\neva\neva\neva\neva\n"));
  CHECK_ERROR(split_names(same, name_vocabulary(same)),
              "same.txt: all names are \"eva\"; expected different ones");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: an added labeled text moved others between the splits") {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += fmt::format("{}\ttext {}\n", i % 3, i);
  const auto splits = [&](const std::string& content) {
    const LabeledSplits read = load_labeled_texts(write("texts.tsv", content));
    Place place;
    for (const auto& [split, texts] : {std::pair(0, &read.train), std::pair(1, &read.validation)})
      for (const std::string& text : texts->texts)
        CHECK(place.emplace(text, split).first->second == split);
    return place;
  };
  const Place before = splits(lines);
  check_one_more(before, splits("1\tnew\n" + lines));
  CHECK(before == splits(lines + lines.substr(0, lines.size() / 2)));

  const LabeledSplits small =
      load_labeled_texts(write("small.tsv", lines + "few\tone more\nfew\tanother\n"));
  CHECK(std::ranges::count(small.validation.labels, 3) == 1);
  CHECK(std::ranges::count(small.train.labels, 3) == 1);
  CHECK(small.moved == 1);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: an added node moved others between the splits") {
  std::string lines, edges = "source,target\n";
  for (int i = 0; i < 200; ++i) {
    lines += fmt::format("n{},{},{}\n", i, i % 7, i % 3);
    edges += fmt::format("n{},n{}\n", i, (i * 7 + 1) % 200);
  }
  write("edges.csv", edges);
  const auto splits = [&](const std::string& content) {
    write("nodes.csv", "id,size,label\n" + content);
    const NodeGraph graph = load_node_tables(path(), detect_node_tables(path())).graph;
    Place place;
    for (const auto& [split, nodes] : {std::pair(0, &graph.training),
                                       std::pair(1, &graph.validation), std::pair(2, &graph.test)})
      for (const std::int64_t node : *nodes) place[graph.names[node]] = split;
    return place;
  };
  const Place before = splits(lines);
  check_one_more(before, splits("new,1,2\n" + lines));
  for (int split = 0; split < 3; ++split)
    CHECK(std::ranges::count(before, split, [](const auto& one) { return one.second; }) > 20);

  // A column of splits without validation: the training nodes are divided.
  write("nodes.csv", "id,label,split\nn0,a,test\nn1,a,train\nn2,a,train\nn3,b,train\nn4,b,train\n");
  write("edges.csv", "source,target\nn0,n1\n");
  const NodeTables few = load_node_tables(path(), detect_node_tables(path()));
  CHECK(few.graph.validation.size() == 2);
  CHECK(few.graph.training.size() == 2);
  CHECK(few.graph.test == std::vector<std::int64_t>{0});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: an added picture moved others between the splits") {
  for (int i = 0; i < 200; ++i) write(fmt::format("a/{}/{}.png", i % 3, i), "");
  const auto splits = [&](const std::string& folder) {
    PictureFolder listed = list_pictures(path(folder));
    divide_pictures(listed, {});
    Place place;
    for (const auto& [split, files] :
         {std::pair(0, &listed.train), std::pair(1, &listed.validation)})
      for (const PictureFolder::File& file : *files)
        place[file.path.substr(path(folder).size())] = split;
    return place;
  };
  const Place before = splits("a");
  write("a/0/00.png", "");
  check_one_more(before, splits("a"));
  fs::rename(path("a"), path("moved"));  // paths below the folder count
  check_one_more(before, splits("moved"));

  PictureFolder one{.path = "f", .classes = {"all"}, .train = {{"f/a.png", 0}}};
  CHECK_ERROR(divide_pictures(one, {}), "leaves 1 pictures for training and 0");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
