#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "layers/models/vision_transformer.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/process.hpp"
#include "train/tasks/classification.hpp"

// Tests image patches, the transformer on them, and the task.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("vision");

TEST_CASE("vision: patches are cut row by row, and have their pixels row by row") {
  std::vector<float> counted(24);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<float>(i);
  const Array squares =
      cut_squares(Array::of(counted, {1, 24}), {.height = 4, .width = 6, .patch = 2}).value();
  CHECK(squares.shape() == Shape{1, 6, 4});
  const std::vector<float> wanted = {0,  1,  6,  7,  2,  3,  8,  9,  4,  5,  10, 11,
                                     12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23};
  CHECK(std::ranges::equal(squares.values<float>(), wanted));
  // Patches of two channels of 2 × 6 pixels have one channel after the other.
  const Array two = cut_squares(Array::of(counted, {1, 24}),
                                {.channels_in = 2, .height = 2, .width = 6, .patch = 2})
                        .value();
  CHECK(two.shape() == Shape{1, 3, 8});
  const std::vector<float> first = {0, 1, 6, 7, 12, 13, 18, 19};
  CHECK(std::ranges::equal(two.values<float>().first(8), first));
}

TEST_CASE("vision: balanced weights give every class the same weight in the objective") {
  CHECK(balanced_weights({0, 0, 0, 2}, 3) == std::vector<double>{4 / 9.0, 0, 4 / 3.0});
  const Tensor logits(Array::of<double>({0, std::log(3), 1, 1, 5, 5}, {3, 2}));
  const Array targets = Array::of<std::int32_t>({1, 0, ignored_target}, {3});
  const Tensor loss = weighted_cross_entropy(logits, targets, {0.5, 2});
  CHECK(loss.item() == doctest::Approx(2 * std::log(4.0 / 3) + 0.5 * std::log(2.0)));
}

TEST_CASE("vision: without positions, the order of patches does not matter") {
  Random init(1, Stream::init);
  for (const Readout readout : {Readout::class_token, Readout::mean})
    for (const Positions positions : {Positions::none, Positions::learned}) {
      VisionTransformer model(
          {.height = 4,
           .width = 4,
           .patch = 2,
           .classes = 3,
           .layers = 2,
           .block = {.width = 8, .attention = {.heads = 2, .positions = positions}},
           .readout = readout},
          init);
      model.convert(DType::float64);
      if (positions == Positions::learned)
        init.fill_normal(
            const_cast<Array&>(model.patches.position_embedding.weight->tensor.value()), 0, 1);
      Array image({1, 16}, DType::float64);
      Random(2, Stream::data).fill_uniform(image, 0, 1);
      const Tensor halves = concat({slice(image, 1, 8, 16), slice(image, 1, 0, 8)}, 1);
      const Array y = model.forward(image).value(), z = model.forward(halves).value();
      double difference = 0;
      for (std::size_t i = 0; i < 3; ++i)
        difference += std::abs(y.values<double>()[i] - z.values<double>()[i]);
      CHECK((difference < 1e-12) == (positions == Positions::none));
    }
}

TEST_CASE_FIXTURE(CommandFolder,
                  "vision: trains on an IDX folder, names classes and shows attention") {
  write_images(*this, "small", 6);
  write_images(*this, "large", 9);
  for (const std::string pooling : {"class", "mean"}) {
    must(run({"train", "clothes-vit", "--out", pooling, "data.path=small",
              "data.validation_fraction=0.3", "data.class_names=shirt, shoe", "model.patch=3",
              "model.width=8", "model.heads=2", "model.layers=1", "model.pooling=" + pooling,
              "model.dropout=0", "train.steps=60", "train.batch_size=10",
              "optim.learning_rate=1e-2"}));
    CHECK(Json::parse(run(Words("eval {} --json", pooling)).out)["accuracy"] == 1);
    CHECK(Json::parse(run(Words("eval {} --test --json", pooling)).out)["accuracy"] == 1);
    const auto lines = lines_of(run("sample " + pooling).out);
    REQUIRE(lines.size() == 6);  // 0.3 of 20
    for (const std::string& line : lines) CHECK(line.ends_with("  right"));
    CHECK(lines_of(run(Words("sample {} --index 5", pooling)).out).size() == 1);
    CHECK(run(Words("attention {} --index 2", pooling)).status == 0);
    const std::string svg = read(pooling + "/attention.svg");
    check_says(svg, {"the image", "patches.encoder.0.attention, head 1, max 0."});
  }
  const std::string before = read("mean/checkpoint.safetensors");
  const std::pair<Words, Strings> wrong[] = {
      {"eval mean data.path=large",
       {"large/train-images-idx3-ubyte", "bytes 8 to 15", "images of 6 x 6", "found 9 x 9"}},
      {"train mean/config.toml --out mean --resume train.steps=70 optim.decay_steps=70 "
       "data.path=large",
       {"large/train-images-idx3-ubyte", "bytes 8 to 15", "images of 6 x 6", "found 9 x 9"}},
      {"train clothes-vit --out new data.path=small",
       {"model.patch = 4 (default): does not divide images of 6 × 6 pixels"}},
      {"train clothes-vit --out new data.path=none",
       {"the training images are missing", "no folder"}},
      {"train clothes-vit --out new data.class_names=a", {"expected 10 names"}},
      {"sample mean --index 6", {"--index 6", "0 to 5"}},
      {"attention mean --index -1", {"--index", "0"}}};
  for (const auto& [words, parts] : wrong) {
    check_fails(here(words), parts);
  }
  CHECK(!has("new"));
  CHECK(read("mean/checkpoint.safetensors") == before);
}

TEST_CASE_FIXTURE(CommandFolder,
                  "vision: convolutions train on IDX images, and have no attention") {
  write_images(*this, "small", 6);
  const Words own =
      "data.path=small data.validation_fraction=0.3 train.batch_size=10 "
      "train.steps=60 optim.learning_rate=1e-2" +
      Words{"data.class_names=shirt, shoe"};
  for (const auto& [name, config, settings] :
       {std::tuple{"plain", "lenet", "model.padding=[2,2]"},
        {"average", "lenet", "model.padding=[2,2] model.pool=average model.norm_groups=2"},
        {"blocks", "clothes-cnn", "model.channels=[8,16] optim.warmup_steps=0"},
        {"other", "clothes-vit", "model.kind=convolutional model.pool=none model.dropout=0"}}) {
    CAPTURE(name);
    must(run(Words("train {} --out {}", config, name) + settings + own));
    CHECK(Json::parse(run(Words("eval {} --test --json", name)).out)["accuracy"] == 1);
    for (const std::string& line : lines_of(run(Words("sample {}", name)).out))
      CHECK(line.ends_with("  right"));
    check_fails(here(Words("attention {}", name)),
                {"a convolutional network has no attention to draw"});
    CHECK(run(Words("report {}", name)).status == 0);
    check_says(read(std::string(name) + "/report.html"), {"Confusion matrix"});
  }
  const std::pair<Words, Strings> wrong[] = {
      {"model.channels=[]", {"model.channels = []: expected at least one stage"}},
      {"model.padding=[2]", {"model.padding = [2]: expected one number for each of 2 stages"}},
      {"model.padding=[2,0]",
       {"model.channels = [6, 16]: nothing is left of images of 6 × 6 pixels after 2 stages"}},
      {"model.padding=[] model.norm_groups=4",
       {"model.norm_groups = 4: does not divide 6 channels"}},
      {"model.padding=[] model.blocks=1 model.kernel=4",
       {"model.kernel = 4: expected an odd number"}},
      {"model.patch=7", {"model.patch", "model.kind = \"convolutional\""}},
      {"model.padding=[2,2] model.blocks=1", {"model.padding", "model.blocks = 1"}}};
  for (const auto& [settings, parts] : wrong) {
    check_fails(here("train lenet --out new" + settings + "data.path=small"), parts);
  }
  CHECK(!has("new"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: vision: other images had the class names of clothes") {
  write_images(*this, "small", 6);
  const auto run = [&](const Words& words, const std::string& out, const std::string& names) {
    Words all = words + Words(
                            "--out {} data.path=small model.patch=3 model.width=8 model.heads=2 "
                            "model.layers=1 train.steps=2 train.batch_size=4",
                            out);
    if (!names.empty()) all.push_back("data.class_names=" + names);
    return tapestry_run(all, {.folder = path()});
  };
  const auto shown = [&](const std::string& out) {
    return tapestry_run(Words("sample {} --count 2", out), {.folder = path()}).out;
  };
  REQUIRE(run("train clothes-vit", "unnamed", "").status == 0);
  CHECK(shown("unnamed").find("trousers") == std::string::npos);
  for (const std::string& line : lines_of(shown("unnamed"))) {
    CAPTURE(line);
    CHECK(std::string("0123456789").find(line[line.find(": ") + 2]) != std::string::npos);
  }
  for (const char* names : {R"(["shirt", "shoe"])", "shirt,shoe"}) {
    const std::string out = names[0] == '[' ? "list" : "text";
    const Finished trained = run("train clothes-vit", out, names);
    CHECK_MESSAGE(trained.status == 0, trained.err);
    check_says(shown(out), {": sh"});
  }
  check_fails(
      run("train clothes-vit", "twice", R"(["shirt", "shirt"])"),
      {"data.class_names = [\"shirt\", \"shirt\"]: the name \"shirt\": expected different names"});
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: vision: a text was read as a picture, and a key changed the scale") {
  const RunOptions here{.folder = path()};
  const Finished trained = tapestry_run(
      "train clothes-vit --out run data.training_images=8 data.test_images=4 model.width=8 "
      "model.heads=2 model.layers=1 train.steps=1 train.batch_size=4",
      here);
  REQUIRE_MESSAGE(trained.status == 0, trained.err);
  for (const std::string name : {"x.png", "x.svg"}) {
    check_fails(run_here("sample run --out " + name, here),
                {std::string("--out ") + name, "are text, not a picture"});
    CHECK(!has(name));
  }
  CHECK(tapestry_run("sample run --out x.txt", here).status == 0);
  REQUIRE(tapestry_run("attention run --out map.svg", here).status == 0);
  const std::string svg = read("map.svg");
  check_says(svg, {"each map", ", max 0.0"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
