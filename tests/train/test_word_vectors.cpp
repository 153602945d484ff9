#include <doctest/doctest.h>

#include "data/text/word_vectors.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tensor_files.hpp"

// Tests the task `word-vectors`, and embeddings that begin with its vectors.
namespace tapestry {
namespace {

// Lines in which "cat" and "dog" have one context, and "one" and "two" another.
struct WordsFixture : CommandFolder {
  WordsFixture() {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += fmt::format("the {} runs home to eat\n", i % 2 ? "cat" : "dog");
      text += fmt::format("{} plus four makes a sum\n", i % 3 ? "one" : "two");
    }
    write("animals.txt", text);
  }
  std::string run(const Words& words) const { return must(CommandFolder::run(words)).out; }
  std::string train(const Words& more = {}) const {
    return run(Words("train word-vectors --out run data.path=animals.txt model.width=8 "
                     "model.subsample=0 train.batch_size=32 train.eval_batch_size=64 "
                     "optim.learning_rate=0.05 train.steps=400 train.eval_every=200") +
               more);
  }
};

TEST_SUITE_BEGIN("word vectors");

TEST_CASE_FIXTURE(WordsFixture, "word-vectors: words with the same contexts are near") {
  check_says(train(), {"14 different words", "done after"});
  const Json near =
      Json::parse(run(Words("sample run --count 1 --json --words") + Strings{"dog, One"}));
  CHECK(near["dog"][0]["word"] == "cat");
  CHECK(near["dog"][0]["similarity"].get<double>() > 0.9);
  CHECK(near["one"][0]["word"] == "two");
  check_says(run("sample run"), {"dog: cat ", "cat: dog "});
  check_refused(CommandFolder::run(Words("sample run --words zebra")),
                {"--words: \"zebra\" is not in the vocabulary of 14 words"});
  run("report run");
  check_says(read("run/report.html"), {"Nearest words", "Word vectors", "principal components"});
  CHECK(!contains(read("run/report.html"), "Predicted classes"));
}

TEST_CASE_FIXTURE(WordsFixture,
                  "word-vectors: the same bits on any number of threads, resumed or not") {
  train("train.threads=1");
  const std::string whole = read("run/best.safetensors");
  const LoadedCheckpoint one = load_checkpoint(path("run/checkpoint.safetensors"));
  run("train run/config.toml --out again train.threads=2 train.steps=400");
  const LoadedCheckpoint two = load_checkpoint(path("again/checkpoint.safetensors"));
  for (const std::string name : {"vectors", "outputs"})
    CHECK(same_bits(*find_tensor(one.file, name), *find_tensor(two.file, name)));
}

TEST_CASE_FIXTURE(WordsFixture, "word-vectors: exports are the initial embeddings of classifiers") {
  train();
  check_says(run("export run --format word2vec --out words.txt"),
             {"words.txt: 14 words, in the text format of word2vec"});
  const WordVectors words = read_word_vectors(path("words.txt"));
  CHECK(words.vectors.shape() == Shape{14, 8});
  check_refused(CommandFolder::run(Words("export run --out words --format text")),
                {"expected one of onnx, word2vec, safetensors"});
  std::string texts = "text\tlabel\n";
  for (int i = 0; i < 40; ++i)
    texts += fmt::format("{} {}\n", i, i % 2 ? "cat runs\tup" : "two plus\tdown");
  write("texts.tsv", texts);
  const std::string common =
      "train match-reports data.kind=text data.path=texts.tsv "
      "model.kind=embeddings "
      "model.embeddings=words.txt data.vocabulary=300 train.steps=1 optim.learning_rate=0 ";
  check_says(CommandFolder::run(Words(common + "model.width=16 --out other")).err,
             {"model.embeddings = \"words.txt\": has vectors of 8 numbers; expected 16, as "
              "model.width"});
  check_says(run(Words(common + "model.width=8 --out classifier")),
             {" tokens begin with vectors of words.txt"});
  const Array table = *find_tensor(load_checkpoint(path("classifier/checkpoint.safetensors")).file,
                                   "token_embedding.weight");
  const auto number = std::ranges::find(words.words, "cat") - words.words.begin();
  const Array cat = words.vectors.part(8 * number, 8 * number + 8);
  std::int64_t found = 0;
  for (std::int64_t row = 0; row < table.dim(0); ++row)
    found += same_bits(table.part(8 * row, 8 * row + 8), cat);
  CHECK(found > 0);
  run("eval classifier");  // reads the vectors from the checkpoint
  write("other.txt", "1 8\nxyzzy 1 2 3 4 5 6 7 8\n");
  check_says(
      CommandFolder::run(Words(common + "model.width=8 model.embeddings=other.txt --out other"))
          .err,
      {"has no word that is a token"});
}

TEST_CASE_FIXTURE(WordsFixture, "word-vectors: a text that is missing or too short is refused") {
  check_refused(CommandFolder::run(Words("train word-vectors --out run")), {"no text"});
  write("animals.txt", "few words\n");
  check_refused(CommandFolder::run(Words("train word-vectors --out run data.path=animals.txt")),
                {"data.minimum_count"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
