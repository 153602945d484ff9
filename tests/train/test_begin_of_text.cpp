#include <doctest/doctest.h>

#include <cmath>

#include "data/text/token_shards.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tokens.hpp"
#include "train/model.hpp"

namespace tapestry {
namespace {

// Two texts, of which the second one is the validation split and fits into the context, and a
// tokenizer whose template puts <|begin|> before each text.
struct Beginnings : public RunFixture {
  Beginnings() {
    const Strings texts = {first + second};
    const BytePairTokenizer trained = BytePairTokenizer::train(
        texts, {.vocabulary = 300, .special_tokens = {"<|begin|>", "<|endoftext|>"}});
    BytePairModel model = trained.model();
    model.before = {trained.find("<|begin|>")};
    write("tokenizer.json", BytePairTokenizer(model).to_json());
    write("texts/1.txt", first);
    write("texts/2.txt", second);
    std::string config = text_toml;
    config.replace(config.find("PATH"), 4, path("texts"));
    config.replace(config.find("[model]"), 0,
                   "tokenizer = \"" + path("tokenizer.json") + "\"\nvalidation_fraction = 0.25\n");
    config.replace(config.find("context = 8"), 11, "context = 100");
    write("begun.toml", config);
  }

  // Returns the mean loss of these tokens, which fit into the context, each after those before it.
  static double loss_of(const Model& model, const Tokens& tokens) {
    const Matrix logits = model.logits(std::span(tokens).first(tokens.size() - 1));
    double nats = 0;
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      const auto row = logits.row(static_cast<std::int64_t>(t));
      double sum = 0;
      for (const float logit : row) sum += std::exp(logit);
      nats += std::log(sum) - row[tokens[t + 1]];
    }
    return nats / static_cast<double>(tokens.size() - 1);
  }

  const std::string first = story(40).substr(0, 600), second = story(60).substr(700, 200);
  static constexpr std::int32_t begin = 0, end = 1;
};

TEST_CASE_FIXTURE(
    Beginnings,
    "bug: texts were evaluated without the begin-of-text token that sample puts first") {
  must_train("begun", "run");
  check_says(read("run/config.toml"), {"begin_of_text = true"});
  const Model model(path("run"));
  Tokens tokens = model.tokenize(second);
  CHECK(tokens.front() == begin);
  tokens.push_back(end);
  CHECK(loss_of(model, tokens) == doctest::Approx(eval("run")["loss"].get<double>()).epsilon(1e-5));

  must_train("begun", "without", "data.begin_of_text=false");
  const Model without(path("without"));
  Tokens bare = without.tokenize(second);
  CHECK(Tokens(tokens.begin() + 1, tokens.end() - 1) == bare);
  bare.push_back(end);
  CHECK(loss_of(without, bare) ==
        doctest::Approx(eval("without")["loss"].get<double>()).epsilon(1e-5));
  must(tapestry_run("export {} --format huggingface --out {}", path("without"), path("exported")));
  CHECK(BytePairTokenizer::load(path("exported/tokenizer.json")).before_text().empty());
  must(tapestry_run("export {} --format huggingface --out {}", path("run"), path("exported-run")));
  CHECK(BytePairTokenizer::load(path("exported-run/tokenizer.json")).before_text().size() == 1);
}

TEST_CASE_FIXTURE(Beginnings, "begin of text: a run of an earlier version evaluates without it") {
  must_train("begun", "earlier", "data.rules=1");
  const Model model(path("earlier"));
  Tokens bare = model.tokenize(second);
  CHECK(bare.front() != begin);
  bare.push_back(end);
  CHECK(loss_of(model, bare) ==
        doctest::Approx(eval("earlier")["loss"].get<double>()).epsilon(1e-5));
  // but a sample begins with it
  const GenerationOptions greedy{.tokens = 5, .temperature = 0};
  Tokens prompt = {begin};
  for (const std::int32_t token : model.tokenize("green")) prompt.push_back(token);
  CHECK(model.generate("green", greedy) == model.detokenize(model.generate(prompt, greedy)));
}

TEST_CASE_FIXTURE(Beginnings, "begin of text: shards record whether their documents have it") {
  must(tapestry_run("tokens {} --tokenizer {} --out {}", path("texts"), path("tokenizer.json"),
                    path("shards")));
  const TokenShards shards(path("shards"));
  CHECK(shards.begins_documents());
  Tokens start(1);
  shards.read(0, start);
  CHECK(start.front() == begin);
  const Words from_shards = {"data.tokenizer=", "data.path=" + path("shards"), "model.context=20"};
  must_train("begun", "of-shards", from_shards);
  check_says(read("of-shards/config.toml"), {"begin_of_text = true"});
  check_fails(train("begun", "refused", from_shards + "data.begin_of_text=false"),
              {"data.begin_of_text = false: the documents in the shards begin with begin-of-text "
               "tokens; create the shards again with `tapestry tokens --no-begin-of-text`"});
  check_fails(train("begun", "refused", from_shards + "data.rules=1"),
              {"data.rules = 1: the documents in the shards begin with"});
  must(tapestry_run("tokens {} --tokenizer {} --out {} --no-begin-of-text", path("texts"),
                    path("tokenizer.json"), path("bare")));
  must_train("begun", "of-bare",
             {"data.tokenizer=", "data.path=" + path("bare"), "model.context=20",
              "data.begin_of_text=false", "train.steps=1"});

  // Shards of an earlier version have no such token, and a training on them says so in its config.
  const TemporaryFolder earlier;
  write_shards(earlier, BytePairTokenizer::load(path("tokenizer.json")), first + second, 1000);
  must_train("begun", "of-earlier",
             {"data.tokenizer=", "data.path=" + earlier.path(), "model.context=20"});
  check_says(read("of-earlier/config.toml"), {"begin_of_text = false"});
  check_fails(train("begun", "refused",
                    {"data.tokenizer=", "data.path=" + earlier.path(), "model.context=20",
                     "data.begin_of_text=true"}),
              {"data.begin_of_text = true: the documents in the shards do not begin with"});
  check_fails(tapestry_run("eval {} --set data.path={}", path("of-shards"), earlier.path()),
              {"the documents in the shards do not begin with begin-of-text tokens"});
}

}  // namespace
}  // namespace tapestry
