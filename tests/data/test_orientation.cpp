#include <doctest/doctest.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "autograd/random.hpp"
#include "data/images/orientation.hpp"
#include "data/images/picture_file.hpp"
#include "data/images/picture_folder.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/pictures.hpp"

// Tests how pictures are turned as EXIF data say, and fitted to another shape.
namespace tapestry {
namespace {

// Returns the PNG with a chunk of EXIF data before the one at the end, or as the second one.
std::string with_chunk(std::string png, const std::string& exif, bool is_late) {
  const std::string checked = "eXIf" + exif;
  const auto sum =
      static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const unsigned char*>(checked.data()),
                                       static_cast<unsigned>(checked.size())));
  return png.insert(
      is_late ? png.size() - 12 : 33,
      bytes_of(static_cast<std::uint32_t>(exif.size()), 4) + checked + bytes_of(sum, 4));
}

std::vector<std::uint8_t> random_pixels(int count) {
  Random random(1, Stream::data);
  std::vector<std::uint8_t> pixels(count);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random.below(256));
  return pixels;
}

// Returns pixels (height, width, 3) as the EXIF specification shows those of a file with this
// orientation: the numbers are of the row and column of the file that are at the top and left.
std::vector<std::uint8_t> upright(const std::vector<std::uint8_t>& pixels, int height, int width,
                                  int orientation) {
  const bool turned = orientation >= 5;
  std::vector<std::uint8_t> result;
  for (int y = 0; y < (turned ? width : height); ++y)
    for (int x = 0; x < (turned ? height : width); ++x) {
      const int last_row = height - 1, last_column = width - 1;
      const std::pair<int, int> from[] = {
          {y, x}, {y, last_column - x}, {last_row - y, last_column - x}, {last_row - y, x},
          {x, y}, {last_row - x, y},    {last_row - x, last_column - y}, {x, last_column - y}};
      const auto [row, column] = from[orientation - 1];
      const auto at = pixels.begin() + 3 * (row * width + column);
      result.insert(result.end(), at, at + 3);
    }
  return result;
}

TEST_SUITE_BEGIN("pictures");

TEST_CASE_FIXTURE(TemporaryFolder, "bug: the orientation of cameras was not applied") {
  constexpr int height = 23, width = 37;
  const std::vector<std::uint8_t> pixels = random_pixels(3 * height * width);
  const std::string stored = png(width, PNG_FORMAT_RGB, pixels),
                    photo = jpeg_of(width, height, pixels);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const int columns = orientation >= 5 ? height : width, rows = height + width - columns;
    const auto seen = upright(pixels, height, width, orientation);
    write("upright.png", png(columns, PNG_FORMAT_RGB, seen));
    write("upright.jpg", jpeg_of(columns, rows, seen));
    for (const bool little_endian : {false, true}) {
      const std::string exif = exif_of(orientation, little_endian);
      write("early.png", with_chunk(stored, exif, false));
      write("late.png", with_chunk(stored, exif, true));
      write("photo.jpg", with_exif(photo, exif));
      CHECK(picture_info(path("photo.jpg")).orientation.turns() == (orientation > 1));
      CHECK(picture_info(path("photo.jpg")).size == ImageSize{3, height, width});
      for (const auto& [rows_to, columns_to] : {std::pair(0, 0), {8, 8}, {5, 16}, {31, 20}})
        for (const PictureFit fit : {PictureFit::crop, PictureFit::pad, PictureFit::stretch}) {
          const PictureReading how{
              .size = {3, rows_to, columns_to}, .fit = fit, .turns_upright = true};
          const Array expected = read_picture(path("upright.png"), how);
          check_close(read_picture(path("early.png"), how), expected, 1e-5);
          check_close(read_picture(path("late.png"), how), expected, 1e-5);
          // The decoder rounds blocks of another direction otherwise.
          check_close(read_picture(path("photo.jpg"), how), read_picture(path("upright.jpg"), how),
                      0.03);
        }
      PictureReading plain{.size = {.channels = 3}};
      CHECK(same_bits(read_picture(path("photo.jpg"), plain),
                      read_picture(write("plain.jpg", photo), plain)));
    }
  }
}

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: a turned JPEG is decoded in a smaller size") {
  const std::vector<std::uint8_t> pixels = random_pixels(3 * 64 * 96);
  const auto read = [&](const std::string& bytes, const ImageSize& size) {
    return read_picture(write("photo.jpg", bytes),
                        {.size = size, .reduces_jpeg = true, .turns_upright = true});
  };
  const Array stored = read(jpeg_of(96, 64, pixels), {3, 16, 24}),
              turned = read(with_exif(jpeg_of(96, 64, pixels), exif_of(5)), {3, 24, 16});
  for (int channel = 0; channel < 3; ++channel)
    for (int y = 0; y < 16; ++y)
      for (int x = 0; x < 24; ++x)
        CHECK(turned.values<float>()[(channel * 24 + x) * 16 + y] ==
              stored.values<float>()[(channel * 16 + y) * 24 + x]);
}

TEST_CASE("pictures: damaged EXIF data are ignored") {
  const std::string photo = jpeg(16, 8, {1, 2, 3}), exif = exif_of(6);
  REQUIRE(exif_orientation(with_exif(photo, exif)).transposes);
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    std::string other = exif;
    return with_exif(photo, other.replace(at, bytes.size(), bytes));
  };
  const std::string damaged[] = {
      "",
      "\xff\xd8",
      photo,
      with_exif(photo, ""),
      with_exif(photo, "MM"),
      changed(0, "XX"),
      changed(2, std::string("\0\x2b", 2)),
      changed(4, "\xff\xff\xff\xff"),            // the list begins far behind the end
      changed(4, bytes_of(exif.size() - 1, 4)),  // at its last byte
      changed(24, std::string("\0\2", 2)),       // another type
      changed(26, bytes_of(2, 4)),               // two values
      changed(30, bytes_of(0, 2)),
      changed(30, bytes_of(9, 2)),
      with_exif(photo, exif.substr(0, 30))};
  for (const std::string& content : damaged) {
    CAPTURE(&content - damaged);
    CHECK(!exif_orientation(content).turns());
  }
  for (std::size_t size = 0; size < with_exif(photo, exif).size(); ++size)
    exif_orientation(std::string_view(with_exif(photo, exif)).substr(0, size));
  std::string more = exif;  // more entries than there are bytes
  CHECK(exif_orientation(with_exif(photo, more.replace(8, 2, "\xff\xff"))).transposes);
  const std::string gray = png(2, PNG_FORMAT_GRAY, {0, 1, 2, 3});
  std::string other_sum = with_chunk(gray, exif, false);
  CHECK(exif_orientation(other_sum).transposes);
  other_sum[33 + 8 + 40] ^= 1;
  CHECK(!exif_orientation(other_sum).turns());
}

// Returns the most address space that this process has had, in kB.
std::int64_t most_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmPeak:")) return std::stoll(line.substr(7));
  return 0;
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: pictures: a chunk of a PNG was allocated by its length") {
  std::string file = with_chunk(png(1, PNG_FORMAT_GRAY, {7}), exif_of(6), false);
  file.replace(33, 4, bytes_of(std::int64_t{1} << 30, 4));
  const std::int64_t before = most_address_space();
  CHECK_ERROR(read_picture(write("long.png", file), {}), "long.png", "ends too early");
  REQUIRE(before > 0);
  CHECK(most_address_space() - before < 500'000);
}

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: crop, pad and stretch fit another shape") {
  const std::string file = write("wide", png(4, PNG_FORMAT_GRAY, {10, 20, 30, 40, 50, 60, 70, 80}));
  const auto fitted = [&](std::int64_t height, std::int64_t width, PictureFit fit) {
    std::vector<int> pixels;
    for (const double pixel : doubles(read_picture(file, {.size = {1, height, width}, .fit = fit})))
      pixels.push_back(static_cast<int>(std::lround(255 * pixel)));
    return pixels;
  };
  using Pixels = std::vector<int>;
  CHECK(fitted(2, 2, PictureFit::crop) == Pixels{20, 30, 60, 70});
  CHECK(fitted(2, 2, PictureFit::stretch) == Pixels{15, 35, 55, 75});
  CHECK(fitted(2, 2, PictureFit::pad) == Pixels{35, 55, 0, 0});
  CHECK(fitted(4, 4, PictureFit::pad) ==
        Pixels{0, 0, 0, 0, 10, 20, 30, 40, 50, 60, 70, 80, 0, 0, 0, 0});
  CHECK(fitted(2, 6, PictureFit::pad) == Pixels{0, 10, 20, 30, 40, 0, 0, 50, 60, 70, 80, 0});

  const ImageSize wide{1, 30, 40}, square{1, 8, 8};
  CHECK(fitting_change(wide, square, PictureFit::crop) == doctest::Approx(0.25));
  CHECK(fitting_change(wide, square, PictureFit::pad) == doctest::Approx(0.25));
  CHECK(fitting_change(wide, square, PictureFit::stretch) == doctest::Approx(1.0 / 3));
  for (const PictureFit fit : {PictureFit::crop, PictureFit::pad, PictureFit::stretch})
    CHECK(fitting_change({1, 30, 30}, square, fit) == 0);
}

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: data.rules decides whether pictures are turned") {
  PictureFolder folder{.path = path("all"), .classes = {"all"}};
  const std::string file =
      write("0.jpg", with_exif(jpeg_of(16, 16, random_pixels(3 * 16 * 16)), exif_of(6)));
  folder.train = folder.validation = {{file, 0}};
  const auto read = [&](std::int64_t rules) {
    const PictureSplits splits = read_pictures(folder, {.size = {3, 16, 16}, .rules = rules});
    return doubles(splits.train.batch(std::array{std::int64_t{0}}).inputs);
  };
  CHECK(read(1) == doubles(read_picture(file, {.size = {3, 16, 16}})));
  CHECK(read(2) == doubles(read_picture(file, {.size = {3, 16, 16}, .turns_upright = true})));
  CHECK(read(1) != read(2));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
