#include <doctest/doctest.h>

#include "data/text/word_vectors.hpp"
#include "layers/models/decoder_classifier.hpp"
#include "layers/models/text_classifier.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/model.hpp"
#include "train/tasks/classification.hpp"

namespace tapestry {
namespace {

// Three classes of different sizes; the texts have umlauts, an emoji and quotes.
std::string opinions(int count) {
  const char* things[] = {"Das Bier", "Der Käse", "\"Le pain\"", "The soup", "Die Brühe 🎉"};
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const int label = i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2;
    const char* names[] = {"gut", "schlecht", "so lala"};
    const char* words[] = {"schmeckt herrlich", "ist ungenießbar", "geht so"};
    lines += fmt::format("{} {} {}\t{}\r\n", things[i % 5], words[label], i / 7, names[label]);
  }
  return lines + "\tgut\r\n";  // an empty text
}

TEST_SUITE_BEGIN("text classification");

TEST_CASE("text classification: padding does not change the logits of a text") {
  Random init(1, Stream::init);
  const RecurrentStackOptions lstm{.kind = RecurrentKind::lstm, .inputs = 16, .width = 16};
  using Case = std::tuple<int, Readout, std::optional<RecurrentStackOptions>>;
  for (const auto& [layers, readout, recurrent] :
       {Case(2, Readout::mean, {}), Case(2, Readout::class_token, {}), Case(0, Readout::mean, {}),
        Case(0, Readout::mean, lstm)}) {
    CAPTURE(layers);
    TextClassifier model({.tokens = 9,
                          .context = 40,
                          .classes = 3,
                          .layers = layers,
                          .block = {.width = 16, .attention = {.heads = 2}},
                          .recurrent = recurrent,
                          .readout = readout},
                         init);
    const std::int32_t first = model.first_token().value_or(8);
    std::vector<std::int32_t> text = {first, 3, 1, 4, 1, 5}, padded = text;
    padded.resize(40, model.padding());
    std::vector<std::int32_t> longer(40, 7);
    longer.insert(longer.begin(), padded.begin(), padded.end());
    const Array alone = model.forward(Array::of(text, {1, 6})).value();
    const Array batch = model.forward(Array::of(longer, {2, 40})).value();
    for (int i = 0; i < 3; ++i)
      CHECK(batch.values<float>()[i] == doctest::Approx(alone.values<float>()[i]).epsilon(1e-5));
    CHECK_THROWS_AS(model.forward(Array::zeros({1, 41}, DType::int32)), std::invalid_argument);
  }
}

TEST_CASE("text classification: a decoder's output is read at the last token before padding") {
  Random init(1, Stream::init);
  DecoderClassifier model({.vocabulary = 8,
                           .context = 6,
                           .layers = 2,
                           .block = {.width = 16, .attention = {.heads = 2}}},
                          3, init);
  constexpr std::int32_t P = 8;
  CHECK(model.padding() == P);
  const std::vector<std::int32_t> text = {3, 1, 4, 1};
  const Array alone = model.forward(Array::of(text, {1, 4})).value();
  const Array rows = Array::of<std::int32_t>(
      {3, 1, 4, 1, P, P, 5, 7, 2, 6, 0, 1, 3, 1, 4, 1, 5, P, 3, P, P, P, P, P}, {4, 6});
  const Array batch = model.forward(rows).value();  // (4, 3)
  check_close(batch.part(0, 3), alone.reshaped({3}), 1e-6);
  // The third text is the first one and another token.
  CHECK(distance(batch.part(6, 9), batch.part(0, 3)) > 1e-3);
  const Array states = model.transformer.hidden(Array::of(text, {1, 4})).value();
  const Array last = states.part(3 * 16, 4 * 16).reshaped({1, 16});
  check_close(model.score.forward(last).value(), alone, 1e-6);
  CHECK_THROWS_AS(model.forward(Array::zeros({1, 7}, DType::int32)), std::invalid_argument);
}

TEST_CASE("text classification: macro F1 is the mean over the classes that occur") {
  // Targets 0 0 1 2, predictions 0 1 1 1; class 3 occurs nowhere.
  const Array logits = Array::of<float>({1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}, {4, 4});
  const Array targets = Array::of<std::int32_t>({0, 0, 1, 2}, {4});
  MetricSums sums;
  add_f1_counts(sums, logits, targets);
  Metrics metrics{{"loss", 1}};
  for (const auto& [name, sum] : sums) metrics[name] = sum.value();
  derive_macro_f1(metrics);
  CHECK(metrics.size() == 2);
  CHECK(metrics["macro_f1"] == doctest::Approx((2 / 3.0 + 2 / 4.0 + 0) / 3));
}

TEST_CASE_FIXTURE(CommandFolder, "text classification: 600 lines pass from init to the report") {
  write("opinions.tsv", opinions(600));
  const Json found = Json::parse(
      must(run("init opinions.tsv --minutes 1 --json --set model.kind=transformer")).out);
  CHECK(found["task"] == "text-classification");
  CHECK(found["facts"]["format"] == "TSV");
  CHECK(found["facts"]["column_of_labels"] == 2);
  CHECK(found["facts"]["classes"] == 3);
  CHECK(found["problems"][1] == "1 empty text left out, first opinions.tsv: line 601");
  const std::string said =
      must(run("train mine.toml --set train.steps=60 train.eval_every=30")).out;
  check_says(said, {"texts: 544 for training, 56 for validation, 0 for test; TSV; 3 classes: gut, ",
                    "1 empty text left out", "macro_f1"});
  check_says(read("runs/mine/config.toml"),
             {"format = \"tsv\"", "label_column = 2", "class_names = [\"gut\", \"schlecht\", "});
  const Json result = Json::parse(must(run("eval runs/mine --json")).out);
  CHECK(result["accuracy"] > 0.9);
  CHECK(result["macro_f1"] > 0.5);
  must(run("report runs/mine"));
  check_says(read("runs/mine/report.html"), {"Confusion matrix", "so lala"});
  fs::remove(path("opinions.tsv"));  // a model needs no data to classify
  const Json sample = Json::parse(
      must(run({"sample", "runs/mine", "--json", "--prompt", "Der Käse ist ungenießbar"})).out);
  CHECK(sample["texts"][0]["class"] == "schlecht");
  CHECK(sample["texts"][0]["probabilities"].size() == 3);
  const Strings texts = {"geht so", "Der Käse ist ungenießbar"};
  const Model model(path("runs/mine"));
  const Matrix classified = model.classify_texts(texts);
  CHECK(classified.rows == 2);
  for (std::int64_t k = 0; k < 3; ++k)
    CHECK(sample["texts"][0]["probabilities"][model.class_names()[k]].get<double>() ==
          doctest::Approx(classified.row(1)[k]).epsilon(1e-5));
  CHECK_THROWS_AS(model.classify_texts({}), std::invalid_argument);
  CHECK_THROWS_AS(model.classify_texts(Strings{""}), std::runtime_error);
  check_says(must(run({"sample", "runs/mine", "--prompt", "geht so"})).out, {"geht so: "});
  check_says(run({"sample", "runs/mine", "--prompt", ""}).err, {"--prompt: the text is empty"});
  std::string prompt;  // bug: attention read the beginning of such a text without a message
  for (int i = 0; i < 400; ++i) prompt += "geht so ";
  for (const char* command : {"sample", "attention"})
    check_says(must(run({command, "runs/mine", "--prompt", prompt})).err,
               {"the prompt is longer; the model reads the first ", " tokens, its context"});
}

TEST_CASE_FIXTURE(CommandFolder, "text classification: refusals name file, line and key") {
  write("data/train.tsv", opinions(40));
  write("data/test.tsv", "Das Bier geht so\tneu\nDer Wein auch\tgut\nDer Saft auch\tgut\n");
  write("one.txt", "__label__a eins\n__label__a zwei\n");
  const auto refuses = [&](const std::string& settings, const Strings& parts) {
    const Finished refused = run(Words("train ag-news --out refused") + Words(settings));
    check_fails(refused, parts);
  };
  refuses("data.path=data", {"data.class_names", "data/test.tsv: line 1: label \"neu\" is not",
                             "correct the label, or list all classes here"});
  refuses("data.path=one.txt",
          {"data.path", "has 1 class; expected at least two different labels"});
  refuses("model.kind=embeddings model.heads=2", {"model.heads", "is not used with model.kind"});
}

TEST_SUITE_END();

// Tests the task `word-vectors`, and embeddings that begin with its vectors.

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
