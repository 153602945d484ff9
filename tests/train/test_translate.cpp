#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "data/images/outfits.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"
#include "train/generate/beam_search.hpp"
#include "train/plot/figure.hpp"
#include "train/tasks/images/captioning.hpp"

// Compares decoding of an encoder-decoder with decoders without caches, beams or batches.
namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t bos = 1, eos = 2;

// A small model with large random weights, whose choices differ from sentence to sentence.
EncoderDecoder make_model(const TransformerBlockOptions& kind = {}) {
  Random init(5, Stream::init);
  EncoderDecoder model({.source_vocabulary = 6,
                        .target_vocabulary = 5,
                        .source_context = 6,
                        .target_context = 8,
                        .encoder_layers = 1,
                        .decoder_layers = 2,
                        .block = {.width = 8,
                                  .attention = {.heads = 2,
                                                .positions = Positions::sinusoidal,
                                                .random_features = kind.attention.random_features},
                                  .norm = kind.norm}},
                       init);
  for (const Parameter* parameter : model.parameters()) {
    Array values = parameter->value();
    init.fill_normal(values, 0, 0.6);
  }
  return model;
}

const RandomFeaturesOptions positive{.features = 9, .map = FeatureMap::positive};
const TransformerBlockOptions kinds[] = {
    {},
    {.norm = NormPlacement::post},
    {.attention = {.random_features = RandomFeaturesOptions{.features = 9}}},
    {.attention = {.random_features = positive}}};

Array row(const Tokens& tokens) { return Array::of(tokens, {1, std::ssize(tokens)}); }

// Returns log P(token) after `target`, computed without a cache.
std::vector<double> log_probabilities(const EncoderDecoder& model, const Tokens& source,
                                      const Tokens& target) {
  Tokens inputs = target;
  inputs.insert(inputs.begin(), bos);
  const Tensor logits = model.decode(row(inputs), model.encode(row(source), {}));
  const Array all = log_softmax(logits).value().to(DType::float64);
  const auto last = all.values<double>().last(logits.dim(2));
  return {last.begin(), last.end()};
}

Tokens greedy(const EncoderDecoder& model, const Tokens& source, std::size_t limit) {
  Tokens target;
  while (target.size() < limit) {
    const auto next = log_probabilities(model, source, target);
    const auto token = std::ranges::max_element(next) - next.begin();
    if (token == eos) break;
    target.push_back(static_cast<std::int32_t>(token));
  }
  return target;
}

// Returns the best of all targets that end within `limit` tokens by log P / ((5 + length) / 6)^α;
// the length includes the end.
void search_all(const EncoderDecoder& model, const Tokens& source, const Tokens& target,
                double score, std::size_t limit, double alpha, std::pair<double, Tokens>& best) {
  const auto next = log_probabilities(model, source, target);
  for (std::size_t token = 0; token < next.size(); ++token) {
    const double reached = score + next[token];
    if (token == eos) {
      const double length = static_cast<double>(target.size()) + 1;
      const double rating = reached / std::pow((5 + length) / 6, alpha);
      if (rating > best.first) best = {rating, target};
    } else if (target.size() + 1 < limit) {
      Tokens longer = target;
      longer.push_back(static_cast<std::int32_t>(token));
      search_all(model, source, longer, reached, limit, alpha, best);
    }
  }
}

const std::vector<Tokens> sources{{3, 4, 5, 0}, {5, 5, 3, 1}, {0, 4, 4, 2}, {2, 3, 0, 5}};

Array all_sources() {
  Tokens flat;
  for (const Tokens& source : sources) flat.insert(flat.end(), source.begin(), source.end());
  return Array::of(flat, {std::ssize(sources), 4});
}

TEST_CASE("translate: one beam takes the most likely token of each row of a batch") {
  for (const TransformerBlockOptions& kind : kinds) {
    const EncoderDecoder model = make_model(kind);
    const auto targets = translate(model, all_sources(), {}, {.max_tokens = 7});
    for (std::size_t i = 0; i < sources.size(); ++i)
      CHECK(targets[i] == greedy(model, sources[i], 7));
  }
}

TEST_CASE("translate: many beams find the best of all targets") {
  for (const TransformerBlockOptions& kind : kinds)
    for (const double alpha : {0.0, 0.6, 2.0}) {
      CAPTURE(alpha);
      const EncoderDecoder model = make_model(kind);
      // 4³ unfinished targets have 5 continuations each.
      const auto targets = translate(model, all_sources(), {},
                                     {.beams = 320, .max_tokens = 4, .length_penalty = alpha});
      for (std::size_t i = 0; i < sources.size(); ++i) {
        std::pair<double, Tokens> best{-std::numeric_limits<double>::infinity(), {}};
        search_all(model, sources[i], {}, 0, 4, alpha, best);
        CHECK(targets[i] == best.second);
      }
    }
}

TEST_CASE("translate: padding of a source does not change the result") {
  const Array padded = Array::of<std::int32_t>({3, 4, 5, 0, 0, 0, 5, 3, 1, 1, 4, 4}, {2, 6});
  const Array padding = Array::of<std::int32_t>({0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1}, {2, 6});
  for (const TransformerBlockOptions& kind : kinds)
    for (const std::int64_t beams : {1, 3}) {
      const EncoderDecoder model = make_model(kind);
      const TranslateOptions options{.beams = beams, .max_tokens = 6};
      const auto together = translate(model, padded, padding, options);
      CHECK(together[0] == translate(model, row({3, 4, 5}), {}, options)[0]);
      CHECK(together[1] == translate(model, row({5, 3, 1, 1}), {}, options)[0]);
    }
}

TEST_CASE("translate: returns at most the requested tokens and the context") {
  EncoderDecoder model = make_model();
  for (const std::int64_t limit : {1, 3, 100}) {
    const auto targets = translate(model, all_sources(), {}, {.beams = 2, .max_tokens = limit});
    for (const Tokens& target : targets)
      CHECK(std::ssize(target) <= std::min<std::int64_t>(limit, 8));
  }
  CHECK_THROWS_AS(translate(model, all_sources(), {}, {.beams = 0}), std::invalid_argument);
}

// Tests the task that describes images, on a folder of pictures and captions.csv.

// Pictures of outfits, half of them with a second caption, and runs of two steps.
struct CaptioningFixture : CommandFolder {
  CaptioningFixture() {
    std::string table = "file_name,text\n";
    for (int i = 0; i < 24; ++i) {
      const Outfit outfit = make_outfit(1, SyntheticSplit::train, i);
      std::vector<std::uint8_t> pixels(3 * outfit_side * outfit_side);
      const std::size_t plane = pixels.size() / 3;
      for (std::size_t at = 0; at < pixels.size(); ++at)
        pixels[at] =
            static_cast<std::uint8_t>(255 * outfit.image.values<float>()[at % 3 * plane + at / 3]);
      write(fmt::format("outfits/{}.png", i), png(outfit_side, PNG_FORMAT_RGB, pixels));
      table += fmt::format("{}.png,{}\n", i, outfit.description);
      if (i % 2 == 0) table += fmt::format("{}.png,\"A Picture, number {}\"\n", i, i);
    }
    write("outfits/captions.csv", table);
  }
  std::string run(const Words& words) const { return must(CommandFolder::run(words)).out; }
  std::string train(const Words& more = {}) const {
    return run(Words("train clothes-captions --out run data.path=outfits train.steps=2 "
                     "train.eval_every=2 train.batch_size=4 data.vocabulary=400 model.width=16") +
               more);
  }
};

TEST_CASE_FIXTURE(CommandFolder, "init: sentence pairs, whose direction is asked for") {
  for (const std::string split : {"train", "dev", "test_2016"})
    for (const std::string language : {"de", "pt-BR", "en"}) {
      std::string lines;
      for (int i = 0; i < 60; ++i) lines += fmt::format("{} {} A\n", language, i * i % 37);
      write(fmt::format("pairs/{}.{}", split, language), lines);
    }
  for (const std::string split : {"train", "val"})  // of other data
    for (const std::string ending : {"py", "csv", "txt", "log", "ids"})
      write("pairs/" + split + "." + ending, "a\nb\n");
  const std::string languages = "pairs: sentences in the languages de, en, pt-BR; add --set data.";
  check_fails(run("init pairs"),
              {languages + "source_language=LANGUAGE, that of the sentences to translate"});
  check_fails(run("init pairs --set data.source_language=en"),
              {languages + "target_language=LANGUAGE, that of the translations"});
  check_fails(run("init pairs --set data.source_language=fr"), {languages + "source_language"});
  const Words to_german("--set data.source_language=en --set data.target_language=de");
  const std::string said = must(run(Words("init pairs --minutes 1 --out a.toml") + to_german)).out;
  check_says(said, {"pairs: translation", "training pairs         60", "test pairs             60",
                    "translates             en to de"});
  check_says(read("a.toml"), {"validation = \"dev\"", "test = \"test\"", "lower_case = false"});
  must(run("train a.toml train.steps=1 --quiet --out run"));
  for (const std::string split : {"train", "dev", "test_2016"})
    fs::remove(path("pairs/" + split + ".pt-BR"));
  must(run("init pairs --minutes 1 --out b.toml --set data.target_language=en"));
  check_says(read("b.toml"), {"source_language = \"de\""});
  write("pairs/test_2017.de", "x\n");
  write("pairs/test_2017.en", "x\n");
  check_fails(run(Words("init pairs") + to_german),
              {"data.test", "found several: test_2016, test_2017"});
  for (const std::string name : {"test_2016.de", "test_2017.de"}) fs::remove(path("pairs/" + name));
  must(run(Words("init pairs --minutes 1 --out c.toml") +
           to_german));  // sources alone are no test split
  write("pairs/train.en", "only one\n");
  check_fails(run(Words("init pairs") + to_german), {"line 2 has no translation"});
}

TEST_CASE_FIXTURE(CommandFolder, "init: folders that may have sentence pairs, and others") {
  for (const char* name : {"b/up.pt_BR", "b/up.sr-Latn", "c/a.cs", "c/b.ts"}) write(name, "x\n");
  check_fails(run("init b"),
              {"b: as sentence pairs: expected files train.LANGUAGE and val.LANGUAGE"});
  check_fails(run("init c"), {"c: expected images, time series"});
  for (const char* name : {"b/train.pt_BR", "b/train.sr-Latn"}) write(name, "x\n");
  check_fails(run("init b --set data.source_language=sr-Latn"),
              {"data.validation", "expected a file val*.sr-Latn"});
  check_fails(run("init b --set data.source_language=pt_BR --set data.target_language=pt_BR"),
              {"add --set data.target_language=LANGUAGE"});
}

TEST_SUITE_BEGIN("captioning");

TEST_CASE_FIXTURE(CaptioningFixture, "captioning: own pictures are trained on and described") {
  const std::string said = train("data.lower_case=true model.context=6 model.beams=2");
  check_says(
      said, {"21 for training, 2 for validation, 1 for test", "32 x 32 color pixels; 36 captions, ",
             " cut to 5 tokens", "test_bleu", "case:lc"});
  CHECK(!contains(said, "exact_match_new"));
  CHECK(!contains(said, "color_attention"));
  const Json sample = Json::parse(run("sample run --json --image outfits/3.png"));
  CHECK(sample["captions"].size() == 1);
  CHECK(sample["captions"][0]["image"] == "outfits/3.png");
  const std::string caption = sample["captions"][0]["caption"].get<std::string>();
  CHECK(Json::parse(run("sample run --json --index 1 --count 2"))["captions"].size() == 2);
  CHECK(run("sample run") == "run/samples.csv\nrun/samples.png\nrun/samples.svg\n");
  check_says(read("run/samples.csv"), {"image,caption,reference\nimage 0,"});
  check_says(run("predict run outfits --out all.csv"), {"24"});
  check_says(read("all.csv"), {"caption\n", "3.png," + caption + "\n"});
  run("attention run");
  const Json attention = Json::parse(run("attention run --json"));
  CHECK(attention["maps"].size() == 2);
  const auto& map = attention["maps"][1];
  CHECK(map["path"] == "decoder.1.cross_attention");
  CHECK(map["weights"].size() == map["queries"].size());
  double total = 0;
  for (const auto& row : map["weights"][0])
    for (const auto& weight : row) total += weight.get<double>();
  CHECK(total == doctest::Approx(1));
  run("report run");
  check_says(read("run/report.html"), {"<figcaption>image ", "where the decoder looks"});
  CHECK(!contains(read("run/report.html"), "Attention in one example"));
  const Json whole = Json::parse(run("eval run --data outfits --json"));
  CHECK(whole["examples"] == 36);
}

TEST_CASE_FIXTURE(CaptioningFixture, "captioning: init knows pictures with captions") {
  const std::string said = run("init outfits --minutes 1 --out own.toml");
  check_says(said, {"outfits: captioning\n", "training captions", "based on clothes-captions"});
  CHECK(!contains(said, "class"));
  run("train own.toml train.steps=1 --quiet");
  write("outfits/captions.csv", "0.png,one\n1.png,\n");
  for (const std::string task : {"", "--task captioning"})  // not that classes need folders
    check_refused(CommandFolder::run(Words("init outfits --out other.toml " + task)),
                  {"outfits/captions.csv: line 2: the caption is empty"});
  check_refused(CommandFolder::run(Words("train clothes-captions --out new data.path=outfits")),
                {"outfits/captions.csv: line 2: the caption is empty"});
  fs::remove(path("outfits/captions.csv"));
  check_fails(CommandFolder::run(Words("train clothes-captions --out new data.path=outfits")),
              {"data.path", "there is no captions.csv in it"});
  check_refused(CommandFolder::run(Words("train clothes-captions --out new model.patch=5")),
                {"model.patch = 5", "does not divide images of 32 × 32 pixels"});
}

TEST_CASE_FIXTURE(CaptioningFixture, "captioning: options of the attention are checked") {
  train();
  check_refused(CommandFolder::run(Words("attention run --head 1")),
                {"--head: ", "means of its heads"});
  check_refused(CommandFolder::run(Words("attention run --index 99")), {"--index 99: "});
  check_refused(CommandFolder::run(Words("sample run --image outfits/1.png --index 1")),
                {"--index: not used with --image"});
}

TEST_CASE_FIXTURE(CommandFolder, "captioning: outfits have metrics of new pairs and of attention") {
  must(
      run("train clothes-captions --out run data.training_images=40 data.test_images=40 "
          "train.steps=1 model.width=16 --quiet"));
  const Json test = Json::parse(must(run("eval run --test --json")).out);
  CHECK(test["color_attention_uniform"].get<double>() == doctest::Approx(1));
  CHECK(test["color_attention"].get<double>() == doctest::Approx(1).epsilon(0.5));
  CHECK(test.contains("exact_match_new"));
  const Json validation = Json::parse(must(run("eval run --json")).out);
  CHECK(!validation.contains("exact_match_new"));
  CHECK(validation["exact_match_shuffled"] == 0);
}

TEST_CASE("captioning: words are the tokens from one space to the next") {
  const std::vector<std::string> texts(40, "a red t-shirt above a red skirt");
  const BytePairTokenizer tokenizer = BytePairTokenizer::train(texts, {.vocabulary = 300});
  const std::vector<std::int32_t> tokens = tokenizer.encode("a red t-shirt");
  const std::vector<CaptionWord> words = words_of(tokenizer, tokens);
  REQUIRE(words.size() == 3);
  CHECK(words[1].text == "red");
  CHECK(words[2].text == "t-shirt");
  CHECK(words[2].last - words[2].first > 1);
  CHECK(words[2].last == std::ssize(tokens));
  CHECK(words_of(tokenizer, {}).empty());
}

TEST_CASE("captioning: attention is drawn over a light image, red where it is largest") {
  const Array image = Array::of<float>({0, 0, 1, 1, 0, 0, 1, 1}, {1, 2, 4});
  const Array over = attention_over(image, Array::of<float>({0, 0.5, 0.25, 0.25}, {1, 4}));
  CHECK(over.shape() == Shape{3, 2, 4});
  const auto values = over.values<float>();
  CHECK(values[0] == doctest::Approx(0.35));  // black, without attention
  CHECK(values[8] == doctest::Approx(0.35));
  CHECK(values[1] == doctest::Approx(0.15 * 0.35 + 0.85 * 0.88));  // the largest
  CHECK(values[9] == doctest::Approx(0.15 * 0.35 + 0.85 * 0.05));
  CHECK(values[10] == doctest::Approx(1 - 0.425 * 0.95));  // white, with half of it
  const std::vector<HeatMap> maps = attention_of_words("image 1", image, {"red", "shirt"},
                                                       Array::of<float>({1, 0, 0, 1}, {2, 1, 2}));
  CHECK(maps.size() == 3);
  CHECK(maps[2].title == "shirt");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
