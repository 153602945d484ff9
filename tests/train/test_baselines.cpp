#include <doctest/doctest.h>

#include <cmath>

#include "autograd/parallel.hpp"
#include "data/text/bag_of_words.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"
#include "train/run/lines.hpp"
#include "train/tasks/linear_baseline.hpp"

// Tests the baselines of tasks but forecasts (test_forecast.cpp): their values, and what shows
// them.
namespace tapestry {
namespace {

constexpr int rows = 40, columns = 5;

double input(int i, int j) { return std::sin(1 + 3 * i + 7 * j); }

// Returns rows of five columns, sparse or dense, with these targets.
Batch examples(Array targets, bool is_sparse) {
  std::vector<SparseRow> all(rows);
  std::vector<double> dense;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      all[i].emplace_back(j, input(i, j));
      dense.push_back(input(i, j));
    }
  if (is_sparse) return batch_of_rows(all, columns, std::move(targets));
  return {
      .inputs = Array::of(dense, {rows, columns}), .targets = std::move(targets), .count = rows};
}

Array classes() {
  std::vector<std::int32_t> all;
  for (int i = 0; i < rows; ++i)
    all.push_back((i * i + (input(i, 0) > 0) + 2 * (input(i, 1) > 0.5)) % 3);
  return Array::of(all, {rows});
}

// Returns the softmax of the first row.
std::vector<double> first_probabilities(const Array& logits) {
  std::vector<double> all;
  double total = 0;
  for (std::int64_t i = 0; i < logits.dim(1); ++i) {
    all.push_back(std::exp(logits.values<double>()[i]));
    total += all.back();
  }
  for (double& one : all) one /= total;
  return all;
}

// Returns the members "baselines" of eval's JSON.
Json evaluated(const CommandFolder& folder, const Words& more = {}) {
  return Json::parse(must(folder.run(Words("eval run --json") + more)).out)["baselines"];
}

TEST_SUITE_BEGIN("baselines");

// scikit-learn 1.9.1: LogisticRegression(C=1, tol=1e-10) on the same numbers.
TEST_CASE("baselines: a linear model has the optimum of scikit-learn's LogisticRegression") {
  for (const bool is_sparse : {true, false}) {
    const Batch batch = examples(classes(), is_sparse);
    const LinearModel model(batch, 3);
    CHECK(model.objective() == doctest::Approx(0.7486886186797845).epsilon(1e-4));
    const std::vector<double> found = first_probabilities(model.outputs(batch));
    const std::vector<double> golden = {0.27482301, 0.65198502, 0.07319197};
    for (std::size_t i = 0; i < golden.size(); ++i)
      CHECK(found[i] == doctest::Approx(golden[i]).epsilon(3e-3));
  }
}

// scikit-learn 1.9.1: Ridge(alpha=1) on the same numbers.
TEST_CASE("baselines: a linear model of numbers has the optimum of scikit-learn's Ridge") {
  std::vector<double> targets;
  for (int i = 0; i < rows; ++i)
    targets.push_back(2 * input(i, 0) - input(i, 3) + 0.5 * std::cos(i));
  const Batch batch = examples(Array::of(targets, {rows, 1}), true);
  const LinearModel model(batch, 1);
  CHECK(model.objective() == doctest::Approx(0.09445850074964406).epsilon(1e-4));
  const std::vector<double> golden = {1.6934838, -1.35024996, 1.05464563};
  const Array found = model.outputs(batch);
  for (std::size_t i = 0; i < golden.size(); ++i)
    CHECK(found.values<double>()[i] == doctest::Approx(golden[i]).epsilon(3e-3));
}

TEST_CASE("baselines: a linear model has the same bits at any number of threads") {
  const int before = num_threads();
  std::vector<Array> found;
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    const Batch batch = examples(classes(), true);
    found.push_back(LinearModel(batch, 3).outputs(batch));
  }
  set_num_threads(before);
  CHECK(std::ranges::equal(found[0].values<double>(), found[1].values<double>()));
}

// scikit-learn 1.9.1: TfidfVectorizer(token_pattern=r"\b\w+\b") of the same texts.
TEST_CASE("baselines: words have the weights of scikit-learn's TfidfVectorizer") {
  const std::vector<std::string> texts = {"The cat sat on the mat", "A dog sat",
                                          "Cats and dogs: the CAT ran", "ÉTÉ été 12 cats"};
  const BagOfWords words(texts, 100);
  CHECK(words.size() == 13);
  std::vector<double> values;
  for (const auto& [word, value] : words.row(texts[0])) values.push_back(value);
  std::ranges::sort(values);
  const std::vector<double> golden = {0.32937638, 0.32937638, 0.41777218, 0.41777218, 0.65875277};
  REQUIRE(values.size() == golden.size());
  for (std::size_t i = 0; i < golden.size(); ++i)
    CHECK(values[i] == doctest::Approx(golden[i]).epsilon(1e-7));
  CHECK(words_of("Été, 3 猫!") == std::vector<std::string>{"été", "3", "猫"});
  CHECK(BagOfWords(texts, 2).size() == 2);
  CHECK(words.row("unknown").empty());
}

// Returns texts of which the first word tells the class.
std::string labeled_texts(int count) {
  std::string text = "text,label\n";
  for (int i = 0; i < count; ++i)
    text += fmt::format("{} number {},{}\n", i % 4 == 0 ? "soup" : "salad", i * 13 % count,
                        i % 4 == 0 ? "hot" : "cold");
  return text;
}

TEST_CASE_FIXTURE(CommandFolder, "baselines: are recorded when a training ends, and shown") {
  write("texts.csv", labeled_texts(200));
  const Words small =
      Words("data.kind=text data.path=texts.csv data.vocabulary=270 model.kind=embeddings") +
      Words("model.width=8 train.steps=3 train.batch_size=16 optim.learning_rate=1e-5");
  const std::string said = must(run(Words("train match-reports --out run") + small)).out;
  check_says(said, {"baseline majority class: loss ", "baseline linear model on words: loss ",
                    "No clear improvement on the baselines"});
  const SplitBaselines recorded = read_baselines(Run(path("run")));
  REQUIRE(recorded.size() == 1);
  const std::vector<Baseline>& all = recorded.at("val");
  REQUIRE(all.size() == 2);
  const double trained = 136. / 180;  // share of the majority class; 14 of 20 in the validation
  CHECK(all[0].metrics.at("accuracy") == doctest::Approx(0.7));
  CHECK(all[0].metrics.at("loss") ==
        doctest::Approx(-0.7 * std::log(trained) - 0.3 * std::log(1 - trained)));
  CHECK(all[0].metrics.at("macro_f1") == doctest::Approx(0.7 / 1.7));
  CHECK(all[1].metrics.at("accuracy") == 1);

  const Json of_eval = evaluated(*this);
  CHECK(of_eval["linear model on words"]["loss"] == all[1].metrics.at("loss"));
  check_says(must(run("eval run")).out, {"No clear improvement on the baselines"});
  check_says(must(run("compare run")).out, {"run: No clear improvement on the baselines"});
  const Json compared = Json::parse(must(run("compare run --json")).out);
  CHECK(compared["baselines"]["val"] == of_eval);
  must(run("report run"));
  check_says(read("run/report.html"),
             {"Comparison with baselines", "linear model on words", "No clear improvement"});

  const std::string lines = read("run/baselines.jsonl");
  write("run/baselines.jsonl", "");  // as of an earlier version: they are fitted again
  CHECK(evaluated(*this) == of_eval);
  write("run/baselines.jsonl", "damaged\n" + lines);
  CHECK(read_baselines(Run(path("run"))).at("val").size() == 2);
  CHECK(Json::parse(must(run("eval run --data texts.csv --json")).out).contains("baselines") ==
        false);
}

TEST_CASE_FIXTURE(CommandFolder, "baselines: have the same bits at any number of threads") {
  write("texts.csv", labeled_texts(100));
  const Words small =
      Words("data.kind=text data.vocabulary=270 model.kind=embeddings model.width=8") +
      Words("train.steps=6 train.eval_every=3 train.batch_size=16 data.path=texts.csv");
  must(run(Words("train match-reports --quiet --out one") + small + Words("train.threads=1")));
  must(run(Words("train match-reports --quiet --out four") + small + Words("train.threads=4")));
  CHECK(read("one/baselines.jsonl") == read("four/baselines.jsonl"));
  CHECK(read("one/checksums.jsonl") == read("four/checksums.jsonl"));
}

TEST_CASE_FIXTURE(CommandFolder, "baselines: synthetic data and stopped trainings have none") {
  must(run("train sort --quiet --out run train.steps=2 train.batch_size=8 model.width=16"));
  CHECK(!has("run/baselines.jsonl"));
}

TEST_CASE_FIXTURE(CommandFolder, "baselines: of a table of numbers and of classes") {
  std::string table = "a,b,color,price,size\n";
  for (int i = 0; i < 200; ++i)
    table += fmt::format("{},{},{},{},{}\n", i * 7 % 200, i * 11 % 50, i % 3 ? "red" : "blue",
                         3 * (i * 7 % 200) + (i % 3 ? 100 : 0), i * 7 % 200 > 100 ? "L" : "S");
  write("table.csv", table);
  const Words small =
      Words("data.kind=csv data.path=table.csv model.width=8 model.members=2 train.steps=2") +
      Words("train.batch_size=16");
  must(run(Words("train friedman --quiet --out run data.label_field=price") + small));
  const Json numbers = evaluated(*this);
  CHECK(numbers["training mean"]["r2"].get<double>() < 0.01);
  CHECK(numbers["linear model on columns"]["r2"].get<double>() > 0.9);
  CHECK(numbers["linear model on columns"]["rmse"].get<double>() <
        0.4 * numbers["training mean"]["rmse"].get<double>());
  std::filesystem::remove_all(path("run"));
  must(run(Words("train friedman --quiet --out run data.label_field=size") + small));
  const Json of_classes = evaluated(*this, Words("--test"));
  CHECK(of_classes["majority class"]["accuracy"].get<double>() < 0.8);
  CHECK(of_classes["linear model on columns"]["accuracy"].get<double>() > 0.9);
}

TEST_CASE_FIXTURE(CommandFolder, "baselines: of pictures, of nodes and of a text") {
  write_images(*this, "shapes", 12);
  must(run("train lenet --quiet --out run data.path=shapes train.steps=2 train.batch_size=8"));
  CHECK(evaluated(*this)["linear model on pixels"].contains("accuracy"));
  must(
      run("train clothes-vae --quiet --out vae data.path=shapes train.steps=2 train.batch_size=8 "
          "model.hidden=[8] model.channels=[]"));
  const SplitBaselines mean = read_baselines(Run(path("vae")));
  if (!mean.empty()) CHECK(mean.at("val").front().name == "mean image");

  write_papers(*this);
  must(
      run("train cora --quiet --out papers data.path=. data.training_nodes=100 "
          "data.validation_nodes=100 data.test_nodes=100 train.steps=2"));
  const SplitBaselines nodes = read_baselines(Run(path("papers")));
  CHECK(nodes.at("test").back().name == "linear model on features");

  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ab";
  write("text.txt", text);
  must(
      run("train shakespeare-fast --quiet --out text data.path=text.txt model.width=8 "
          "model.layers=1 model.heads=1 model.context=8 train.steps=2 train.batch_size=4"));
  const std::vector<Baseline> tokens = read_baselines(Run(path("text"))).at("val");
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].metrics.at("loss") == doctest::Approx(std::log(2)).epsilon(1e-3));
  CHECK(tokens[1].metrics.at("loss") < 0.01);
  CHECK(tokens[1].metrics.contains("bits_per_char"));
}

TEST_CASE("baselines: a model must have a better loss, and a better accuracy") {
  const Baselines baselines = {{"majority class", {{"loss", 1.1}, {"accuracy", 0.4}}},
                               {"linear model", {{"loss", 0.6}, {"accuracy", 0.9}}}};
  CHECK(comparison(baselines, {{"loss", 0.3}, {"accuracy", 0.88}}) ==
        "No clear improvement on the baselines: the accuracy of this model is 0.88, that of the "
        "linear model 0.9.");
  CHECK(contains(comparison(baselines, {{"loss", 0.3}, {"accuracy", 0.9001}}), "No clear"));
  CHECK(contains(comparison(baselines, {{"loss", 0.599}, {"accuracy", 0.95}}),
                 "the loss of this model is 0.599"));
  CHECK(comparison(baselines, {{"loss", 0.3}, {"accuracy", 0.95}}) ==
        "The accuracy is 0.95, that of the best baseline, linear model, 0.9.");
  CHECK(comparison(baselines, {{"loss", 0.3}}) ==
        "The loss is 50 % lower than that of the best baseline, linear model.");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
