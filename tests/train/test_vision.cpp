#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/ops.hpp"
#include "layers/models/vision_transformer.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/process.hpp"

// Image patches: how they are cut, what the transformer on them sees, and the task.
namespace tapestry {
namespace {

using Json = nlohmann::json;

TEST_SUITE_BEGIN("vision");

TEST_CASE("vision: squares are cut row by row, and hold their pixels row by row") {
  std::vector<float> counted(24);
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<float>(i);
  const Array squares = cut_squares(Array::of(counted, {1, 24}), 6, 2).value();  // 4 rows of 6
  CHECK(squares.shape() == Shape{1, 6, 4});
  const std::vector<float> wanted = {0,  1,  6,  7,  2,  3,  8,  9,  4,  5,  10, 11,
                                     12, 13, 18, 19, 14, 15, 20, 21, 16, 17, 22, 23};
  CHECK(std::ranges::equal(squares.values<float>(), wanted));
}

TEST_CASE("vision: without positions, the order of the patches says nothing") {
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

TEST_CASE("vision: learns an IDX folder's images, names them, and shows what it looks at") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& words) {
    return tapestry_run(with_sets(words), {.folder = folder.path()});
  };
  write_images(folder, "small", 6);
  write_images(folder, "large", 9);
  for (const std::string pooling : {"class", "mean"}) {
    const Finished trained = run(
        {"train", "clothes-vit", "--out", pooling, "data.path=small",
         "data.validation_fraction=0.3", "data.class_names=shirt, shoe", "model.patch=3",
         "model.width=8", "model.heads=2", "model.layers=1", "model.pooling=" + pooling,
         "model.dropout=0", "train.steps=60", "train.batch_size=10", "optim.learning_rate=1e-2"});
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    CHECK(Json::parse(run({"eval", pooling, "--json"}).out)["accuracy"] == 1);
    CHECK(Json::parse(run({"eval", pooling, "--test", "--json"}).out)["accuracy"] == 1);
    const auto lines = lines_of(run({"sample", pooling}).out);
    REQUIRE(lines.size() == 6);  // 0.3 of 20
    for (const std::string& line : lines) CHECK(line.ends_with("  right"));
    CHECK(lines_of(run({"sample", pooling, "--index", "5"}).out).size() == 1);
    CHECK(run({"attention", pooling, "--index", "2"}).status == 0);
    const std::string svg = read_bytes(folder.path(pooling + "/attention.svg"));
    check_says(svg, {"the image", "patches.encoder.0.attention, head 1"});
  }
  const std::string before = read_bytes(folder.path("mean/checkpoint.safetensors"));
  const std::pair<std::vector<std::string>, std::vector<std::string>> wrong[] = {
      {{"eval", "mean", "data.path=large"},
       {"large/train-images-idx3-ubyte", "bytes 8 to 15", "images of 6 x 6", "found 9 x 9"}},
      {{"train", "mean/config.toml", "--out", "mean", "--resume", "train.steps=70",
        "optim.decay_steps=70", "data.path=large"},
       {"large/train-images-idx3-ubyte", "bytes 8 to 15", "images of 6 x 6", "found 9 x 9"}},
      {{"train", "clothes-vit", "--out", "new", "data.path=small"},
       {"model.patch = 4: does not divide images of 6 × 6 pixels"}},
      {{"train", "clothes-vit", "--out", "new", "data.path=none"}, {"image files are missing"}},
      {{"train", "clothes-vit", "--out", "new", "data.class_names=a"}, {"expected 10 names"}},
      {{"sample", "mean", "--index", "6"}, {"--index 6", "0 to 5"}},
      {{"attention", "mean", "--index", "-1"}, {"--index", "0"}},
  };
  for (const auto& [words, parts] : wrong) {
    const Finished finished = run(words);
    CHECK(finished.status == 2);
    CHECK(lines_of(finished.err).size() == 1);
    check_says(finished.err, parts);
  }
  CHECK(!std::filesystem::exists(folder.path("new")));
  CHECK(read_bytes(folder.path("mean/checkpoint.safetensors")) == before);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
