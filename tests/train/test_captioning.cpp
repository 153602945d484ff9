#include <doctest/doctest.h>

#include "data/images/outfits.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"
#include "train/plot/figure.hpp"
#include "train/tasks/images/captioning.hpp"

// Tests the task that describes images, on a folder of pictures and captions.csv.
namespace tapestry {
namespace {

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
