#include <doctest/doctest.h>
#include <png.h>
#include <turbojpeg.h>

#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/images/picture_file.hpp"
#include "data/images/picture_folder.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/idx.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/peak_memory.hpp"
#include "tests/support/pictures.hpp"
#include "tests/support/process.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task_spec.hpp"

// Tests the pixels of PNG and JPEG files, and the memory that reading takes.
namespace tapestry {
namespace {

// A format of PNG files.
struct PngForm {
  int color = PNG_COLOR_TYPE_GRAY, depth = 8;
  bool interlaced = false;
  double gamma = 0;  // 0: none is stored
};

// Returns a PNG of this format, with random bytes as pixels that depend on the size alone.
std::string random_png(std::uint32_t width, std::uint32_t height, const PngForm& form) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string bytes;
  const auto append = [](png_structp from, png_bytep data, std::size_t size) {
    static_cast<std::string*>(png_get_io_ptr(from))->append(reinterpret_cast<char*>(data), size);
  };
  png_set_write_fn(png, &bytes, append, nullptr);
  png_set_IHDR(png, info, width, height, form.depth, form.color,
               form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
  if (form.gamma > 0) png_set_gAMA(png, info, form.gamma);
  const int colors = 1 << form.depth;
  if (form.color == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette(colors);
    std::vector<png_byte> alpha(colors);
    for (int i = 0; i < colors; ++i) {
      const auto value = static_cast<png_byte>(37 * i);
      palette[i] = {value, static_cast<png_byte>(value + 90), static_cast<png_byte>(255 - value)};
      alpha[i] = static_cast<png_byte>(255 - 11 * i);
    }
    png_set_PLTE(png, info, palette.data(), colors);
    png_set_tRNS(png, info, alpha.data(), colors, nullptr);
  }
  std::vector<png_byte> pixels(height * png_get_rowbytes(png, info));
  std::vector<png_bytep> rows;
  Random random(width, Stream::data);
  for (png_byte& byte : pixels) byte = static_cast<png_byte>(random.below(256));
  for (std::uint32_t y = 0; y < height; ++y)
    rows.push_back(pixels.data() + y * png_get_rowbytes(png, info));
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

// Returns the pixels / 255 of a PNG decoded by libpng's simplified interface over white.
Array decoded_png(const std::string& bytes, std::uint32_t format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  const std::uint32_t alpha = image.format & PNG_FORMAT_FLAG_ALPHA;
  image.format = format | alpha;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr));
  const std::int64_t C = format == PNG_FORMAT_GRAY ? 1 : 3, S = C + (alpha != 0);
  const std::int64_t area = std::int64_t{image.height} * image.width;
  std::vector<float> values(C * area);
  for (std::int64_t at = 0; at < area; ++at)
    for (std::int64_t channel = 0; channel < C; ++channel) {
      int value = pixels[at * S + channel];
      const int opacity = alpha != 0 ? pixels[at * S + C] : 255;
      value = (value * opacity + 255 * (255 - opacity) + 127) / 255;
      values[channel * area + at] = static_cast<float>(value) / 255;
    }
  return Array::of(values, {C, image.height, image.width});
}

// Returns an image in another size, as read_picture() fits it, computed from the whole image.
Array fitted(const Array& image, std::int64_t height, std::int64_t width) {
  const std::int64_t C = image.dim(0), H = image.dim(1), W = image.dim(2);
  const std::int64_t used_height = std::min(H, std::max<std::int64_t>(1, W * height / width));
  const std::int64_t used_width = std::min(W, std::max<std::int64_t>(1, H * width / height));
  Array result({C, height, width});
  auto to = result.mutable_values<float>().begin();
  // Calls `visit` with each element that element i of `size` covers, and its share.
  const auto each = [](std::int64_t all, std::int64_t length, std::int64_t size, std::int64_t i,
                       const auto& call) {
    const std::int64_t begin = (all - length) / 2, low = i * length, high = low + length;
    for (std::int64_t at = low / size; at * size < high; ++at)
      call(begin + at,
           static_cast<float>(std::min(high, (at + 1) * size) - std::max(low, at * size)) /
               static_cast<float>(length));
  };
  for (std::int64_t channel = 0; channel < C; ++channel)
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        float pixel = 0;
        each(W, used_width, width, j, [&](std::int64_t x, float weight) {
          float column = 0;
          each(H, used_height, height, i, [&](std::int64_t y, float part) {
            column += part * image.values<float>()[(channel * H + y) * W + x];
          });
          pixel += weight * column;
        });
        *to++ = pixel;
      }
  return result;
}

Array image_of(const std::vector<float>& pixels, const Shape& shape) {
  return Array::of(pixels, shape);
}

// Returns a JPEG of random colors.
std::string random_jpeg(int width, int height, std::uint64_t seed) {
  Random random(seed, Stream::data);
  std::vector<std::uint8_t> pixels(3 * width * height);
  for (std::uint8_t& byte : pixels) byte = static_cast<std::uint8_t>(random.below(256));
  return jpeg_of(width, height, pixels);
}

// Returns the pixels of a JPEG as TurboJPEG decodes it in a size, / 255.
Array decoded_jpeg(const std::string& bytes, std::int64_t height, std::int64_t width) {
  tjhandle decoder = tjInitDecompress();
  std::vector<std::uint8_t> pixels(3 * height * width);
  REQUIRE(tjDecompress2(decoder, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                        pixels.data(), static_cast<int>(width), 0, static_cast<int>(height),
                        TJPF_RGB, 0) == 0);
  tjDestroy(decoder);
  std::vector<float> values(pixels.size());
  for (std::size_t i = 0; i < pixels.size(); ++i)
    values[i % 3 * (pixels.size() / 3) + i / 3] = static_cast<float>(pixels[i]) / 255;
  return Array::of(values, {3, height, width});
}

TEST_SUITE_BEGIN("pictures");

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: PNG and JPEG files have the expected pixels") {
  write("gray", png(2, PNG_FORMAT_GRAY, {0, 51, 102, 255}));
  CHECK(doubles(read_picture(path("gray"))) == doubles(image_of({0, 0.2f, 0.4f, 1}, {2, 2})));
  write("color", png(3, PNG_FORMAT_RGB, {255, 0, 0, 0, 255, 0, 0, 0, 255}));
  CHECK(doubles(read_picture(path("color"))) ==
        doubles(image_of({0.299f * 255 / 255, 0.587f * 255 / 255, 0.114f * 255 / 255}, {1, 3})));
  // Over white: black that is transparent, opaque and half transparent.
  write("clear", png(3, PNG_FORMAT_GA, {0, 0, 0, 255, 0, 128}));
  CHECK(doubles(read_picture(path("clear"))) == doubles(image_of({1, 0, 127 / 255.0f}, {3})));
  write("jpeg", jpeg(16, 8, {100, 100, 100}));
  const Array flat = read_picture(path("jpeg"));
  CHECK(flat.shape() == Shape{1, 8, 16});
  for (const double pixel : doubles(flat)) CHECK(pixel == doctest::Approx(100.0 / 255));

  // In color: planes of red, green and blue.
  const Array planes = read_picture(path("color"), {.size = {.channels = 3}});
  CHECK(planes.shape() == Shape{3, 1, 3});
  CHECK(doubles(planes) == std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(doubles(read_picture(path("clear"), {.size = {.channels = 3}})).size() == 9);
  write("red", jpeg(16, 8, {255, 0, 0}));
  const std::vector<double> red = doubles(read_picture(path("red"), {.size = {.channels = 3}}));
  REQUIRE(red.size() == 3 * 8 * 16);
  for (std::size_t i = 0; i < red.size(); ++i) {
    const double expected = i < 8 * 16 ? 1 : 0;
    CHECK(std::abs(red[i] - expected) < 0.02);
  }
  CHECK(doubles(read_picture(path("color"), {.size = {.channels = 3, .height = 1, .width = 1}})) ==
        std::vector<double>{0, 1, 0});  // the middle pixel

  CHECK(is_colored(path("color")));
  CHECK(is_colored(path("jpeg")));  // three equal planes are a color image
  CHECK(!is_colored(path("gray")));
  CHECK(!is_colored(path("clear")));
  CHECK(!is_colored(path("none")));
  write("text", "no picture");
  CHECK(!is_colored(path("text")));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "pictures: damaged files and other formats are refused in one line") {
  const std::string whole_png = png(8, PNG_FORMAT_RGB, std::vector<std::uint8_t>(8 * 8 * 3, 7)),
                    whole_jpeg = jpeg(64, 64, {200, 20, 60});
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected a PNG or JPEG file"},
      {"GIF89a", "expected a PNG or JPEG file"},
      {whole_png.substr(0, 40), "the PNG file cannot be decoded"},
      {whole_png.substr(0, whole_png.size() - 30), "the PNG file cannot be decoded"},
      {whole_jpeg.substr(0, 30), "the JPEG file "},
      {whole_jpeg.substr(0, whole_jpeg.size() - 40), "the JPEG file cannot be decoded"},
      {with_size(whole_png, 100'000, 100'000),
       "100000 x 100000 pixels; expected at most 64000000"}};
  for (const auto& [content, expected] : cases) {
    write("picture", content);
    CHECK_ERROR(read_picture(path("picture")), expected);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "pictures: a fitted pixel is the mean of the area that it covers") {
  const auto check_fit = [&](std::uint32_t columns, const std::vector<std::uint8_t>& pixels,
                             const ImageSize& size, const std::vector<double>& expected) {
    write("picture", png(columns, PNG_FORMAT_GRAY, pixels));
    const std::vector<double> found = doubles(read_picture(path("picture"), {.size = size}));
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(255 * found[i] == doctest::Approx(expected[i]));
  };
  const std::vector<std::uint8_t> four{0, 40, 80, 120, 40, 80, 120, 160};
  check_fit(4, four, {1, 2, 4}, std::vector<double>(four.begin(), four.end()));
  check_fit(4, four, {1, 1, 2}, {40, 120});
  check_fit(4, four, {1, 1, 1}, {80});  // the two middle columns
  check_fit(4, four, {1, 2, 2}, {40, 80, 80, 120});
  check_fit(3, {0, 6, 12}, {1, 1, 1}, {6});
  check_fit(3, {0, 0, 0, 6, 6, 6, 12, 12, 12}, {1, 2, 2}, {2, 2, 10, 10});
  check_fit(2, {1, 2, 3, 4}, {1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
}

const std::pair<std::int64_t, std::int64_t> fitted_sizes[] = {{1, 1},  {7, 5},   {5, 7},  {16, 16},
                                                              {37, 3}, {23, 37}, {40, 50}};

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: fitting a PNG row by row gives the same bits") {
  constexpr int gray = PNG_COLOR_TYPE_GRAY, gray_alpha = PNG_COLOR_TYPE_GRAY_ALPHA,
                rgb = PNG_COLOR_TYPE_RGB, rgba = PNG_COLOR_TYPE_RGB_ALPHA,
                palette = PNG_COLOR_TYPE_PALETTE;
  const PngForm forms[] = {{gray, 1},    {gray, 2},       {gray, 4},        {gray, 8},
                           {gray, 16},   {gray_alpha, 8}, {gray_alpha, 16}, {rgb, 8},
                           {rgb, 16},    {rgba, 8},       {rgba, 16},       {palette, 1},
                           {palette, 2}, {palette, 4},    {palette, 8}};
  for (PngForm form : forms)
    for (const double gamma : {0.0, 1.0, 0.3})
      for (const bool interlaced : {false, true}) {
        form.gamma = gamma;
        form.interlaced = false;
        const std::string straight = random_png(37, 23, form);
        form.interlaced = interlaced;
        CAPTURE(form.color);
        CAPTURE(form.depth);
        CAPTURE(gamma);
        CAPTURE(interlaced);
        write("picture", random_png(37, 23, form));
        const bool is_gray = form.color == gray || form.color == gray_alpha;
        CHECK(picture_size(path("picture")) == ImageSize{is_gray ? 1 : 3, 23, 37});
        const Array whole = decoded_png(straight, PNG_FORMAT_RGB);
        const auto read = [&](const ImageSize& size) {
          return read_picture(path("picture"), {.size = size, .reduces_jpeg = true});
        };
        CHECK(same_bits(read({.channels = 3}), whole));
        for (const auto& [height, width] : fitted_sizes)
          CHECK(same_bits(read({3, height, width}), fitted(whole, height, width)));
        if (!is_gray) continue;
        const Array grays = decoded_png(straight, PNG_FORMAT_GRAY);
        CHECK(same_bits(read({1, 7, 5}), fitted(grays, 7, 5)));
      }
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a JPEG was decoded at full size for a small image") {
  const std::string bytes = random_jpeg(67, 45, 1);
  write("picture", bytes);
  const auto read = [&](std::int64_t height, std::int64_t width, bool reduces_jpeg) {
    return Array(
        read_picture(path("picture"), {.size = {3, height, width}, .reduces_jpeg = reduces_jpeg}));
  };
  const Array whole = decoded_jpeg(bytes, 45, 67);
  CHECK(same_bits(read(0, 0, true), whole));
  for (const auto& [height, width] : fitted_sizes)
    CHECK(same_bits(read(height, width, false), fitted(whole, height, width)));
  // The smallest of 45 x 67, 23 x 34, 12 x 17 and 6 x 9 that is not below the wanted size.
  CHECK(same_bits(read(24, 7, true), fitted(whole, 24, 7)));
  CHECK(same_bits(read(23, 34, true), decoded_jpeg(bytes, 23, 34)));
  CHECK(same_bits(read(13, 13, true), fitted(decoded_jpeg(bytes, 23, 34), 13, 13)));
  CHECK(same_bits(read(12, 12, true), fitted(decoded_jpeg(bytes, 12, 17), 12, 12)));
  CHECK(same_bits(read(6, 6, true), fitted(decoded_jpeg(bytes, 6, 9), 6, 6)));
  CHECK(same_bits(read(1, 1, true), fitted(decoded_jpeg(bytes, 6, 9), 1, 1)));
}

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: data.rules decides how JPEG files are decoded") {
  for (const char* split : {"train", "validation"})
    for (const char* name : {"a", "b"}) {
      fs::create_directories(path(fmt::format("all/{}/{}", split, name)));
      write(fmt::format("all/{}/{}/1.jpg", split, name), random_jpeg(40, 40, name[0]));
    }
  const auto read = [&](const char* rules) {
    const std::string run = path(std::string("run") + rules);
    must_run({"train", "clothes-cnn", "--out", run, "--quiet", "--set", "data.path=" + path("all"),
              "data.image_size=8", "train.steps=1", "train.batch_size=2",
              std::string("data.rules=") + rules});
    const JsonValue said = JsonValue::parse(must_run({"eval", run, "--json"}));
    return said["loss"].get<double>();
  };
  CHECK(read("1") != read("2"));
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a picture that needs too much memory was decoded") {
  std::string bytes = jpeg(16, 16, {1, 2, 3});
  const std::size_t frame = bytes.find("\xff\xc0");
  bytes.replace(frame + 5, 4, "\x1f\x40\x1f\x40");  // 8,000 x 8,000 pixels
  write("picture", bytes);
  CHECK_ERROR(read_picture(path("picture"), {.size = {.channels = 3}}),
              path("picture") +
                  ": its 8000 x 8000 pixels take 1281 MiB of memory; expected at "
                  "most 1024; save the picture in a smaller size");
  CHECK(picture_size(path("picture")) == ImageSize{3, 8000, 8000});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: init decoded pictures to learn their sizes") {
  fs::create_directories(path("all"));
  const std::string start = random_png(8, 8, {});
  for (int i = 0; i < 4; ++i)  // files that end long before their last row
    write(fmt::format("all/{}.png", i), with_size(start, 8000, 7000 + i));
  const std::vector<Recognized> found = task_registry().at("vae").recognize({path("all")});
  CHECK(found.front().problems.empty());
  CHECK(found.front().facts["sizes"] == 4);
}

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: init writes a config although a file is truncated") {
  for (const char* name : {"a", "b"}) {
    fs::create_directories(path(std::string("all/") + name));
    for (int i = 0; i < 4; ++i) write(fmt::format("all/{}/{}.png", name, i), random_png(9, 9, {}));
  }
  const std::string whole = read_bytes(path("all/a/0.png"));
  write("all/a/cut.png", whole.substr(0, whole.size() - 40));
  must_run({"init", path("all"), "--out", path("all.toml"), "--minutes", "1"});
  check_says(read_bytes(path("all.toml")), {"skip_broken = true"});
  check_prints(
      tapestry_run({"train", path("all.toml"), "--out", path("run"), "--set", "train.steps=1"}),
      {"1 broken file left out"});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: a PNG was decoded at full size for a small image") {
  write("picture", random_png(4000, 1000, {PNG_COLOR_TYPE_GRAY, 1}));
  const std::int64_t peak = peak_memory([&] {
    const Array image = read_picture(path("picture"), {.size = {3, 10, 10}});
    CHECK(image.shape() == Shape{3, 10, 10});
  });
  CHECK(peak < 6'000'000);  // the file has half a million bytes; its pixels are 4 million
}

TEST_CASE_FIXTURE(TemporaryFolder, "pictures: the header tells of 16 bits a value") {
  for (const int bits : {8, 16})
    CHECK(picture_info(write("a.png", random_png(4, 4, {PNG_COLOR_TYPE_GRAY, bits}))).has_16_bits ==
          (bits == 16));
  CHECK(!picture_info(write("b.jpg", jpeg(16, 8, {255, 0, 0}))).has_16_bits);
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: 64 decoded pictures of any size were held at a time") {
  PictureFolder folder{.classes = {"all"}};
  folder.train = folder.validation = {{write("0.png", random_png(8, 8, {})), 0}};
  const std::string wide = write("1.png", random_png(3000, 1000, {PNG_COLOR_TYPE_GRAY, 1}));
  folder.train.insert(folder.train.end(), 12, {wide, 0});
  const int usual = num_threads();
  set_num_threads(2);
  std::string message;
  const std::int64_t peak =
      peak_memory([&] { message = message_of([&] { read_pictures(folder, {}); }); });
  set_num_threads(usual);
  check_says(message, {"expected 8 x 8 pixels (height x width), found 1000 x 3000"});
  CHECK(peak < 60'000'000);  // was 144 million: 12 images of 3 million pixels
}

// Returns a progressive JPEG of three planes with one scan of empty blocks.
std::string empty_jpeg(int width, int height) {
  const auto bytes = [](std::initializer_list<int> values) {
    return std::string(values.begin(), values.end());
  };
  const auto segment = [&](int marker, const std::string& body) {
    const int length = static_cast<int>(body.size()) + 2;
    return bytes({0xff, marker, length >> 8, length}) + body;
  };
  const std::string ones(64, '\1'), no_codes(15, '\0');
  const int runs = width * height / 64 / 16384 + 2;  // of 2^14 empty blocks, 15 bits each
  return bytes({0xff, 0xd8}) + segment(0xdb, '\0' + ones) +
         segment(0xc2, bytes({8, height >> 8, height, width >> 8, width, 3}) +
                           bytes({1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0})) +
         segment(0xc4, bytes({0x10, 1}) + no_codes + bytes({0xe0})) +
         segment(0xda, bytes({1, 1, 0, 1, 63, 0})) + std::string(2 * runs, '\0') +
         bytes({0xff, 0xd9});
}

TEST_CASE("bug: each thread decoded a picture without a limit on their memory" *
          not_sanitized("it fills the memory of all threads")) {
  const TemporaryFolder files;
  PictureFolder folder{.classes = {"all"}};
  for (int i = 0; i < 4; ++i)  // each takes 6 bytes per pixel at any scale: 378 MB
    folder.train.push_back({files.write(fmt::format("{}.jpg", i), empty_jpeg(9000, 7000)), 0});
  folder.validation = {folder.train.front()};
  const int usual = num_threads();
  set_num_threads(4);
  const std::int64_t peak = peak_memory([&] {
    const PictureSplits splits = read_pictures(folder, {.size = {3, 8, 8}});
    CHECK(splits.train.size() == 4);
  });
  set_num_threads(usual);
  CHECK(peak < most_decoding_bytes);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
