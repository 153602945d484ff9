#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "data/text/text.hpp"
#include "tests/support/run_fixture.hpp"
#include "tests/support/tokens.hpp"
#include "train/generate/generate.hpp"
#include "train/generate/token_text.hpp"
#include "train/inspect/values.hpp"
#include "train/run/run.hpp"
#include "train/task_spec.hpp"

// Tests how tokens are chosen and texts printed during generation.
namespace tapestry {
namespace {

// Returns a model that predicts the same logits for any text: the biases of its output layer.
RecurrentNetwork constant_model(const std::vector<float>& logits) {
  Random init(1, Stream::init);
  RecurrentNetwork model({.vocabulary = std::ssize(logits), .width = 1}, init);
  const auto weights = model.head->weight.value().mutable_values<float>();
  std::ranges::fill(weights, 0.0F);
  std::ranges::copy(logits, model.head->bias.value().mutable_values<float>().begin());
  return model;
}

struct Shown {
  Strings pieces{};
  bool stopped = false;
  std::string text() const {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    return all;
  }
};

Shown shown(const Tokenizer& tokenizer, const Tokens& tokens, Strings stops = {}) {
  Shown result;
  TokenText text(tokenizer, std::move(stops),
                 [&](std::string_view piece) { result.pieces.emplace_back(piece); });
  for (const std::int32_t token : tokens)
    if (!text.add(token)) {
      result.stopped = true;
      return result;
    }
  text.finish();
  return result;
}

TEST_SUITE_BEGIN("sampling");

TEST_CASE("TokenText: returns complete characters") {
  const BytePairTokenizer tokenizer = small_tokenizer(story(), 265);  // bytes alone
  const std::string text = "aé日🙂b";
  CHECK(shown(tokenizer, tokenizer.encode(text)).pieces == Strings{"a", "é", "日", "🙂", "b"});
  for (const std::string odd : {"a\xE6\x97", "\xF0\x9F\x98x", "\x98\x80z", "\xFFq\xC3\xC3\xA9"}) {
    Tokens tokens;
    for (const char byte : odd) tokens.push_back(tokenizer.find(std::string(1, byte)));
    CHECK(shown(tokenizer, tokens).text() == tokenizer.decode(tokens));
  }
}

TEST_CASE("TokenText: delays text that may begin a stop, and returns nothing after one") {
  const CharVocabulary letters = CharVocabulary::of_text("abc\n");
  const auto given = [&](const std::string& text, const Strings& stops) {
    return shown(letters, letters.encode(text), stops);
  };
  CHECK(given("abcabc", {"ca"}).pieces == Strings{"a", "b"});
  CHECK(given("abcabc", {"ca"}).stopped);
  CHECK(given("aabaac", {"aac"}).pieces == Strings{"aab"});
  CHECK(given("aab", {"aac"}).text() == "aab");
  CHECK(given("abca", {"ab\n", "abca"}).text().empty());
  CHECK(given("cab", {"abc"}).text() == "cab");  // the incomplete part is printed at the end
  CHECK(!given("cab", {"abc"}).stopped);
  CHECK(given("bcab", {"ab", "ca"}).text() == "b");  // the first one in the text
}

TEST_CASE("choose_token: min_p keeps tokens with a share of the largest probability") {
  const Array logits = Array::of<float>({1, 3, 2, -1, 2.9F}, {5});
  Random random(3, Stream::sample);
  const auto chosen = [&](const SamplingOptions& options) {
    std::set<std::int32_t> tokens;
    for (int i = 0; i < 500; ++i) tokens.insert(choose_token(logits, options, random));
    return tokens;
  };
  using Set = std::set<std::int32_t>;
  CHECK(chosen({}) == Set{0, 1, 2, 3, 4});
  CHECK(chosen({.min_p = 0.3}) == Set{1, 2, 4});  // e^-1 = 0.37, e^-2 = 0.14
  CHECK(chosen({.min_p = 0.5}) == Set{1, 4});
  CHECK(chosen({.min_p = 1}) == Set{1});
  CHECK(chosen({.temperature = 4, .min_p = 0.5}) == Set{0, 1, 2, 4});  // e^-0.5 = 0.61
  CHECK(chosen({.top_k = 2, .min_p = 0.01}) == Set{1, 4});
  CHECK(chosen({.top_p = 0.6, .min_p = 0.01}) == Set{1, 4});
  std::array<int, 5> counts{};
  for (int i = 0; i < 20000; ++i) ++counts[choose_token(logits, {.min_p = 0.3}, random)];
  const double total = std::exp(1) + std::exp(0) + std::exp(0.9);
  CHECK(counts[1] / 20000.0 == doctest::Approx(std::exp(1) / total).epsilon(0.03));
  CHECK(counts[2] / 20000.0 == doctest::Approx(1 / total).epsilon(0.05));
}

TEST_CASE("generate: the repetition penalty is that of transformers") {
  const auto greedy = [](const std::vector<float>& logits, const Tokens& prompt, double penalty) {
    Random random(1, Stream::sample);
    return generate(constant_model(logits), prompt, 6,
                    {.temperature = 0, .repetition_penalty = penalty}, random);
  };
  // RepetitionPenaltyLogitsProcessor of transformers 5.23 with greedy decoding.
  CHECK(greedy({1.0F, 2.0F, 1.8F, 2.5F, -0.5F, -0.6F}, {3}, 1.5) == Tokens{1, 2, 3, 3, 3, 3});
  CHECK(greedy({1.0F, 2.0F, 1.8F, 2.5F, -0.5F, -0.6F}, {3}, 5) == Tokens{1, 2, 0, 3, 3, 3});
  CHECK(greedy({-1.0F, -1.4F, -3.0F}, {0}, 1.5) == Tokens{1, 0, 0, 0, 0, 0});
  CHECK(greedy({-1.0F, -1.4F, -3.0F}, {0}, 1) == Tokens{0, 0, 0, 0, 0, 0});
}

TEST_CASE_FIXTURE(RunFixture, "sample: a text is printed while it is generated") {
  must_train("text", "run", "train.steps=2");
  const TrainedModel trained = load_trained(path("run"), {}, false);
  const Sample sample =
      spec_of(trained.config)
          .samples.show(*trained.task, {{"prompt", "green"}, {"tokens", "12"}, {"stop", "zz"}});
  Strings pieces;
  sample.stream([&](std::string_view piece) { pieces.emplace_back(piece); });
  CHECK(pieces.size() >= 12);
  CHECK(pieces.front() == "green");
  CHECK(pieces.back() == "\n");
}

TEST_CASE_FIXTURE(RunFixture,
                  "sample: reads prompts from files and stops, and names errors in them") {
  must_train("text", "run", "train.steps=2");
  write("prompt", "green\n");
  write("latin", "caf\xE9");
  const auto sample = [&](const Words& more) {
    return tapestry_run("sample run --tokens 30" + more, {.folder = path()});
  };
  const std::string whole = sample("--prompt green").out;
  CHECK(sample("--prompt-file prompt").out == whole);
  const std::string program = std::string(paths::emulator) + " " + paths::program;
  CHECK(run_program(
            {"sh", "-c", "printf green | " + program + " sample run --tokens 30 --prompt-file -"},
            {.folder = path()})
            .out == whole);
  for (std::size_t at = 6; at < 30; at += 5) {
    const std::string stop = whole.substr(at, 2),
                      said = sample({"--prompt", "green", "--stop", stop}).out;
    CHECK(said == whole.substr(0, whole.find(stop, 5)) + "\n");
  }
  CHECK(sample("--prompt green --stop reen").out.starts_with("green"));
  for (const auto& [first, second] : {std::pair{12, 24}, {24, 12}})
    CHECK(sample({"--prompt", "green", "--stop", whole.substr(first, 4), "--stop",
                  whole.substr(second, 4)})
              .out == sample({"--prompt", "green", "--stop", whole.substr(12, 4)}).out);
  CHECK(sample("--tokens 3 --tokens 4").status == 2);
  sample({"--prompt", "green", "--stop", whole.substr(20, 2), "--out", "text"});
  CHECK(read("text") == sample({"--prompt", "green", "--stop", whole.substr(20, 2)}).out);
  CHECK(sample("--prompt green --repetition-penalty 3").out != whole);
  CHECK(sample("--min-p 1").out == sample("--temperature 0").out);
  const Refusal rows[] = {
      {"--prompt-file none", {"none: cannot be opened"}},
      {"--prompt-file latin", {"latin: byte 3 (line 1): 0xe9 is not UTF-8"}},
      {"--prompt wall --prompt-file prompt", {"--prompt-file prompt: is not used with"}},
      {"--prompt-file /dev/zero", {"/dev/zero: is a pipe or a device"}},
      {"--min-p 2", {"--min-p 2: expected between 0 and 1"}},
      {"--repetition-penalty 0", {"--repetition-penalty 0: expected between 0.01 and 100"}}};
  for (const Refusal& row : rows) check_refused(sample(row.words), row.parts);
}

TEST_CASE_FIXTURE(RunFixture, "bug: a prompt longer than the context was cut without a message") {
  must_train("text", "run", "train.steps=2");
  const auto sample = [&](const Words& more) {
    return must(tapestry_run("sample run --tokens 2" + more, {.folder = path()}));
  };
  CHECK(sample({"--prompt", "12345678"}).err == "");
  const std::string said =
      "tapestry: the prompt has 9 tokens; the model reads the last 8, its "
      "context\n";
  CHECK(sample({"--prompt", "012345678"}).err == said);
  CHECK(sample({"--prompt", "012345678", "--json"}).err == said);
  CHECK(sample({"--prompt-file", write("prompt", "012345678\n")}).err == said);
  write("prompts", "1\n012345678\n0123456789\n");
  CHECK(
      sample({"--prompts", "prompts"}).err ==
      "tapestry: prompts: 2 prompts longer than the context; the model reads the last 8 tokens\n");
  must_train("text", "recurrent", "train.steps=2 model.kind=recurrent");
  CHECK(must(tapestry_run({"sample", path("recurrent"), "--prompt", "012345678"})).err == "");
  for (const std::string kind : {"lstm", "gru"}) {
    must_train("text", kind, "train.steps=2 model.kind=" + kind);
    const Finished one = must(tapestry_run({"sample", path(kind), "--prompt", "0123"})),
                   again = must(tapestry_run({"sample", path(kind), "--prompt", "0123"}));
    CHECK(one.out.size() > 4);
    CHECK(one.out == again.out);
  }
}

TEST_CASE_FIXTURE(RunFixture, "bug: sample --json added a line end to the text") {
  must_train("text", "run", "train.steps=2");
  const auto sample = [&](const Words& more) {
    return must_run("sample run --prompt green --tokens 12" + more, {.folder = path()});
  };
  CHECK(Json::parse(sample("--json"))["text"].get<std::string>() + "\n" == sample({}));
  CHECK(Json::parse(sample("--json --count 2"))["text"].get<std::string>() + "\n" ==
        sample("--count 2"));
}

TEST_CASE_FIXTURE(RunFixture, "sample: a text ends with the token that ends documents") {
  write("letters.txt", "a b\nc d\ne f\n");
  // A model trained on short documents: every second token is an end.
  write("tokenizer.json", small_tokenizer("a b c d e f", 262).to_json());
  std::string text;
  for (int i = 0; i < 200; ++i) text += "ab\n";
  write("lines.txt", text);
  const RunOptions here{.folder = path()};
  REQUIRE(tapestry_run("tokens lines.txt --documents lines --tokenizer tokenizer.json --out shards",
                       here)
              .status == 0);
  must_train("text", "run",
             Words("data.path={} train.steps=60 optim.learning_rate=0.01 model.dropout=0",
                   path("shards")));
  const auto sample = [&](const Words& more) {
    return tapestry_run("sample run --temperature 0" + more, here).out;
  };
  CHECK(sample({}) == "ab\n");
  CHECK(sample("--prompt a") == "ab\n");
  CHECK(sample("--count 2") == "ab\n---\nab\n");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
