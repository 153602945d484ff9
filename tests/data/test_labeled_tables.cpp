#include <doctest/doctest.h>

#include "data/option_error.hpp"
#include "data/text/labeled_texts.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

// Labeled texts in a table, and what it is read as.
struct TableFixture : TemporaryFolder {
  // Returns the rows, a line each.
  static std::string rows(int count, const std::function<std::string(int)>& row) {
    std::string all;
    for (int i = 0; i < count; ++i) all += row(i) + "\n";
    return all;
  }
  static std::string words(int i) { return fmt::format("a film of {} minutes", i); }
  // Returns "text, label: classes", or the option and the message of an error.
  std::string read(const std::string& name, const std::string& content,
                   LabeledTextOptions options = {}) {
    write(name, content);
    options.explains = true;
    try {
      found = load_labeled_texts(path(name), options);
    } catch (const OptionError& error) {
      return error.option + ": " + error.what();
    } catch (const InputError& error) {
      return error.what();
    }
    return fmt::format("{}, {}: {}", found.options.text_field, found.options.label_field,
                       fmt::join(found.options.classes, " "));
  }
  std::int64_t texts() const {
    return std::ssize(found.train.texts) + std::ssize(found.validation.texts) +
           std::ssize(found.test.texts);
  }

  // Returns what a column is taken for.
  std::string used(const std::string& column) const {
    for (const ColumnUse& one : found.columns)
      if (one.name == column) return one.use;
    return "";
  }

  LabeledSplits found{};
};

TEST_SUITE_BEGIN("labeled tables");

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: six columns without header were refused") {
  const std::string content = rows(60, [](int i) {
    return fmt::format("\"{}\",\"{}\",\"NO_QUERY\",\"user {}\",\"{}\"", i % 2 * 4, 1467810369 + i,
                       i % 9, words(i));
  });
  check_says(read("a.csv", content),
             {"label_field: ", "column 1 (2 different values), column 4 (9)"});
  CHECK(read("a.csv", content, {.label_field = "column 1"}) == "column 5, column 1: 0 4");
  CHECK(texts() == 60);
  CHECK(found.options.label_column == 1);
  CHECK(found.options.header == Header::absent);
  CHECK(found.options.delimiter == ',');
  CHECK(read("a.csv", content, {.label_column = 1}) == "column 5, column 1: 0 4");
  CHECK(used("column 1") == "label: numbers, 0 to 4, 2 different");
  CHECK(used("column 5") == "text: texts, 60 different");
  CHECK(read("a.csv", content, found.options) == "column 5, column 1: 0 4");
}

TEST_CASE_FIXTURE(TableFixture, "labeled tables: columns are found by names and cells, or asked") {
  const auto table = [&](const char* header, const auto& row) {
    return read("a.csv", header + ("\n" + rows(60, row)));
  };
  CHECK(table("id,review,Sentiment", [](int i) {
          return fmt::format("{},{},{}", i + 1, words(i), i % 2);
        }) == "review, Sentiment: 0 1");
  CHECK(table("Class Index,Title,Description", [](int i) {
          return fmt::format("{},Title {},\"{},\nand more\"", i % 4 + 1, i, words(i));
        }) == "Description, Class Index: 1 2 3 4");
  CHECK(table("name,language", [](int i) {
          return fmt::format("n{},{}", i, i % 2 ? "de" : "en");
        }) == "name, language: de en");
  check_says(table("text,label,category",
                   [](int i) { return fmt::format("{},{},{}", words(i), i % 2, i % 3); }),
             {"label_field: ", "several columns", "label (2 different values), category (3)"});
  check_says(
      table("comment,stars,lang",
            [](int i) { return fmt::format("{},{},{}", words(i), i % 5, i % 2 ? "a" : "b"); }),
      {"label_field: ", "stars (5 different values), lang (2)"});
  check_says(table("a,b,c", [](int i) { return fmt::format("{},{},{}", i % 7, i % 5, i % 2); }),
             {"text_field: ", "no column is named text or has several words; found a, b, c"});
  check_says(table("a film of no minutes,x",
                   [](int i) { return fmt::format("{},{}", words(i), i % 2 ? "a" : "b"); }),
             {"header: ", "line 1: \"a film of no minutes\" may be the name of a column"});
  // A text below is the name of a column, too.
  CHECK(table("text,label", [](int i) {
          return fmt::format("{},{}", i == 7 ? "text" : words(i), i % 2 ? "a" : "b");
        }) == "text, label: a b");
}

TEST_CASE_FIXTURE(TableFixture, "labeled tables: a row without label is left out and counted") {
  const auto with_labels = [&](const Strings& labels) {
    return "text,label\n" + rows(60, [&](int i) {
             return fmt::format("{},{}", words(i), labels[i % labels.size()]);
           });
  };
  CHECK(read("a.csv", with_labels({"0", "1", "2", "-1", ""})) == "text, label: 0 1 2");
  CHECK(texts() == 36);
  CHECK(found.unlabeled.count == 24);
  CHECK(found.unlabeled.first == "a.csv: line 5");
  CHECK(read("a.csv", with_labels({"-1", "1"})) == "text, label: -1 1");
  CHECK(read("a.csv", with_labels({"none", "joy"})) == "text, label: joy none");
  check_says(read("a.csv", with_labels({"0", "1", "-1"})),
             {"class_names: ", "line 4: column label: -1 beside 0 and 1 may be a class"});
  CHECK(read("a.csv", with_labels({"0", "1", "-1"}), {.classes = {"-1", "0", "1"}}) ==
        "text, label: -1 0 1");
  CHECK(texts() == 60);
  CHECK(read("a.csv", with_labels({"0", "1", "-1"}), {.classes = {"0", "1"}}) ==
        "text, label: 0 1");
  CHECK(texts() == 40);
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: a column split did not divide the rows") {
  const auto table = [&](const Strings& splits) {
    return read("a.csv", "Split,text,kind\n" + rows(60, [&](int i) {
                           return fmt::format("{},{},{}", splits[i % splits.size()], words(i),
                                              i / 4 % 2 ? "a" : "b");
                         }));
  };
  CHECK(table({"train", "train", "dev", "TEST"}) == "text, kind: a b");
  CHECK(found.train.texts.size() == 30);
  CHECK(found.validation.texts.size() == 15);
  CHECK(found.test.texts.size() == 15);
  CHECK(!found.is_divided);
  CHECK(table({"train", "", "valid", "train"}) == "text, kind: a b");
  CHECK(found.unassigned.count == 15);
  check_says(table({"train", "trian"}), {"a.csv: line 3: column Split: \"trian\" is no split"});
}

TEST_CASE_FIXTURE(TableFixture,
                  "labeled tables: quotes in a TSV are text, unless they enclose it") {
  const std::string content = rows(10, [](int i) {
    return fmt::format("\"So\" he said, {} \"a\"\"b\"\t{}\n\"in \"\"quotes\"\" {}\"\t{}", i, i % 2,
                       i, i % 2);
  });
  CHECK(read("a.tsv", content) == "column 1, column 2: 0 1");
  CHECK(texts() == 20);
  CHECK(std::ranges::count(found.train.texts, "\"So\" he said, 3 \"a\"\"b\"") +
            std::ranges::count(found.validation.texts, "\"So\" he said, 3 \"a\"\"b\"") ==
        1);
  CHECK(std::ranges::count(found.train.texts, "in \"quotes\" 3") +
            std::ranges::count(found.validation.texts, "in \"quotes\" 3") ==
        1);
}

TEST_CASE_FIXTURE(TableFixture, "labeled tables: tables of splits have the columns of the first") {
  const std::string lines =
      rows(20, [](int i) { return fmt::format("{},{}", words(i), i % 2 ? "x" : "y"); });
  write("splits/Train.csv", "review,sentiment\n" + lines);
  write("splits/dev.csv", "one review,x\n");
  write("splits/test.csv", "sentiment,review\nx,another one\n");
  const LabeledSplits splits = load_labeled_texts(path("splits"));
  CHECK(splits.validation.texts == Strings{"one review"});
  CHECK(splits.test.texts == Strings{"another one"});
  CHECK(splits.options.text_field.empty());  // the tables differ: they are read as found again
  CHECK(splits.options.header == Header::detected);
}

TEST_CASE_FIXTURE(TableFixture, "bug: labels at the end, and several, were read as a text") {
  check_says(read("a.txt", "a fine film __label__good\n"),
             {"a.txt: line 1: the label \"good\" stands behind the text"});
  check_says(read("a.txt", "a fine film\t__label__good\n"), {"the label \"good\" stands behind"});
  check_says(read("a.txt", "__label__x a\n__label__good a fine film __label__long\n"),
             {"a.txt: line 2: has more than one label, \"good\" and \"long\""});
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled texts: fields of JSONL had to be text and label") {
  const auto objects = [&](const auto& row) { return read("a.jsonl", rows(60, row)); };
  CHECK(objects([](int i) {
          return fmt::format(R"({{"id": {}, "review": "{}", "Sentiment": {}, "stars": {}}})", i,
                             words(i), i % 7 ? fmt::to_string(i % 2) + ".0" : "null", i % 5);
        }) == "review, Sentiment: 0 1");
  CHECK(texts() == 51);
  CHECK(found.unlabeled.count == 9);
  CHECK(found.unlabeled.first == "a.jsonl: line 1");
  CHECK(found.options.label_column == 0);
  CHECK(used("Sentiment") == "label: numbers, 9 missing, 0 to 1, 2 different");
  CHECK(used("id") == "row numbers, left out: numbers, 0 to 59, 60 different");
  CHECK(objects([](int i) {
          return fmt::format(
              R"({{"text": "say \"{}\",\nplease", "label": {}, "split": "{}", "more": ["a"]}})", i,
              i % 4 - 1, i % 3 ? "train" : "dev");
        }) == "text, label: 0 1 2");
  CHECK(texts() == 45);
  CHECK(found.validation.texts.size() == 15);
  CHECK(std::ranges::count(found.train.texts, "say \"1\",\nplease") == 1);
  CHECK(objects([](int i) {
          return fmt::format(R"({{"data": {{"text": "{}"}}, "cats": {{"a": {}, "b": {}}}}})",
                             words(i), i % 2, i % 3);
        }).starts_with("label_field: "));
  CHECK(read("a.jsonl", read_file(path("a.jsonl"), 1 << 20), {.label_field = "cats.b"}) ==
        "data.text, cats.b: 0 1 2");
  check_says(objects([](int i) {
               return fmt::format(R"({{"text": "{}", "label": ["{}"]}})", words(i), i % 2);
             }),
             {"line 1: the label is [\"0\"]; expected a text, an integer, true or false"});
  check_says(objects([](int i) {
               return fmt::format(R"({{"question": "{0}", "answer": "so {0}", "label": {1}}})",
                                  words(i), i % 2);
             }),
             {"text_field: ", "several columns may have the texts: answer, question"});
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled texts: a long first line was not read to its end") {
  const std::string text(10'000, 'x');
  CHECK(looks_labeled(write("a.jsonl", "{\"text\": \"" + text + "\", \"kind\": 1}\n")));
  CHECK(looks_labeled(write("a.tsv", text + " y\ta\n")));
  CHECK(!looks_labeled(write("b.jsonl", "{\"messages\": [], \"label\": \"" + text + "\"}\n")));
  CHECK(has_fasttext_labels(write("a.txt", text + " __label__a\n")));
  CHECK(!has_fasttext_labels(write("b.txt", text + "\nof __label__a\n")));
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: one number in two forms was two classes") {
  const auto with_labels = [&](const Strings& labels, const LabeledTextOptions& options = {}) {
    return read(
        "a.csv",
        "text,label\n" +
            rows(60,
                 [&](int i) { return fmt::format("{},{}", words(i), labels[i % labels.size()]); }),
        options);
  };
  CHECK(with_labels({"0.0", "1", "0", "1.0"}) == "text, label: 0 1");
  CHECK(used("label") == "label: numbers, 0 to 1, 2 different");
  CHECK(found.remarks == Strings{"labels 0.0 and 0 are one class"});
  CHECK(with_labels({"-1.0", "0.0", "1.0"}, {.classes = {"-1", "0", "1"}}) ==
        "text, label: -1 0 1");
  CHECK(texts() == 60);
  CHECK(with_labels({"0.0", "1.0"}) == "text, label: 0.0 1.0");
  CHECK(with_labels({"NA", "joy", "", "anger"}) == "text, label: NA anger joy");
  CHECK(used("label") == "label: texts, 15 missing, 3 different");
  CHECK(found.remarks ==
        Strings{"\"NA\" is a class, with 15 rows; only an empty cell is no label"});
  check_says(
      read("a.csv", "text,label\n" +
                        rows(60, [](int i) { return fmt::format("{},{}", words(i), i % 2); }) +
                        "Total,30\n"),
      {"a.csv: line 62: \"Total\" is a row about the others"});
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: the text was guessed, or not found") {
  const auto table = [&](const char* header, const auto& row) {
    return read("a.csv", header + ("\n" + rows(60, row)));
  };
  check_says(table("subject,message,label",
                   [](int i) { return fmt::format("{},to {},{}", words(i), words(i), i % 2); }),
             {"text_field: ", "several columns may have the texts: subject, message"});
  check_says(
      table("text,text,label", [](int i) { return fmt::format("{0},{0},{1}", words(i), i % 2); }),
      {"text_field: ", "line 1: the columns 1 and 2 are both named text"});
  CHECK(table("story,product",
              [](int i) {
                return fmt::format("{},{}", words(i),
                                   i % 2 ? "loans of money and other services of a bank to a person"
                                         : "reports on persons and how to repair it");
              }) ==
        "story, product: loans of money and other services of a bank to a person "
        "reports on persons and how to repair it");
  CHECK(table("posted,shop,label,review", [](int i) {
          return fmt::format("Mon Apr 06 22:19:{} PDT 2009,{},{},很好不错喜欢{}", i,
                             i % 3 ? "书籍" : "平板", i % 2, i);
        }) == "review, label: 0 1");
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: labeled texts: sets as they are published were refused") {
  const auto text = [](const std::string& name, int i) { return fmt::format("{} {}", name, i); };
  for (const std::string split : {"train", "test"})
    for (int i = 0; i < 12; ++i) {
      for (const std::string name : {"pos", "neg"}) {
        write(fmt::format("imdb/{}/{}/{}_8.txt", split, name, i), text(split + name, i));
        write(fmt::format("news/20news-{}/sci.{}/{}", split, name, 49960 + i),
              text(split + name, i));
        write(fmt::format("upper/{}/{}/{}.TXT", split == "train" ? "Train" : "Test", name, i),
              text(split + name, i));
        write(fmt::format("nested/{}/part {}/{}.txt", name, i % 3, split + std::to_string(i)),
              text(split + name, i));
      }
      write(fmt::format("imdb/train/unsup/{}_0.txt", i), "of no class");
    }
  for (const char* name : {"README", "imdb.vocab", "imdbEr.txt", "train/labeledBow.feat",
                           "train/urls_pos.txt", "test/labeledBow.feat"})
    write(std::string("imdb/") + name, "other");
  write("upper/__MACOSX/Train/pos/._1.TXT", "\xff");
  fs::create_directory(path("around"));
  fs::copy(path("imdb"), path("around/imdb"), fs::copy_options::recursive);
  for (const std::string name : {"imdb", "news", "upper", "nested", "around"}) {
    CAPTURE(name);
    CHECK(looks_labeled(path(name)));
    const LabeledSplits found = load_labeled_texts(path(name));
    CHECK(found.options.classes.size() == 2);
    const bool has_test = name != "nested", is_imdb = name == "imdb" || name == "around";
    CHECK(found.test.texts.size() == (has_test ? 24 : 0));
    CHECK(found.train.texts.size() + found.validation.texts.size() == (has_test ? 24 : 48));
    CHECK(found.unlabeled.count == (is_imdb ? 12 : 0));
    CHECK(found.unused_count == (is_imdb ? 6 : 0));
  }
  write("hashes/spam/1.7c53", "a");
  write("hashes/ham/2.txt", "a");
  CHECK_ERROR(load_labeled_texts(path("hashes")), "spam: contains no texts, but 1.7c53");
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: labeled texts: files and their columns of splits disagreed") {
  std::string train = "text,label,split\n", test = train;
  for (int i = 0; i < 20; ++i) {
    train += fmt::format("a good day {},{},test\n", i, i % 2);
    test += fmt::format("a bad day {},{},test\n", i, i % 2);
  }
  write("both/train.csv", train);
  write("both/test.csv", test);
  CHECK_THROWS_WITH_AS(load_labeled_texts(path("both")),
                       doctest::Contains("train.csv: line 2: the column of splits names another "),
                       InputError);
  for (int i = 0; i < 20; ++i) train += fmt::format("another good day {},{},train\n", i, i % 2);
  write("one/train.csv", train);
  CHECK(load_labeled_texts(path("one")).test.texts.size() == 20);
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: quantities, weeks and pictures were texts") {
  for (const std::string form : {"{}.5 kmpl,{}", "2024-W{:02},{}", "{}.png,{}"}) {
    const std::string found = read("a.csv", "x,label\n" + rows(40, [&](int i) {
                                              return fmt::format(fmt::runtime(form), i + 10, i % 2);
                                            }));
    check_says(found, {"text_field: ", "no column is named text or has several words"});
  }
  CHECK(read("a.csv", "name,label\n" + rows(40, [](int i) {
                        return fmt::format("Ann{},{}", i % 9, i % 2);
                      })) == "name, label: 0 1");
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: an only column was listed as nothing") {
  check_says(
      read("a.jsonl",
           rows(20, [](int i) { return fmt::format("{{\"text\": \"{}\"}}", words(i)); })),
      {"label_field: ", "found no other column (a language model reads texts alone, in a *.txt)"});
}

TEST_CASE_FIXTURE(TableFixture, "bug: labeled tables: a column of names was that of the labels") {
  CHECK(read("a.csv", "Label,kind,text\n" + rows(40, [](int i) {
                        return fmt::format("N{}n,{},{}", i, i % 2 ? "a" : "b", words(i));
                      })) == "text, kind: a b");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
