#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

#include "tests/support/hours.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/small.hpp"
#include "train/tools/report/comparison.hpp"

// Tests that commands tell whether data are those of a training.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("data of a run");

// Texts with random labels, which a model can only memorize.
std::string labeled(int begin, int end) {
  const char* things[] = {"soup", "bread", "cheese", "beer", "fish"};
  std::string lines;
  for (int i = begin; i < end; ++i)
    lines += fmt::format("{} number {} of table {}\t{}\n", things[i % 5], i, i * 7 % 11,
                         i * i % 7 < 3 ? "good" : "bad");
  return lines;
}

std::string reversed(const std::string& text) {
  Strings lines = lines_of(text);
  std::ranges::reverse(lines);
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

Json checksums_of(const std::string& checkpoint) {
  Json found = Json::object();
  for (const auto& [name, sum] : load_checkpoint_metadata(checkpoint).state.splits)
    found[name] = sum;
  return found;
}

Strings names_that_differ(const Json& one, const Json& other) {
  Strings names;
  for (const auto& [name, sum] : one.items())
    if (other.value(name, Json()) != sum) names.push_back(name);
  return names;
}

// Small runs of each kind of data.
struct RunData : public CommandFolder {
  RunData() {
    write("texts.toml", R"(task = "text-classification"
[data]
tokenizer = ""
[model]
layers = 1
heads = 2
width = 16
context = 64
[optim]
learning_rate = 1e-2
schedule = "constant"
[train]
steps = 20
batch_size = 16
eval_every = 10
checkpoint_every = 10
)");
  }
  void texts() const { write("texts.tsv", labeled(0, 80)); }
  // A folder with a file for each split.
  void folder(int first_test = 60) const {
    fs::create_directories(path("texts"));
    write("texts/train.tsv", labeled(0, 40));
    write("texts/validation.tsv", labeled(40, 60));
    write("texts/test.tsv", labeled(first_test, first_test + 20));
  }
  void train(const std::string& out, const Words& more) const {
    must(run(Words("train texts.toml --quiet --out {}", out) + more));
  }
  Json json(const Words& words) const { return Json::parse(must(run(words + "--json")).out); }
  std::string said(const Words& words) const { return must(run(words)).out; }
  // Removes fields that earlier versions did not record.
  void forget(const std::string& name) const {
    for (const char* file : {"best.safetensors", "checkpoint.safetensors"}) {
      const std::string checkpoint = path(name + "/" + file);
      Safetensors all = read_safetensors(checkpoint);
      for (const char* split : split_checksums) all.metadata.erase(split);
      all.metadata["xxh3"] = metadata_checksum(all.metadata);
      write_safetensors(checkpoint, all);
    }
    std::string lines;
    for (const std::string& line : lines_of(read_bytes(path(name + "/sessions.jsonl")))) {
      Json session = Json::parse(line);
      for (const char* split : split_checksums) session.erase(split);
      lines += session.dump() + "\n";
    }
    write(name + "/sessions.jsonl", lines);
  }
};

constexpr const char* not_those = "these are not the ";

TEST_CASE_FIXTURE(RunData, "bug: eval took changed data for those of the training") {
  texts();
  train("run", "data.path=texts.tsv");
  CHECK(json("eval run")["data"] == Json{{"validation", "same"}});
  CHECK(said("eval run").find(not_those) == std::string::npos);

  write("texts.tsv", reversed(labeled(0, 80)));
  CHECK(json("eval run")["data"] == Json{{"validation", "changed"}});
  check_says(said("eval run"),
             {"validation: these are not the validation examples of the training",
              checksums_of(path("run/best.safetensors"))["data_validation"].get<std::string>()});
  CHECK(!json("eval run").contains("trained_on"));
  forget("run");
  CHECK(json("eval run")["data"] == Json{{"validation", "not recorded"}});
  CHECK(said("eval run").find(not_those) == std::string::npos);

  must(run("train karate --quiet --out karate train.steps=2"));
  CHECK(json("eval karate")["data"] == Json{{"validation", "built in"}});
}

TEST_CASE_FIXTURE(RunData, "bug: eval of other data did not say how many were trained on") {
  texts();
  write("moved.tsv", labeled(0, 80));
  write("reversed.tsv", reversed(labeled(0, 80)));
  write("new.tsv", labeled(1000, 1080));
  train("run", "data.path=texts.tsv");
  const auto eval = [&](const char* file) { return json(Words("eval run data.path={}", file)); };
  const Json moved = eval("moved.tsv");
  CHECK(moved["data"]["validation"] == "same");
  CHECK(!moved.contains("trained_on"));
  const Json other = json("eval run data.validation_fraction=0.5");
  CHECK(other["data"]["validation"] == "other");
  CHECK(other["trained_on"].get<int>() > 0);
  const auto trained = load_checkpoint_metadata(path("run/best.safetensors")).state.examples;
  CHECK(json("eval run --data reversed.tsv")["trained_on"] == trained);
  CHECK(eval("new.tsv")["trained_on"] == 0);
  check_says(said("eval run --data new.tsv"), {"0 of these 80 examples were trained on\n"});
  CHECK(said("eval run data.path=new.tsv").find(not_those) == std::string::npos);
  forget("run");  // the checksum of training and validation data is known
  CHECK(eval("new.tsv")["trained_on"] == 0);

  write("texts.tsv", labeled(10, 80));
  CHECK(eval("new.tsv")["trained_on"].is_null());
  check_says(said("eval run --data new.tsv"),
             {"unknown how many of these 80 examples were trained on: the data of the training"});

  const RunFixture windows;
  windows.must_train("text", "run", "train.steps=2");
  const Json of_text = windows.eval("run", {"data.path=" + windows.write("b.txt", story(30))});
  CHECK(of_text["trained_on"].is_null());
}

TEST_CASE_FIXTURE(RunData, "bug: runs with other test data were compared") {
  folder();
  train("a", "data.path=texts --seeds 3");
  folder(100);
  train("b", "data.path=texts --seeds 3 optim.learning_rate=1e-5");
  train("c", "data.path=texts --seeds 3 seed=4 optim.learning_rate=1e-5");
  train("d", "data.path=texts --seeds 3");
  const auto groups = [&](const char* first, const char* other) {
    return read_groups({path(first), path(other)});
  };
  for (const char* other : {"b", "c"}) {
    CAPTURE(other);
    const auto both = groups("a", other);
    CHECK(why_not_comparable(both[0], both[1], "test_loss") == "the test data differ");
    CHECK(why_not_comparable(both[0], both[1], "loss").empty());
  }
  const auto same = groups("b", "d");
  CHECK(why_not_comparable(same[0], same[1], "test_loss").empty());
  const auto settings = settings_that_differ(groups("a", "d"));
  REQUIRE(settings.size() == 1);
  CHECK(settings[0].name == "data_test");
  CHECK(settings_that_differ(groups("a", "c")).back().name == "data_test");
  check_says(said("compare a b"), {"not comparable: the test data differ", "data_test"});
  for (const char* seed : {"a/seed-1", "a/seed-2", "a/seed-3"}) forget(seed);
  const auto unknown = groups("a", "d");
  CHECK(why_not_comparable(unknown[0], unknown[1], "test_loss").empty());
  CHECK(settings_that_differ(unknown).empty());
}

TEST_CASE_FIXTURE(RunData, "bug: resume, verify and replay accepted another test split") {
  folder();
  train("run", "data.path=texts");
  const Words resume = Words("train run --resume --quiet train.steps=30");
  const auto refuses = [&](const Words& words, const char* split) {
    const Finished refused = run(words);
    CHECK(refused.status == 2);
    check_says(refused.err, {fmt::format("gives other {} examples than those of the run", split)});
  };
  folder(100);
  refuses(resume, "test");
  refuses("verify run --steps 2", "test");
  refuses("replay run --step 2", "test");
  fs::remove(path("texts/test.tsv"));
  refuses("verify run --steps 2", "test");
  folder();
  must(run("verify run --all"));
  forget("run");
  folder(100);
  must(run("verify run"));
  must(run(resume));  // records the data that it read
  folder();
  refuses("verify run --steps 2", "test");
}

TEST_CASE_FIXTURE(RunData, "bug: a search resumed with another test split") {
  folder();
  const Words search =
      "search texts.toml --quiet --out found data.path=texts "
      "--vary=optim.learning_rate=1e-3,1e-4 --seeds 2";
  must(run(search));
  const std::string ledger = path("found/ledger.jsonl");
  const Strings lines = lines_of(read_bytes(ledger));
  write("found/ledger.jsonl", lines[0] + "\n" + lines[1] + "\n");
  folder(100);
  const Finished refused = run(search + "--resume");
  CHECK(refused.status == 2);
  check_says(refused.err, {"gives other test examples than those of the run"});
  folder();
  must(run(search + "--resume"));
}

TEST_CASE_FIXTURE(RunData, "bug: report, sample and attention did not say that the data changed") {
  folder();
  train("run", "data.path=texts");
  CHECK(json("report run --out page.html")["data"] ==
        Json{{"run", Json{{"test", "same"}, {"validation", "same"}}}});
  folder(100);
  CHECK(json("report run --out page.html")["data"]["run"]["test"] == "changed");
  check_says(said("report run --out page.html"), {"run: test: these are not the test examples"});
  check_says(read_bytes(path("page.html")), {"these are not the test examples of the training"});
  CHECK(json("sample run")["data"] == Json{{"validation", "same"}});

  write("texts/validation.tsv", labeled(200, 220));
  CHECK(json("sample run")["data"] == Json{{"validation", "changed"}});
  CHECK(json("attention run")["data"] == Json{{"validation", "changed"}});
  check_says(said("sample run"), {"these are not the validation examples"});
  CHECK(!json("sample run --prompt soup").contains("data"));
  CHECK(!json("attention run --prompt soup").contains("data"));
  fs::remove_all(path("texts"));
  must(run("sample run --prompt soup"));
}

TEST_CASE_FIXTURE(RunData, "data of a run: each kind of data records all splits") {
  // Returns the checksums of a training of 2 steps.
  const auto train = [&](const Words& words) {
    static int number = 0;
    const std::string out = fmt::format("run-{}", ++number);
    must(run(Words("train --quiet train.steps=2 train.batch_size=2 --out {}", out) + words));
    return checksums_of(path(out + "/checkpoint.safetensors"));
  };
  const Strings test = {"data_test"};

  const Words images =
      "clothes-vae data.path=images data.class_names=[\"a\",\"b\"] model.hidden=[4]";
  write_images(*this, "images", 6);
  const Json of_images = train(images);
  CHECK(of_images.size() == 3);
  write_idx(*this, "images", {.name = "t10k", .count = 6, .side = 6, .bright = 90});
  CHECK(names_that_differ(of_images, train(images)) == test);
  const std::string run = "run-2";
  CHECK(json("latent " + run)["data"] ==
        Json{{"train", "same"}, {"validation", "same"}, {"test", "same"}});
  write_images(*this, "images", 6);
  CHECK(json("latent " + run)["data"]["test"] == "changed");
  const Words reconstructions("sample {} --kind reconstructions --out pictures", run);
  CHECK(said(reconstructions).find(not_those) == std::string::npos);
  write_idx(*this, "images", {.name = "train", .count = 20, .side = 6, .bright = 90});
  check_says(said(reconstructions), {"these are not the validation examples"});

  const Words series =
      "etth1 data.path=hours.csv data.split=fractions model.context=16 "
      "model.horizon=8 model.patch=4 model.stride=4 model.layers=1";
  const std::string hours = csv(200);
  write("hours.csv", hours);
  const Json of_series = train(series);
  CHECK(of_series["data_train"] != of_series["data_validation"]);
  write("hours.csv", hours.substr(0, hours.size() - 3) + "3\n");
  CHECK(names_that_differ(of_series, train(series)) == test);
  CHECK(names_that_differ(of_series, train(series + "data.validation_fraction=0.11")) ==
        Strings{"data_test", "data_validation"});

  const Words nodes =
      "cora data.path=. data.training_nodes=2 data.validation_nodes=2 "
      "data.test_nodes=3";
  write("small.content", content);
  write("small.cites", cites);
  const Json of_nodes = train(nodes);
  CHECK(of_nodes.size() == 3);
  replace_in(path("small.content"), "p8\t0\t1\t1\tart", "p8\t0\t1\t1\tmaths");
  CHECK(names_that_differ(of_nodes, train(nodes)) == test);

  const std::string line = "one two three four five six seven eight nine ten eleven twelve\n";
  for (const char* name : {"train.de", "train.en", "val.de", "val.en", "test.de", "test.en"})
    write(name, line + line);
  const Words pairs =
      "multi30k data.path=. data.vocabulary=300 model.layers=1 model.width=8 model.heads=2 "
      "model.context=4";
  const Json of_pairs = train(pairs);
  CHECK(of_pairs.size() == 3);
  replace_in(path("test.en"), "twelve\n", "dozen\n");  // after the tokens that fit the context
  CHECK(names_that_differ(of_pairs, train(pairs)) == test);
  replace_in(path("test.en"), "dozen\n", "twelve\n");

  write("story.txt", story(40));
  const Json of_text = train(
      "shakespeare-char data.path=story.txt model.context=8 model.layers=1 model.width=8 "
      "model.heads=2");
  CHECK(of_text.size() == 2);
  CHECK(of_text["data_train"] != of_text["data_validation"]);
}

TEST_SUITE_END();

// Tests `tapestry eval RUN --data PATH`, which evaluates all examples of a file or folder of any
// kind.

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
