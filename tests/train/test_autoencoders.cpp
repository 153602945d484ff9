#include <doctest/doctest.h>

#include "data/images/images.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/values.hpp"

// Autoencoders from the command line.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("autoencoders");

// A folder with tiny runs of both autoencoders.
class Wardrobe : public CommandFolder {
 public:
  Wardrobe() {
    for (const std::string name : {"clothes-vae", "clothes-autoencoder"}) {
      must(
          run("train {} --out {} model.hidden=[8] data.training_images=30 "
              "data.test_images=10 train.steps=3 train.batch_size=5",
              name, name));
    }
  }
  // Width and height of a PNG.
  std::pair<int, int> extent(const std::string& name) const {
    const std::string png = read_bytes(path(name));
    CHECK(png.starts_with("\x89PNG\r\n\x1a\n"));
    const auto number = [&](std::size_t at) {
      int value = 0;
      for (std::size_t i = 0; i < 4; ++i)
        value = value << 8 | static_cast<unsigned char>(png[at + i]);
      return value;
    };
    return {number(16), number(20)};
  }
};

// Of a grid of 28 × 28 pictures.
std::pair<int, int> grid(int columns, int rows) { return {columns * 57 + 1, rows * 57 + 1}; }

TEST_CASE_FIXTURE(Wardrobe, "sample: every kind of picture, of both autoencoders") {
  for (const std::string run : {"clothes-vae", "clothes-autoencoder"}) {
    CAPTURE(run);
    const auto sample = [&](const Words& words) {
      const Finished finished = must(this->run(Words("sample {}", run) + words));
      const std::string path = finished.out.substr(0, finished.out.find('\n'));
      return std::pair{path, path.empty() ? std::pair{0, 0} : extent(path)};
    };
    CHECK(sample({}) == std::pair{run + "/samples.png", grid(8, 8)});
    CHECK(sample("--kind prior --count 3") == std::pair{run + "/prior.png", grid(2, 2)});
    CHECK(sample("--kind reconstructions").second == grid(8, 3));  // of 10 images
    CHECK(sample("--kind reconstructions --index 6 --count 3").second == grid(8, 1));
    CHECK(sample("--kind around --index 9").second == grid(8, 8));
    CHECK(sample("--kind interpolation") == std::pair{run + "/interpolation.png", grid(10, 5)});
    CHECK(sample("--kind interpolation --index 5 --out path.png") ==
          std::pair{std::string("path.png"), grid(10, 2)});

    // Without spread, all that is around an image is its reconstruction.
    const auto around = [&](const std::string& spread, const std::string& seed) {
      sample({"--kind", "around", "--spread", spread, "--seed", seed, "--out", "a.png"});
      return read("a.png");
    };
    CHECK(around("0", "1") == around("0", "2"));
    CHECK(around("1", "1") != around("1", "2"));
    CHECK(around("1", "1") == around("1", "1"));
  }
}

TEST_CASE_FIXTURE(Wardrobe, "latent: every image's code as CSV, and the cloud as PNG and SVG") {
  for (const std::string run : {"clothes-vae", "clothes-autoencoder"}) {
    CHECK(must(this->run("latent {} --out cloud", run)).out == "cloud.csv\ncloud.png\ncloud.svg\n");
    const auto lines = lines_of(read("cloud.csv"));
    CHECK(lines.size() == 1 + 30 + 10 + 10);
    CHECK(lines[0] == "image,split,class,z1,z2,z3");
    CHECK(lines[12].starts_with("11,train,trousers,"));
    CHECK(lines[40].starts_with("9,validation,"));
    CHECK(lines[50].starts_with("9,test,"));
    const std::string svg = read("cloud.svg");
    for (int garment = 0; garment < garment_classes; ++garment)
      check_says(svg, {garment_name(garment)});
  }
  CHECK(this->run("latent clothes-vae").out ==
        "clothes-vae/latent.csv\nclothes-vae/latent.png\nclothes-vae/latent.svg\n");
}

TEST_CASE_FIXTURE(Wardrobe, "bug: an autoencoder's figures depended on train.eval_batch_size") {
  const auto eval = [&](const Words& more) {
    return Json::parse(run("eval clothes-vae --json" + more).out);
  };
  const auto whole = eval("train.eval_batch_size=100");
  for (const int size : {1, 3, 7})
    for (const char* figure : {"loss", "recon", "kl", "mse"}) {
      CAPTURE(size);
      CAPTURE(figure);
      const double part = eval({fmt::format("train.eval_batch_size={}", size)})[figure];
      CHECK(part == doctest::Approx(whole[figure].get<double>()).epsilon(2e-6));  // sums' rounding
    }
}

TEST_CASE_FIXTURE(Wardrobe, "clothes: what is wrong is one line, and nothing of the run is lost") {
  const auto big_endian = [](int value) {
    return std::string{'\0', '\0', static_cast<char>(value >> 8), static_cast<char>(value)};
  };
  // Two images of 14 × 14 pixels and their labels.
  for (const std::string split : {"train", "t10k"}) {
    write(split + "-images-idx3-ubyte", std::string("\0\0\x08\x03", 4) + big_endian(2) +
                                            big_endian(14) + big_endian(14) +
                                            std::string(2 * 14 * 14, 'x'));
    write(split + "-labels-idx1-ubyte",
          std::string("\0\0\x08\x01", 4) + big_endian(2) + std::string(2, '\3'));
  }
  const Strings size = {"train-images-idx3-ubyte", "bytes 8 to 15", "expected images of 28 x 28",
                        "found 14 x 14"};
  const Refusal rows[] = {
      {"eval clothes-vae data.path=.", size},
      {"latent clothes-vae data.path=.", size},
      {"sample clothes-vae --kind around data.path=.", size},
      {"train clothes-vae --out clothes-vae --resume model.hidden=[8] train.batch_size=5 "
       "train.steps=9 data.path=.",
       {"cannot resume with other data", "data.path"}},
      {"sample clothes-vae --kind arround",
       {"--kind arround: expected one of prior, reconstructions, around, interpolation",
        "did you mean \"around\"?"}},
      {"sample clothes-vae --kind around --index 10",
       {"--index 10: the validation images are 0 to 9"}},
      {"sample clothes-vae --kind interpolation --index 9", {"--index 9", "two images"}},
      {"sample clothes-vae --spread nan", {"--spread nan: expected a number"}},
      {"train clothes-vae data.class_names=a,,b", {"data.class_names", "none empty"}},
      {"train clothes-vae data.class_names=a,a", {"data.class_names", "different names"}},
      {"train clothes-vae data.class_names=a,b", {"data.class_names", "10 names, found 2"}},
      {"train clothes-vae data.path=. data.class_names=a,b",
       {"train-labels-idx1-ubyte", "byte 8", "from 0 to 1, found 3"}},
      {"train clothes-autoencoder model.beta=2", {"model.beta", "not used with model.sigma"}}};
  const std::string before = read("clothes-vae/checkpoint.safetensors");
  for (const Refusal& row : rows) check_refused(run(row.words), row.parts);
  CHECK(read("clothes-vae/checkpoint.safetensors") == before);
  CHECK(!has("runs"));

  const Finished toy =
      must(run("train sort --out toy model.layers=1 model.heads=1 model.width=4 "
               "data.held_back=8 train.steps=1"));
  check_says(run("latent toy").err, {"no latent space"});
  check_says(run("sample toy --kind prior").err, {"--kind", "expected one of --count, --prompt"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
