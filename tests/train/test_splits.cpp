#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/hours.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "train/config/keys.hpp"
#include "train/run/safetensors.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/corpus.hpp"

// Tests that the validation split selects the best model, and the test split is measured once.
namespace tapestry {
namespace {

// A folder in which commands are run.
struct Place : public CommandFolder {
  Finished run(const Words& words, const Words& more = {}) const {
    return must(CommandFolder::run(words + more));
  }
  std::vector<Json> metrics(const std::string& run, const std::string& split) const {
    std::vector<Json> lines;
    for (const std::string& line : lines_of(read_bytes(path(run + "/metrics.jsonl"))))
      if (const Json entry = Json::parse(line); entry["split"] == split) lines.push_back(entry);
    return lines;
  }
};

TEST_SUITE_BEGIN("splits");

const Words brief =
    Words{"data.class_names=shirt, shoe"} + "train.steps=6 train.eval_every=2 train.batch_size=4";
const Words small_vit = brief + "model.patch=3 model.width=8 model.heads=2 model.layers=1";
const Words small_vae = brief + "model.hidden=[4]";

TEST_CASE_FIXTURE(Place, "bug: the test images selected the model that they evaluate") {
  write_images(*this, "images", 6);
  for (const auto& [config, keys] :
       {std::pair{"clothes-vit", small_vit}, std::pair{"clothes-vae", small_vae},
        std::pair{"clothes-autoencoder", small_vae}}) {
    CAPTURE(config);
    const auto train = [&](const std::string& run) {
      check_says(this->run(Words("train {} --out {} data.path=images", config, run), keys).out,
                 {" 18 training examples"});  // of 20
    };
    const std::string one = std::string(config) + "-one", other = std::string(config) + "-other";
    train(one);
    write_idx(*this, "images", {.name = "t10k", .count = 5, .side = 6, .bright = 90});
    train(other);
    write_images(*this, "images", 6);
    // Other test images change the test metrics alone.
    const auto untimed = [&](const std::string& run, const char* split) {
      std::vector<Json> lines = metrics(run, split);
      for (Json& line : lines) line.erase("elapsed_s");
      return lines;
    };
    CHECK(untimed(one, "val") == untimed(other, "val"));
    CHECK(untimed(one, "val").size() == 3);
    CHECK(untimed(one, "test") != untimed(other, "test"));
    const Json test = metrics(one, "test").front();
    const Json again = Json::parse(this->run(Words("eval {} --test --json", one)).out);
    CHECK(test["loss"] == again["loss"]);
    CHECK(test["step"] == again["step"]);
  }
}

// Trains, checks the test metrics in all places, resumes, and checks again.
void check_is_tested(const Place& place, const Words& keys) {
  const Words train = "train --out run" + keys;
  std::string said = place.run(train).out;
  for (const int attempt : {1, 2}) {
    CAPTURE(attempt);
    check_says(said, {"  test (best model): loss ", "  test_loss "});
    const std::vector<Json> tests = place.metrics("run", "test");
    REQUIRE(tests.size() == 1);
    const Json compared = Json::parse(place.run("compare run --json").out);
    for (const auto& [name, value] : tests.front().items())
      if (name != "split" && name != "step" && name != "elapsed_s")
        CHECK(compared["test_" + name] == value);
    CHECK(compared["loss"] == place.metrics("run", "val").back()["loss"]);
    check_says(place.run("compare run").out, {"  test_loss"});
    const Json evaluated = Json::parse(place.run("eval run --test --json").out);
    CHECK(evaluated["loss"] == tests.front()["loss"]);
    said = place.run(train + "--resume").out;  // a finished run is only tested again
  }
}

TEST_CASE_FIXTURE(Place, "bug: the best model's test metrics were printed, but not recorded") {
  SUBCASE("images") {
    check_is_tested(
        *this,
        "clothes-vae model.hidden=[4] data.training_images=20 data.test_images=5 train.steps=2");
  }
  SUBCASE("series") {
    write("station.csv", csv(200));
    check_is_tested(
        *this,
        Words("etth1 data.path=station.csv data.split=fractions model.context=16 model.horizon=8 "
              "model.patch=4 model.stride=4 model.layers=1 train.steps=2 train.batch_size=8"));
  }
  SUBCASE("graphs") {
    write("small.content", content);
    write("small.cites", cites);
    check_is_tested(*this, Words("cora data.path=. data.training_nodes=2 data.validation_nodes=2 "
                                 "data.test_nodes=3 train.steps=2 train.batch_size=2"));
  }
  SUBCASE("sentence pairs") {
    for (const char* name : {"train.de", "train.en", "val.de", "val.en", "test.de", "test.en"})
      write(name, "one two three four\nfive six seven eight\n");
    check_is_tested(*this,
                    Words("multi30k data.path=. data.vocabulary=300 model.layers=1 model.width=8 "
                          "model.heads=2 model.context=40 train.steps=2 train.batch_size=2"));
  }
}

// --- references of translations ---

const char* const german = "Der Mann im roten Hemd geht heute mit seinem Hund die Straße entlang\n";
const char* const english =
    "The Man in a red shirt is walking down the busy street with his little brown dog today\n";

// A model that overfits the beginning of one sentence, its only example.
struct Parrot : public Place {
  explicit Parrot(const Words& more = {}) {
    for (const std::string split : {"train", "val", "test"}) {
      write(split + ".de", std::string(german) + german);
      write(split + ".en", std::string(english) + english);
    }
    said =
        run("train multi30k --out run data.path=. data.vocabulary=300 model.context=6 "
            "model.layers=1 model.width=32 model.heads=2 model.dropout=0 train.steps=60 "
            "train.batch_size=2 train.eval_every=30 optim.learning_rate=1e-2 optim.warmup_steps=5",
            more)
            .out;
  }
  std::string said;
};

TEST_CASE_FIXTURE(Parrot, "bug: BLEU and exact match used references cut to the context") {
  for (const Words& split : {Words{}, Words{"--test"}}) {
    const Json measured = Json::parse(run("eval run --json", split).out);
    CHECK(measured["perplexity"].get<double>() < 1.5);  // it has memorized its example
    CHECK(measured["exact_match"] == 0);
    CHECK(measured["bleu"].get<double>() < 5);
    CHECK(measured["cut_sources"] == 2);
  }
}

TEST_CASE("bug: BLEU in lower case was not marked as such") {
  const std::string lower = "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:tapestry-";
  std::string mixed = lower;
  mixed.replace(mixed.find("lc"), 2, "mixed");
  for (const auto& [key, signature] :
       {std::pair{"data.lower_case=true", lower}, std::pair{"data.lower_case=false", mixed}}) {
    const Parrot parrot({key, "train.steps=1", "train.eval_every=0"});
    check_says(parrot.said, {"(" + signature, "  test_bleu "});
    check_says(parrot.run("eval run").out, {"  bleu ", " (" + signature});
    check_says(parrot.run("compare run").out, {"  bleu_signature", "  " + signature});
    const Json measured = Json::parse(parrot.run("eval run --json").out);
    CHECK(measured["bleu"].is_number());
    CHECK(measured["bleu_signature"].get<std::string>().starts_with(signature));
  }
}

TEST_CASE("splits: a model in lower case is compared with references in lower case") {
  const Parrot parrot("model.context=100");
  const Json measured = Json::parse(parrot.run("eval run --json").out);
  CHECK(measured["exact_match"] == 1);
  CHECK(measured["bleu"].get<double>() == doctest::Approx(100));
  CHECK(measured["cut_sources"] == 0);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: infinite test metrics ended run and eval with status 0") {
  std::string text = "date,load\n";
  for (std::int64_t row = 0; row < 300; ++row)
    text += fmt::format("{},{}\n", time_text({.us = row * hour_us}),
                        row == 290 ? 1e38 : std::sin(0.3 * row));
  const std::string run = path("run");
  const Finished trained =
      tapestry_run({"train", "etth1", "--out", run, "--quiet",
                    "data.path=" + write("hours.csv", text), "data.split=fractions",
                    "model.context=24", "model.horizon=8", "model.layers=1", "train.steps=2"});
  INFO(trained.err);
  CHECK(trained.status == 1);
  REQUIRE(lines_of(trained.err).size() == 1);
  check_says(trained.err, {"the test loss is ", ": the output of "});
  CHECK(read_bytes(run + "/metrics.jsonl").find("\"test\"") == std::string::npos);
  check_says(read_bytes(run + "/sessions.jsonl"), {"failed: the test loss is "});
  CHECK(tapestry_run("eval " + run).status == 0);
  for (const Words& more : {Words{}, Words{"--json"}}) {
    const Finished tested = tapestry_run(Words("eval {} --test", run) + more);
    CHECK(tested.status == 1);
    CHECK(tested.out.empty());
    CHECK(lines_of(tested.err).size() == 1);
    check_says(tested.err, {"the test loss is "});
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: equal conversations were in training and validation") {
  const std::string chat = path("chat.jsonl");
  const Config config = parse_config(
      "task = \"language-model\"\n[data]\nkind = \"conversations\"\ntokenizer = \"train\"\n"
      "vocabulary = 300\ntemplate = \"chatml\"\npacking = false\n",
      "a text", {"data.path=" + chat});
  const auto sizes = [&](const std::string& lines) {
    write("chat.jsonl", lines);
    const Corpus corpus = read_corpus({.config = config});
    return std::pair(corpus.training->size(), corpus.validation->size());
  };
  const auto talk = [](int number, int weight) {
    return fmt::format(R"({{"messages": [{{"role": "user", "content": "{0}"}}, )"
                       R"({{"role": "assistant", "content": "no {0}", "weight": {1}}}]}})"
                       "\n",
                       number, weight);
  };
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += talk(i, 1);
  const auto [training, validation] = sizes(lines);
  CHECK(training + validation == 100);
  CHECK(std::abs(validation - 10) < 4 * 3);  // four deviations
  CHECK(sizes(lines + lines) == std::pair(2 * training, 2 * validation));
  const auto [more, as_many] = sizes(lines + talk(100, 1));
  CHECK(more - training + as_many - validation == 1);

  const Corpus few = [&] {
    write("chat.jsonl", talk(1, 1) + talk(2, 1) + talk(1, 1));
    return read_corpus({.config = config});
  }();
  CHECK(few.training->size() + few.validation->size() == 3);
  CHECK(few.remark == "1 conversation moved to a split that was empty");
  write("chat.jsonl", talk(1, 1) + talk(1, 1));
  CHECK_ERROR(read_corpus({.config = config}), "data.path = ",
              "all of its 2 conversations are equal; expected at least 2 different");
}

TEST_CASE_FIXTURE(Place,
                  "splits: init writes the current rules, and counts the examples of a training") {
  std::string names, texts;
  for (int i = 0; i < 300; ++i) {
    names += fmt::format("n{}\n", i);
    texts += fmt::format("A fine soup {}\t{}\n", i, i % 3);
  }
  write("names.txt", names);
  write("texts.tsv", texts + "one more\tfew\nanother\tfew\n");
  for (const std::string data : {"names", "texts"}) {
    CAPTURE(data);
    const std::string file = data + (data == "names" ? ".txt" : ".tsv");
    const Words init("init {} --minutes 1 --json --out {}.toml", file, data);
    const Json found = Json::parse(run(init).out);
    check_says(read(data + ".toml"), {"\nrules = 2 "});
    const Words train("train {}.toml --out {} train.steps=1 model.width=8 model.heads=2", data,
                      data);
    const std::string said = run(train).out;
    const auto trained = data == "names"
                             ? 300 - std::stoi(found["facts"]["split"].get<std::string>())
                             : found["facts"]["training_texts"].get<int>();
    check_says(said, {fmt::format(" {} training examples", trained)});
    if (data == "texts") check_says(said, {"; 1 text moved to a split without its class"});
    check_says(read(data + "/config.toml"), {"rules = 2"});
  }
  // A config has the rules of its base, and those of [expected] are as they were.
  for (const char* base : {"names", "ag-news"})
    CHECK(parse_config(fmt::format("base = \"{}\"", base), "a text", {})[key::data_rules] == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
