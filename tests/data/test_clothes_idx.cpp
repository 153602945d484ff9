#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "data/images/images.hpp"
#include "tests/support/idx.hpp"

namespace tapestry {
namespace {

void write_split(const std::string& folder, const std::string& name, const ImageDataset& split) {
  const auto count = static_cast<std::uint32_t>(split.size()),
             height = static_cast<std::uint32_t>(split.image_size().height),
             width = static_cast<std::uint32_t>(split.image_size().width);
  std::ofstream images(folder + "/" + name + "-images-idx3-ubyte", std::ios::binary),
      labels(folder + "/" + name + "-labels-idx1-ubyte", std::ios::binary);
  images << big_endian(0x803) << big_endian(count) << big_endian(height) << big_endian(width);
  labels << big_endian(0x801) << big_endian(count);
  const Array all = all_images(split);
  for (const float pixel : all.values<float>())
    images.put(static_cast<char>(std::lround(255 * pixel)));
  for (const std::int32_t label : split.labels()) labels.put(static_cast<char>(label));
}

void check_close(const ImageDataset& found, const ImageDataset& drawn) {
  const Array read = all_images(found), made = all_images(drawn);
  REQUIRE(read.shape() == made.shape());
  CHECK(found.labels() == drawn.labels());
  float furthest = 0;
  for (std::int64_t i = 0; i < read.size(); ++i)
    furthest = std::max(furthest, std::abs(read.values<float>()[i] - made.values<float>()[i]));
  CHECK(furthest < 0.501 / 255);
}

TEST_SUITE_BEGIN("images");

// With TAPESTRY_CLOTHES=FOLDER it writes the data of clothes-vae there, for the same training
// elsewhere (tests/bench/).
TEST_CASE("images: clothes written as IDX are read unchanged") {
  const TemporaryFolder temporary;
  const char* wanted = std::getenv("TAPESTRY_CLOTHES");
  const std::string folder = wanted ? wanted : temporary.path();
  const ImageDataset train = make_clothes(wanted ? 10'000 : 20, 1, SyntheticSplit::train),
                     validation = make_clothes(wanted ? 1000 : 10, 1, SyntheticSplit::validation);
  fs::create_directories(folder);
  write_split(folder, "train", train);
  write_split(folder, "t10k", validation);
  const ImageSplits read = load_images(folder);
  check_close(read.train, train);
  REQUIRE(read.test);
  check_close(*read.test, validation);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
