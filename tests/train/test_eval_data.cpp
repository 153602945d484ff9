#include <doctest/doctest.h>

#include <iterator>

#include "tests/support/hours.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"

// Tests `tapestry eval RUN --data PATH`, which evaluates all examples of a file or folder of any
// kind.
namespace tapestry {
namespace {

// A folder with runs of two steps each.
struct EvalFixture : public CommandFolder {
  void train(const std::string& config, const std::string& run, const Words& more) const {
    must(CommandFolder::run(
        Words("train {} --quiet --out {} train.steps=2 train.batch_size=4", config, run) + more));
  }
  Json eval(const std::string& run, const Words& more) const {
    return Json::parse(must(CommandFolder::run(Words("eval {} --json", run) + more)).out);
  }
  // Returns how many examples and tokens of a path were evaluated: "12 examples, 340 tokens".
  std::string evaluated(const std::string& run, const std::string& data) const {
    const Json result = eval(run, Words{"--data", data});
    CHECK(result["split"] == "data");
    const std::string out = must(CommandFolder::run(Words{"eval", run, "--data", data})).out;
    const std::size_t open = out.find("  ("), close = out.find(')', open);
    CHECK(out.starts_with("step 2  data: loss "));
    const std::string shown = out.substr(open + 3, close - open - 3);
    CHECK(shown.starts_with(result["examples"].dump() + " example"));
    CHECK(result.contains("tokens") == contains(shown, " token"));
    if (result.contains("tokens")) CHECK(contains(shown, result["tokens"].dump() + " token"));
    return shown;
  }
  // Checks that the test split and its file have the same bits of the loss.
  void check_same_as_test(const std::string& run, const std::string& data) const {
    const Json test = eval(run, "--test"), whole = eval(run, Words{"--data", data});
    CHECK(test["loss"] == whole["loss"]);
    CHECK(test["examples"] == whole["examples"]);
    CHECK(test["split"] == "test");
  }
};

std::string opinions_of(int count, const std::string& other = "bad") {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += fmt::format("the soup number {} was {}\t{}\n", i, i % 3 ? "fine" : "cold",
                         i % 3 ? "good" : other);
  return lines;
}

TEST_SUITE_BEGIN("eval data");

TEST_CASE_FIXTURE(EvalFixture,
                  "bug: eval measured a tenth of other labeled texts without saying so") {
  write("texts/train.tsv", opinions_of(30));
  write("texts/test.tsv", opinions_of(7));
  const Words keys = Words("data.path=texts data.vocabulary=270 model.kind=embeddings") +
                     Words{"model.width=8", "data.class_weights=balanced"};
  train("match-reports", "run", Words("data.kind=text") + keys);
  CHECK(eval("run", {})["examples"] < 12);  // a part of the training texts
  check_same_as_test("run", "texts/test.tsv");
  CHECK(evaluated("run", "texts") == "37 examples");

  write("one.tsv", "the only soup\tgood\n");
  CHECK(evaluated("run", "one.tsv") == "1 example");
  write("some.tsv", "the only soup\tgood\n\tbad\n");
  check_says(must(run("eval run --data some.tsv")).out, {"(1 example)", "1 empty text left out"});
  write("tested/test.tsv", opinions_of(5));
  CHECK(evaluated("run", "tested") == "5 examples");
  for (const char* name :
       {"classes/good/a.txt", "classes/good/b.txt", "classes/bad/c.txt", "splits/test/good/d.txt"})
    write(name, "some soup");
  CHECK(evaluated("run", "classes") == "3 examples");
  CHECK(evaluated("run", "splits") == "1 example");

  write("other.tsv", opinions_of(5, "awful"));
  check_refused(here("eval run --data other.tsv"), {"label \"awful\" is not one of the classes"});
  check_refused(here("eval run --data none.tsv"), {"none.tsv", "no such file or folder"});
  check_refused(here("eval run --data one.tsv --test"), {"--data: ", "leave out --test"});
}

TEST_CASE_FIXTURE(EvalFixture, "bug: eval --data did not measure all images of files and folders") {
  write_images(*this, "images", 6);
  train("clothes-vit", "run",
        Words("data.path=images model.patch=3 model.width=8 model.heads=2 model.layers=1") +
            Words{"data.class_names=shirt, shoe"});
  CHECK(eval("run", {})["examples"] == 2);
  check_same_as_test("run", "images/t10k-images-idx3-ubyte");
  CHECK(evaluated("run", "images/train-labels-idx1-ubyte") == "20 examples");
  CHECK(evaluated("run", "images") == "26 examples");

  // A gray PNG of 1 × 1 pixel, which is fitted to the size of the model.
  constexpr unsigned char pixel[] = {
      137, 80,  78,  71,  13, 10, 26, 10,  0,   0,  0,   13, 73,  72,  68,  82, 0,
      0,   0,   1,   0,   0,  0,  1,  8,   0,   0,  0,   0,  58,  126, 155, 85, 0,
      0,   0,   10,  73,  68, 65, 84, 120, 156, 99, 104, 0,  0,   0,   130, 0,  129,
      119, 205, 114, 182, 0,  0,  0,  0,   73,  69, 78,  68, 174, 66,  96,  130};
  const std::string png(std::begin(pixel), std::end(pixel));
  for (const char* name : {"pictures/test/shoe/a.png", "pictures/val/shirt/b.png",
                           "pictures/val/shirt/c.png", "plain/shoe/d.png"})
    write(name, png);
  CHECK(evaluated("run", "pictures") == "3 examples");
  CHECK(evaluated("run", "plain") == "1 example");
  train("clothes-vae", "vae", "model.hidden=[4] data.path=images");
  check_same_as_test("vae", "images/t10k-images-idx3-ubyte");
}

TEST_CASE_FIXTURE(EvalFixture, "bug: eval --data did not measure all windows, nodes and pairs") {
  write("hours.csv", csv(200));
  train("etth1", "hours",
        Words("data.split=fractions model.context=12 model.horizon=4 model.patch=4 model.width=8") +
            Words("model.heads=2 model.layers=1 model.stride=4 data.path=hours.csv"));
  CHECK(evaluated("hours", "hours.csv") == "185 examples");  // 200 - 12 - 4 + 1
  write("few.csv", csv(16));
  const Finished few = must(run("eval hours --data few.csv"));
  check_says(few.out, {"(1 example)", "baseline last value"});
  CHECK(!contains(few.out, "linear model"));  // there are no training windows to fit it to
  write("short.csv", csv(15));
  check_refused(here("eval hours --data short.csv"),
                {"no window of model.context = 12", "the data"});

  write("papers/p.content", content);
  write("papers/p.cites", cites);
  train("cora", "papers-run",
        Words("data.path=papers data.training_nodes=2 data.validation_nodes=2 data.test_nodes=2"));
  CHECK(evaluated("papers-run", "papers") == "8 examples");
  std::string nodes = "id,size,label\n", edges = "source,target\n";
  for (int i = 0; i < 20; ++i) {
    nodes += fmt::format("n{},{},{}\n", i, i % 4, i < 2 ? "" : i % 2 ? "a" : "b");
    edges += fmt::format("n{},n{}\n", i, (i + 2) % 20);
  }
  write("nodes/nodes.csv", nodes);
  write("nodes/edges.csv", edges);
  train("cora", "nodes-run", Words("data.kind=csv data.path=nodes"));
  CHECK(evaluated("nodes-run", "nodes") == "18 examples");  // two have no label
  write("papers/p.content", replaced(content, "art", "physics"));
  check_refused(here("eval papers-run --data papers"), {"line 2: class 'physics' is unknown"});

  for (const char* name : {"train", "val", "test"})
    for (const char* language : {"de", "en"})
      write(fmt::format("pairs/{}.{}", name, language), story(name[0] == 't' ? 12 : 5));
  train("dates", "pairs-run",
        Words("data.kind=text data.path=pairs data.test=test data.vocabulary=300 model.width=8") +
            Words("model.heads=2 model.layers=1"));
  check_same_as_test("pairs-run", "pairs/test.de");
  CHECK(evaluated("pairs-run", "pairs").starts_with("29 examples, "));
  check_refused(here("eval pairs-run --data hours.csv"), {"hours.csv: expected a file *.de"});
}

TEST_CASE_FIXTURE(EvalFixture,
                  "bug: eval --data did not measure all tokens of texts, names and conversations") {
  write("story.txt", story(20));
  const Words tiny = "model.layers=1 model.width=8 model.heads=2 model.context=20";
  train("shakespeare-char", "characters", Words("data.path=story.txt") + tiny);
  const std::string text = story(3);
  write("new.txt", text);
  CHECK(evaluated("characters", "new.txt") ==
        fmt::format("{} examples, {} tokens", (text.size() + 18) / 20, text.size() - 1));
  write("short.txt", "1");
  check_refused(here("eval characters --data short.txt"),
                {"short.txt", "1 token", "a longer text"});
  write("strange.txt", "ÿ");
  check_refused(here("eval characters --data strange.txt"), {"strange.txt"});

  must(run("tokenizer train story.txt --vocabulary 270 --out tokenizer.json"));
  train("shakespeare-char", "bytes",
        Words("data.path=story.txt data.tokenizer=tokenizer.json") + tiny);
  CHECK(eval("bytes", "--data new.txt")["tokens"] > 20);
  must(run("tokens new.txt --tokenizer tokenizer.json --out shards"));
  CHECK(eval("bytes", "--data shards")["tokens"] == eval("bytes", "--data new.txt")["tokens"]);

  std::string names;
  for (int i = 0; i < 40; ++i) names += fmt::format("n{}\n", i);
  write("names.txt", names);
  train("names", "names-run", Words("data.path=names.txt") + tiny);
  CHECK(evaluated("names-run", "names.txt") == "40 examples, 150 tokens");
  write("two.txt", "n1\nn23\n");
  CHECK(evaluated("names-run", "two.txt") == "2 examples, 7 tokens");

  std::string talks;
  for (int i = 0; i < 6; ++i)
    talks += fmt::format(R"({{"prompt":"bottle {}","completion":"green {}"}})"
                         "\n",
                         i, i);
  write("talks.jsonl", talks);
  train("shakespeare-char", "talks-run",
        Words("data.kind=conversations data.path=talks.jsonl data.tokenizer=train") + tiny +
            Words("data.vocabulary=270 data.template=chatml data.packing=false model.context=60"));
  CHECK(evaluated("talks-run", "talks.jsonl").starts_with("6 examples, "));
  write("talk.jsonl", talks.substr(0, talks.find('\n') + 1));
  CHECK(evaluated("talks-run", "talk.jsonl").starts_with("1 example, "));
}

TEST_CASE_FIXTURE(EvalFixture, "eval --data: is refused for data that are not read from files") {
  train("sort", "sort", "model.width=8 model.heads=2");
  check_refused(here("eval sort --data ."), {"task = \"toy-sequence\"", "leave out --data"});
  check_says(must(run("eval sort")).out, {"step 2  validation: loss ", "  (1000 examples)\n"});
  train("dates", "dates", "model.width=8 model.heads=2");
  check_refused(here("eval dates --data ."),
                {"data.path", "the data of this config are synthetic"});
  train("karate", "karate", {});
  check_refused(here("eval karate --data ."), {"the data of this config are synthetic"});
  check_refused(here(Words{"eval", "sort", "--data", ""}), {"--data"});
}

}  // namespace
}  // namespace tapestry
