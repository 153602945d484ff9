#include <doctest/doctest.h>

#include <set>

#include "data/option_error.hpp"
#include "data/text/labeled_text_dataset.hpp"
#include "data/text/labeled_texts.hpp"
#include "data/toys/match_reports.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

using Labels = std::vector<std::int32_t>;

// Returns the texts of a split with the names of their classes: "praise: So good!".
std::multiset<std::string> with_classes(const LabeledTexts& split, const Strings& classes) {
  std::multiset<std::string> all;
  for (std::size_t i = 0; i < split.texts.size(); ++i)
    all.insert(classes.at(split.labels[i]) + ": " + split.texts[i]);
  return all;
}

// Returns the texts of all splits of a path.
std::multiset<std::string> read_all(const std::string& path,
                                    const LabeledTextOptions& options = {}) {
  const LabeledSplits found = load_labeled_texts(path, options);
  std::multiset<std::string> all = with_classes(found.train, found.options.classes);
  all.merge(with_classes(found.validation, found.options.classes));
  all.merge(with_classes(found.test, found.options.classes));
  return all;
}

// Returns the option of the OptionError and its message; "" for another error or none.
std::string option_of(const std::string& path, const LabeledTextOptions& options = {}) {
  try {
    load_labeled_texts(path, options);
  } catch (const OptionError& error) {
    return error.option + ": " + error.what();
  } catch (const InputError&) {
  }
  return "";
}

TEST_SUITE_BEGIN("labeled texts");

TEST_CASE_FIXTURE(TemporaryFolder, "labeled texts: five formats give the same examples") {
  const std::multiset<std::string> expected = {"blame: So \"bad\", ä 🎉", "blame: never again",
                                               "praise: So good!", "praise: again, again"};
  const std::string tsv =
      "So good!\tpraise\r\n\nSo \"bad\", ä 🎉\tblame\nagain, again\tpraise\n"
      "never again\tblame\n";
  write("a.jsonl",
        "{\"text\": \"So good!\", \"label\": \"praise\"}\r\n\n"
        "{\"id\": 7, \"label\": \"blame\", \"text\": \"So \\\"bad\\\", ä 🎉\"}\n"
        "{\"text\": \"again, again\", \"label\": \"praise\"}\n"
        "{\"text\": \"never again\", \"label\": \"blame\"}");
  write("plain.tsv", tsv);
  write("header.tsv",
        "\xEF\xBB\xBFid\ttext\tlabel\n1\tSo good!\tpraise\n"
        "2\t\"So \"\"bad\"\", ä 🎉\"\tblame\n3\tagain, again\tpraise\n"
        "4\tnever again\tblame\n");
  write("lines.txt",
        "__label__praise So good!\r\n__label__blame\tSo \"bad\", ä 🎉\n"
        "__label__praise again, again\n__label__blame never again\n");
  write("packed.tsv.gz", gzip(tsv));
  write("plain.csv",
        "praise,So good!\nblame,\"So \"\"bad\"\", ä 🎉\"\r\npraise , \"again, again\"\n"
        "blame,never again\n");
  write("header.csv",
        "text;id;label\nSo good!;1;praise\n\"So \"\"bad\"\", ä 🎉\";2;blame\n"
        "again, again;\"3;\n\n4\";praise\nnever again;5;blame\n");
  for (const char* file : {"a.jsonl", "plain.tsv", "header.tsv", "lines.txt", "packed.tsv.gz",
                           "plain.csv", "header.csv"}) {
    CAPTURE(file);
    CHECK(read_all(path(file)) == expected);
  }
  CHECK(load_labeled_texts(path("header.tsv")).options.label_column == 3);
  CHECK(load_labeled_texts(path("plain.tsv")).options.label_column == 2);
  CHECK(load_labeled_texts(path("plain.csv")).options.label_column == 1);
  for (const auto& [name, text] : {std::pair{"praise/1", "So good!"},
                                   {"praise/2", "again, again"},
                                   {"blame/1", "So \"bad\", ä 🎉"},
                                   {"blame/2", "never again"}})
    write(fmt::format("folder/{}.txt", name), text);
  CHECK(read_all(path("folder")) == expected);
  CHECK(load_labeled_texts(path("folder")).options.format == LabeledFormat::folder);
  CHECK(looks_labeled(path("folder")));
  CHECK(!looks_labeled(path("folder/blame")));
  CHECK(looks_labeled(path("a.jsonl")));
}

TEST_CASE_FIXTURE(TemporaryFolder, "labeled texts: cells of a CSV may have several lines") {
  write("lines.csv",
        "label,text\n1,\"So good!\n\n\"\"Again\"\", he said.\"\n2,5\" "
        "wide\n1,\"\"\"Never.\"\"\"\n2,x\n");
  CHECK(read_all(path("lines.csv")) ==
        std::multiset<std::string>{"1: So good!\n\n\"Again\", he said.", "2: 5\" wide",
                                   "1: \"Never.\"", "2: x"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "labeled texts: have splits and classes, and say what was left out") {
  std::string many;
  for (int i = 0; i < 40; ++i) many += fmt::format("{}\ttext {}\n", i % 4 == 0 ? 10 : 9, i);
  const LabeledSplits divided =
      load_labeled_texts(write("many.tsv", many + "9\t \n"), {.validation_share = 0.2, .rules = 1});
  CHECK(divided.is_divided);
  CHECK(divided.empty.count == 1);
  CHECK(divided.options.label_column == 1);
  CHECK(divided.options.classes == Strings{"9", "10"});  // by value
  CHECK(divided.train.texts.size() == 32);
  CHECK(std::ranges::count(divided.validation.labels, 1) == 2);
  CHECK(std::ranges::count(divided.validation.labels, 0) == 6);
  write("files/train.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": true}");
  write("files/val.jsonl", "{\"text\": \"c\", \"label\": 1}");
  write("files/test.jsonl", "{\"text\": \"d\", \"label\": \"true\"}");
  write("files/notes.md", "of another kind");
  const LabeledSplits files = load_labeled_texts(path("files"));
  CHECK(!files.is_divided);
  CHECK(files.options.classes == Strings{"1", "true"});
  CHECK(files.test.labels == Labels{1});
  CHECK(load_labeled_texts(path("files"), {.classes = {"true", "1"}}).test.labels == Labels{0});
  write("files/valid.jsonl", "");
  CHECK_ERROR(load_labeled_texts(path("files")), "is the same split as");
}

TEST_CASE_FIXTURE(TemporaryFolder, "labeled texts: errors name file and line") {
  const auto says = [&](const std::string& name, const std::string& content,
                        const LabeledTextOptions& options = {}) {
    write(name, content);
    return message_of([&] { load_labeled_texts(path(name), options); });
  };
  const auto option = [&](const std::string& name, const std::string& content,
                          const LabeledTextOptions& options = {}) {
    return option_of(write(name, content), options);
  };
  const std::string two = "{\"text\": \"a\", \"label\": \"x\"}\n";
  check_says(says("a.jsonl", two + "{"), {"a.jsonl: line 2: not JSON"});
  check_says(says("a.jsonl", two + "{\"text\": 1, \"label\": \"x\"}"),
             {"line 2", "\"text\" is 1; expected a text"});
  check_says(says("a.jsonl", two + "{\"text\": \"\", \"label\": 1.5}"),
             {"line 2: the label is 1.5; expected a text, an integer"});
  check_says(says("a.jsonl", two + "{\"text\": \"b\", \"label\": \" \"}"),
             {"line 2: the label is empty"});
  check_says(says("a.jsonl", two + "{\"text\": \"b\", \"label\": \"\\u0007\"}"),
             {"line 2: label \"\\x07\": expected at most 256 bytes without control characters"});
  check_says(says("a.jsonl", fmt::format("{{\"text\": \"{}\", \"label\": 1}}",
                                         std::string((1 << 20) + 1, 'x'))),
             {"line 1: the text has 1048577 bytes; expected at most 1048576"});
  check_says(
      option("a.jsonl", two + "{\"sentence\": \"a\", \"label\": \"x\"}"),
      {"text_field: ", "line 2: the field \"text\" is missing; found \"label\", \"sentence\""});
  check_says(option("a.jsonl", two, {.label_field = "class"}), {"label_field: ", "\"class\""});
  check_says(option("a.tsv", "text\tkind\na\tx\n"),
             {"label_field: ", "no column is named label, class, target", "kind (1 different"});
  check_says(option("a.tsv", "text\tclass\na\tx\n", {.rules = 1}),
             {"label_field: ", "line 1: no column is named label; found text, class"});
  check_says(says("a.tsv", "a\tx\nb\ty\tz\n"), {"a.tsv: line 2: has 3 columns, expected 2"});
  check_says(option("a.tsv", "a\tx\nb\ty\n"),
             {"text_field: ", "no column is named text or has several words; found a, x"});
  check_says(option("a.tsv", "a\tx\nb\ty\n", {.rules = 1}),
             {"label_column: ", "each of the two columns has 2 different values"});
  CHECK(option("a.tsv", "a\tx\nb\ty\nc\ty\nd\tx\n", {.label_column = 2}).empty());
  std::string headed = "review\tsentiment\n";
  for (int i = 0; i < 30; ++i) headed += fmt::format("text {}\t{}\n", i, i % 2);
  check_says(option("a.tsv", headed, {.rules = 1}),
             {"label_field: ", "line 1: no other line has the label \"sentiment\"; if this line"});
  check_says(option("a.txt", "nothing\n"),
             {"format: ", "line 1: found \"nothing\"; expected a JSON"});
  check_says(says("a.txt", "__label__x a\nb\n"), {"line 2: found \"b\"; expected __label__NAME"});
  check_says(says("a.txt", "__label__x __label__y a\n"), {"line 1: has more than one label"});
  check_says(says("open.csv", "text,label\na,x\n\"b,y\nc,x\n"),
             {"open.csv: line 3: ", "the closing quote is missing"});
  check_says(says("comma.csv", "text,label\na, b,x\n"),
             {"comma.csv: line 2: has 3 columns, expected 2; write a text with commas in quotes"});
  check_says(says("a.txt", "\n \n"),
             {"a.txt: has no labeled text; expected a text and a label per line"});
  check_says(says("a.txt", "__label__x\n__label__y\t\n"), {"a.txt: all texts are empty"});
  check_says(option("a.txt", "__label__x a\n"),
             {"validation_fraction: leaves 1 texts for training and 0"});
  write("splits/train.tsv", "a\tx\nb\ty\nc\tx\nd\ty\n");
  write("splits/test.tsv", "text\tlabel\ne\tz\n");
  check_says(option_of(path("splits")),
             {"class_names: ", "test.tsv: line 2: label \"z\" is not one of the classes x, y"});
  check_says(option_of(path("a.txt"), {.format = LabeledFormat::folder}), {"format: "});
  std::string all;
  for (int i = 0; i < 1001; ++i) all += fmt::format("__label__{} a\n", i);
  check_says(option("a.txt", all), {"label_field: ", "1001 different labels, such as \"0\""});
  CHECK_ERROR(load_labeled_texts(path("none")), "none", "No such file");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: tables: finding a line took time as all lines before") {
  std::string text = "text,label\r\n";  // with the fault, this file takes minutes
  for (int i = 0; i < 200000; i += 2) text += fmt::format("{},a\r\n\"{}\ragain\",b\r\n", i, i + 1);
  const std::string path = write("rows.csv", text);
  const LabeledSplits splits = load_labeled_texts(path, {});
  CHECK(splits.train.texts.size() + splits.validation.texts.size() == 200000);
  CHECK_THROWS_WITH_AS(
      load_labeled_texts(write("more.csv", text + "same," + std::string(300, 'x') + "\r\n"), {}),
      doctest::Contains("more.csv: line 300002: "), InputError);
}

TEST_CASE("LabeledTextDataset: rows are padded to the longest") {
  const LabeledTextDataset texts({{5, 6, 7}, {8}, {9, 9}}, {1, 0, 1}, 10);
  const Batch batch = texts.batch(std::vector<std::int64_t>{1, 2});
  CHECK(ints_of(batch.inputs) == Labels{8, 10, 9, 9});
  CHECK(ints_of(batch.targets) == Labels{0, 1});
  CHECK(batch.count == 2);
  CHECK(texts.lengths() == std::vector<std::int64_t>{3, 1, 2});
  CHECK_THROWS_AS(texts.batch(std::vector<std::int64_t>{3}), std::invalid_argument);
  CHECK_THROWS_AS(LabeledTextDataset({}, {}, 0), std::invalid_argument);
  CHECK_THROWS_AS(LabeledTextDataset({{1}, {}}, {0, 0}, 0), std::invalid_argument);
}

TEST_CASE("match reports: verb and order determine the winner, and splits share no sentence") {
  const LabeledTexts train = make_match_reports({.examples = 2000, .seed = 1});
  const LabeledTexts validation =
      make_match_reports({.examples = 500, .seed = 2, .split = Split::validation});
  const Strings teams = match_report_classes();
  const std::set<std::string> trained(train.texts.begin(), train.texts.end());
  for (const std::string& text : validation.texts) CHECK(!trained.contains(text));
  std::vector<int> wins(teams.size());
  for (std::size_t i = 0; i < train.texts.size(); ++i) {
    const std::string text = train.texts[i].substr(train.texts[i].find(", "));
    const bool first_wins = text.find(" beat ") != text.npos || text.find(" won ") != text.npos ||
                            text.find(" defeated ") != text.npos ||
                            text.find(" overcame ") != text.npos;
    const std::string& winner = teams[train.labels[i]];
    CHECK(first_wins == text.starts_with(", " + winner + " "));
    CHECK(text.find(" " + winner + " ") != text.npos);
    ++wins[train.labels[i]];
  }
  for (const int count : wins) CHECK(count > 550);
  CHECK(make_match_reports({.examples = 3, .seed = 1}).texts[2] == train.texts[2]);
  CHECK_THROWS_AS(make_match_reports({.examples = 0}), OptionError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
