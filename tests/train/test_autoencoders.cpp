#include <doctest/doctest.h>

#include <cmath>

#include "autograd/random.hpp"
#include "data/images/images.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/linear_algebra.hpp"
#include "train/plot/principal_components.hpp"
#include "train/plot/render.hpp"

// Tests autoencoders by the command line.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("autoencoders");

// A folder with tiny runs of both kinds of autoencoders.
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
  // Returns width and height of a PNG.
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

// Returns the size of a grid of 28 × 28 pictures.
std::pair<int, int> grid(int columns, int rows) { return {columns * 57 + 1, rows * 57 + 1}; }

TEST_CASE_FIXTURE(Wardrobe, "sample: both autoencoders draw every kind of picture") {
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

    // Without spread, all pictures around an image are its reconstruction.
    const auto around = [&](const std::string& spread, const std::string& seed) {
      sample({"--kind", "around", "--spread", spread, "--seed", seed, "--out", "a.png"});
      return read("a.png");
    };
    CHECK(around("0", "1") == around("0", "2"));
    CHECK(around("1", "1") != around("1", "2"));
    CHECK(around("1", "1") == around("1", "1"));
  }
}

TEST_CASE_FIXTURE(Wardrobe, "latent: writes codes as CSV, and the cloud as PNG and SVG") {
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
      CHECK(part ==
            doctest::Approx(whole[figure].get<double>()).epsilon(2e-6));  // rounding of sums
    }
}

TEST_CASE_FIXTURE(Wardrobe, "eval: --importance adds a bound, of one sample the elbo") {
  const auto eval = [&](const std::string& samples) {
    return Json::parse(must(run("eval clothes-vae --json --importance {}", samples)).out);
  };
  const auto one = eval("1"), many = eval("20");
  CHECK(one["importance_bound"].get<double>() ==
        doctest::Approx(one["elbo"].get<double>()).epsilon(1e-6));
  CHECK(many["elbo"] == one["elbo"]);
  CHECK(many["importance_bound"] > one["importance_bound"]);
  CHECK(!Json::parse(run("eval clothes-vae --json").out).contains("importance_bound"));
}

TEST_CASE_FIXTURE(CommandFolder, "denoising: noise is on the input alone, in training and shown") {
  const Words small =
      "model.hidden=[32] data.training_images=200 data.test_images=20 train.steps=200 "
      "train.batch_size=20";
  for (const std::string noise : {"gaussian", "masked"}) {
    must(run(Words("train clothes-denoise --out {} data.noise={}", noise, noise) + small));
    must(run("sample {} --kind denoised --count 4 --out pictures.png", noise));
    CHECK(has("pictures.png"));
    must(run("report {} --out page.html", noise));
    check_says(read("page.html"), {"Error by noise", "20 images of the test split"});
  }
  // The error is that to the image without noise: half of what is left of masked images is wrong.
  must(run(Words("train clothes-denoise --out plain data.noise=none") + small));
  const auto error = [&](const std::string& name, const Words& more) {
    return Json::parse(must(run(Words("eval {} --json", name) + more)).out)["mse"].get<double>();
  };
  const Words masked = "data.noise=masked data.noise_level=0.5";
  CHECK(error("masked", masked) < 0.8 * error("plain", masked));
}

TEST_CASE_FIXTURE(Wardrobe, "clothes: errors are one line, and the run keeps its files") {
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
       {"--kind arround: expected one of prior, reconstructions, denoised, around, interpolation",
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
      {"train clothes-autoencoder model.beta=2", {"model.beta", "not used with model.sigma"}},
      {"eval clothes-autoencoder --importance 5", {"train.importance_samples", "model.sigma"}},
      {"eval clothes-vae --importance many", {"train.importance_samples", "expected an integer"}},
      {"eval clothes-vae --importance 0", {"--importance 0", "expected at least 1"}},
      {"sample clothes-vae --kind denoised", {"--kind denoised", "trained without noise"}},
      {"sample clothes-vae --noise 0.5", {"--noise", "--kind"}},
      {"train clothes-vae data.noise_level=0.7", {"data.noise_level", "data.noise"}},
      {"train clothes-denoise data.noise=masked data.noise_level=1",
       {"data.noise_level", "below 1"}}};
  const std::string before = read("clothes-vae/checkpoint.safetensors");
  for (const Refusal& row : rows) check_refused(here(row.words), row.parts);
  CHECK(read("clothes-vae/checkpoint.safetensors") == before);
  CHECK(!has("runs"));

  const Finished toy =
      must(run("train sort --out toy model.layers=1 model.heads=1 model.width=4 "
               "data.held_back=8 train.steps=1"));
  check_says(run("latent toy").err, {"no latent space"});
  check_says(run("eval toy --importance 5").err, {"--importance", "no variational autoencoder"});
  check_says(run("sample toy --kind prior").err, {"--kind", "expected one of --count, --prompt"});
}

TEST_SUITE_END();

// --- principal components ---

TEST_SUITE_BEGIN("latent");

TEST_CASE("principal components: the first one of points on a line is the line") {
  // (1, 2) + t (3, 4), t in {-2, -1, 0, 1, 2}, of variance 2: 25 · 2 along (3, 4) / 5.
  std::vector<double> points;
  for (const double t : {-2, -1, 0, 1, 2}) points.insert(points.end(), {1 + 3 * t, 2 + 4 * t});
  const Array x = Array::of(points, {5, 2});
  const PrincipalComponents components = principal_components(x);
  const auto near = [](double value) { return doctest::Approx(value).epsilon(1e-9); };
  CHECK(components.mean.values<double>()[0] == near(1));
  CHECK(components.mean.values<double>()[1] == near(2));
  CHECK(components.variances[0] == near(50));
  CHECK(std::abs(components.variances[1]) <= 1e-9);
  CHECK(components.axes.values<double>()[0] == near(0.6));
  CHECK(components.axes.values<double>()[1] == near(0.8));
  CHECK(components.factor.values<double>()[0] == near(0.6 * std::sqrt(50)));
  const Array along = project(components, x, 1);
  CHECK(along.shape() == Shape{5, 1});
  for (int i = 0; i < 5; ++i) CHECK(along.values<float>()[i] == doctest::Approx(5 * (i - 2)));
}

TEST_CASE("principal components: axes are orthonormal, and give the covariance") {
  constexpr std::int64_t N = 200, Z = 6;
  Array x({N, Z}, DType::float64);
  Random(1, Stream::data).fill_normal(x, 0, 1);
  for (std::int64_t i = 0; i < N * Z; ++i)  // of different variances, and correlated
    x.mutable_values<double>()[i] *= static_cast<double>(1 + i % Z) + (i % Z > 0 ? 0.5 : 0.0);
  const PrincipalComponents components = principal_components(x);
  const auto at = [](const Array& a, std::int64_t i, std::int64_t j) {
    return a.values<double>()[i * a.dim(1) + j];
  };
  for (std::int64_t i = 0; i < Z; ++i)
    for (std::int64_t j = 0; j < Z; ++j) {
      double product = 0, made = 0, wanted = 0;
      for (std::int64_t k = 0; k < Z; ++k) {
        product += at(components.axes, i, k) * at(components.axes, j, k);
        made += at(components.factor, k, i) * at(components.factor, k, j);
      }
      for (std::int64_t row = 0; row < N; ++row)
        wanted += (at(x, row, i) - components.mean.values<double>()[i]) *
                  (at(x, row, j) - components.mean.values<double>()[j]);
      CHECK(std::abs(product - (i == j)) <= 1e-10);
      CHECK(std::abs(made - wanted / N) <= 1e-10);
    }
  CHECK(std::ranges::is_sorted(components.variances, std::greater<>()));
}

TEST_CASE("principal components: Jacobi rotations find the eigenvectors that OpenBLAS finds") {
  for (const std::int64_t n : {1, 2, 3, 10, 100}) {
    CAPTURE(n);
    const auto size = static_cast<std::size_t>(n);
    Array random({n, n}, DType::float64);
    Random(4, Stream::data).fill_normal(random, 0, 1);
    const auto element = random.values<double>();
    std::vector<double> matrix(size * size);  // with eigenvalues that are far from each other
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < size; ++j)
        matrix[i * size + j] = 0.1 * (element[i * size + j] + element[j * size + i]) +
                               (i == j ? 3.0 * static_cast<double>(i) : 0.0);
    std::vector<double> values(size), vectors(size * size), expected(size),
        expected_vectors(size * size);
    jacobi_eigenvectors(matrix.data(), n, values.data(), vectors.data());
    linear_algebra().eigenvectors(matrix.data(), n, expected.data(), expected_vectors.data());
    for (std::size_t i = 0; i < size; ++i) {
      CHECK(std::abs(values[i] - expected[i]) <= 1e-10);
      double along = 0;  // 1, or -1 for the opposite vector
      for (std::size_t k = 0; k < size; ++k)
        along += vectors[i * size + k] * expected_vectors[i * size + k];
      for (std::size_t k = 0; k < size; ++k)
        CHECK(std::abs(vectors[i * size + k] -
                       (along < 0 ? -1 : 1) * expected_vectors[i * size + k]) <= 1e-10);
    }
  }
  std::vector<double> zeros(9), values(3, 1), vectors(9);
  jacobi_eigenvectors(zeros.data(), 3, values.data(), vectors.data());
  CHECK(values == std::vector<double>(3));
  CHECK(vectors == std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK_THROWS_AS(jacobi_eigenvectors(zeros.data(), 257, nullptr, nullptr), std::runtime_error);
}

// --- tables and pictures ---

LatentCodes latent_of(std::int64_t Z) {
  Array train({4, Z}), validation({2, Z});
  Random random(2, Stream::data);
  random.fill_normal(train, 0, 1);
  random.fill_normal(validation, 0, 1);
  return {{{"train", train, {0, 2, 0, 2}}, {"validation", validation, {2, 0}}},
          {"coat", "no one", "it's a bag"}};
}

TEST_CASE("latent: the table has a line for every image, with all digits") {
  const LatentCodes latent = latent_of(2);
  const auto lines = lines_of(latent_csv(latent));
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] == "image,split,class,z1,z2");
  CHECK(lines[1].starts_with("0,train,coat,"));
  CHECK(lines[2].starts_with("1,train,it's a bag,"));
  CHECK(lines[5].starts_with("0,validation,it's a bag,"));
  const std::string last = lines[6].substr(lines[6].rfind(',') + 1);
  CHECK(std::stof(last) == latent.splits[1].z.values<float>()[3]);
}

TEST_CASE("bug: latent: codes without classes or names ended the program, or were left out") {
  CHECK_NOTHROW(expect_usable(latent_of(2), "mine"));
  const auto message = [](const auto& change) {
    LatentCodes latent = latent_of(2);
    change(latent);
    return message_of([&] { expect_usable(latent, "mine"); });
  };
  check_says(message([](LatentCodes& latent) { latent.splits.clear(); }),
             {"task mine: TaskSpec::latent_codes: no split"});
  check_says(message([](LatentCodes& latent) { latent.class_names.pop_back(); }),
             {"split train: class 2; expected 0 or more, below 2, the number of class names"});
  check_says(message([](LatentCodes& latent) { latent.splits[1].classes[1] = -1; }),
             {"split validation: class -1; expected 0 or more, below 3"});
  check_says(message([](LatentCodes& latent) { latent.splits[0].classes.pop_back(); }),
             {"split train: 3 classes of 4 codes; expected one for each"});
  for (const Array& z : {Array({8}), Array({4, 3}), Array({2, 2, 2}), Array(), Array({4, 0}),
                         Array::zeros({4, 2}, DType::float64)})
    check_says(message([&](LatentCodes& latent) { latent.splits[1].z = z; }),
               {"split validation: z is ", "; expected (N, Z) float32, of one Z"});
}

TEST_CASE("latent: clouds have classes, and principal components above three dimensions") {
  for (const std::int64_t Z : {1, 2, 3, 4, 9}) {
    CAPTURE(Z);
    const LatentCodes latent = latent_of(Z);
    const Scatter scatter = latent_scatter(latent);
    REQUIRE(scatter.clouds.size() == 3);
    CHECK(scatter.axes.size() == (Z < 3 ? 2 : 3));
    const std::int64_t dimensions = std::ssize(scatter.axes);
    CHECK(scatter.clouds[0].points.shape() == Shape{3, dimensions});
    CHECK(scatter.clouds[1].points.shape() == Shape{0, dimensions});
    CHECK(scatter.clouds[2].points.shape() == Shape{3, dimensions});
    CHECK(scatter.axes[0].starts_with(Z > 3 ? "component 1 (" : "z1"));
    if (Z <= 3)
      CHECK(scatter.clouds[0].points.values<float>()[0] == latent.splits[0].z.values<float>()[0]);
    const Scatter fewer = latent_scatter(latent, 2);
    CHECK(fewer.title.find("2 of 6 images") != std::string::npos);
    CHECK(fewer.clouds[0].points.dim(0) + fewer.clouds[2].points.dim(0) == 2);

    check_says(render(scatter, Format::svg),
               {"<svg", "coat", "no one", "it&#39;s a bag", scatter.axes[0]});
    CHECK(render(scatter, Format::png).starts_with("\x89PNG\r\n\x1a\n"));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
