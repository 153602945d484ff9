#include "data/images/picture_file.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "autograd/check.hpp"
#include "data/input_file.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t most_file_bytes = std::int64_t{1} << 28;
constexpr std::int64_t most_pixels = 64'000'000;

void expect_size(const std::string& path, std::int64_t width, std::int64_t height) {
  expect_input(width >= 1 && height >= 1 && width <= most_pixels / height,
               "{}: has {} x {} pixels; expected at most {}; save the picture in a smaller size",
               path, width, height, most_pixels);
}

// Returns bytes / 255, (1, height, width).
Array gray_image(const std::vector<unsigned char>& bytes, std::int64_t height, std::int64_t width) {
  Array image({1, height, width});
  std::ranges::transform(bytes, image.mutable_values<float>().begin(),
                         [](unsigned char byte) { return static_cast<float>(byte) / 255; });
  return image;
}

// Returns the luma of the colors of pixels (height, width, 3), as (1, height, width).
Array luma_image(const std::vector<unsigned char>& bytes, std::int64_t height, std::int64_t width) {
  Array image({1, height, width});
  const unsigned char* color = bytes.data();
  for (float& pixel : image.mutable_values<float>()) {
    pixel = (0.299f * color[0] + 0.587f * color[1] + 0.114f * color[2]) / 255;
    color += 3;
  }
  return image;
}

// Returns bytes / 255 of pixels (height, width, 3), as (3, height, width).
Array color_image(const std::vector<unsigned char>& bytes, std::int64_t height,
                  std::int64_t width) {
  Array image({3, height, width});
  auto to = image.mutable_values<float>().begin();
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t at = channel; at < bytes.size(); at += 3)
      *to++ = static_cast<float>(bytes[at]) / 255;
  return image;
}

// Returns the pixels composited over white, without alpha. As in browsers, the gamma-encoded values
// are blended, not linear light.
std::vector<unsigned char> over_white(const std::vector<unsigned char>& bytes, std::size_t colors) {
  std::vector<unsigned char> opaque;
  opaque.reserve(bytes.size() / (colors + 1) * colors);
  for (std::size_t at = 0; at < bytes.size(); at += colors + 1)
    for (std::size_t color = 0; color < colors; ++color) {
      const int alpha = bytes[at + colors], value = bytes[at + color];
      opaque.push_back(
          static_cast<unsigned char>((value * alpha + 255 * (255 - alpha) + 127) / 255));
    }
  return opaque;
}

Array read_png(const std::string& path, const std::string& content, std::int64_t channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> freed(&image, png_image_free);
  const auto expect_read = [&](bool read) {
    expect_input(read && !PNG_IMAGE_FAILED(image),
                 "{}: the PNG file cannot be decoded ({}); copy it again, or remove it", path,
                 image.message);
  };
  expect_read(png_image_begin_read_from_memory(&image, content.data(), content.size()) != 0);
  expect_size(path, image.width, image.height);
  const bool is_gray = channels == 1 && (image.format & PNG_FORMAT_FLAG_COLOR) == 0;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // otherwise 16 bits are taken to be linear
  const bool has_alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  image.format =
      (is_gray ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB) | (has_alpha ? PNG_FORMAT_FLAG_ALPHA : 0);
  std::vector<unsigned char> pixels(PNG_IMAGE_SIZE(image));
  expect_read(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) != 0);
  if (has_alpha) pixels = over_white(pixels, is_gray ? 1 : 3);
  if (is_gray) return gray_image(pixels, image.height, image.width);
  return channels == 1 ? luma_image(pixels, image.height, image.width)
                       : color_image(pixels, image.height, image.width);
}

Array read_jpeg(const std::string& path, const std::string& content, std::int64_t channels) {
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  require(decoder != nullptr, "{}: the JPEG decoder cannot be created ({}); free memory", path,
          tjGetErrorStr2(nullptr));
  const auto expect_read = [&](bool read) {
    expect_input(
        read,
        "{}: the JPEG file cannot be decoded ({}); copy it again, save it in another form, "
        "or remove it",
        path, tjGetErrorStr2(decoder.get()));
  };
  const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
  int width = 0, height = 0, subsampling = 0, colors = 0;
  expect_read(tjDecompressHeader3(decoder.get(), bytes, content.size(), &width, &height,
                                  &subsampling, &colors) == 0);
  expect_input(width > 0 && height > 0,
               "{}: the JPEG file ends before its image; copy it again, or remove it", path);
  expect_size(path, width, height);
  expect_input(colors != TJCS_CMYK && colors != TJCS_YCCK,
               "{}: the JPEG file has printing colors (CMYK); save it as RGB", path);
  std::vector<unsigned char> pixels(static_cast<std::size_t>(channels) * width * height);
  // The limit of scans bounds the time that a small file can take.
  const int status = tjDecompress2(decoder.get(), bytes, content.size(), pixels.data(), width, 0,
                                   height, channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_LIMITSCANS);
  // Other warnings, such as bytes between two segments, leave a whole picture.
  const bool whole = tjGetErrorCode(decoder.get()) == TJERR_WARNING &&
                     std::string_view(tjGetErrorStr2(decoder.get())).find("remature end") ==
                         std::string_view::npos;
  expect_read(status == 0 || whole);
  return channels == 1 ? gray_image(pixels, height, width) : color_image(pixels, height, width);
}

constexpr std::string_view png_start = "\x89PNG\r\n\x1a\n", jpeg_start = "\xff\xd8\xff";

// The part of an input axis that each output element covers.
struct Coverage {
  std::int64_t first = 0;
  std::vector<float> weights{};  // of the elements from `first` on; their sum is 1
};

// Returns the coverage of `size` elements that divide `length` elements from `begin` on equally.
std::vector<Coverage> coverage(std::int64_t begin, std::int64_t length, std::int64_t size) {
  std::vector<Coverage> all(size);
  for (std::int64_t i = 0; i < size; ++i) {
    // In units of 1 / size of an element.
    const std::int64_t low = i * length, high = low + length;
    all[i].first = begin + low / size;
    for (std::int64_t at = low / size; at * size < high; ++at) {
      const std::int64_t covered = std::min(high, (at + 1) * size) - std::max(low, at * size);
      all[i].weights.push_back(static_cast<float>(covered) / static_cast<float>(length));
    }
  }
  return all;
}

float mean_of(const std::vector<float>& row, const Coverage& covered) {
  float mean = 0;
  for (std::size_t i = 0; i < covered.weights.size(); ++i)
    mean += covered.weights[i] * row[covered.first + static_cast<std::int64_t>(i)];
  return mean;
}

}  // namespace

bool has_picture_ending(std::string_view name) {
  constexpr std::array endings{".png", ".jpg", ".jpeg", ".jpe",  ".webp", ".gif",
                               ".bmp", ".tif", ".tiff", ".heic", ".avif"};
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string ending(name.substr(dot));
  std::ranges::transform(ending, ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::ranges::find(endings, ending) != endings.end();
}

Array read_picture(const std::string& path, std::int64_t channels) {
  require(channels == 1 || channels == 3, "read_picture: {} channels; expected 1 or 3", channels);
  const std::string content = read_file(path, most_file_bytes);
  if (content.starts_with(png_start)) return read_png(path, content, channels);
  if (content.starts_with(jpeg_start)) return read_jpeg(path, content, channels);
  throw InputError(
      fmt::format("{}: expected a PNG or JPEG file; convert this file, or remove it", path));
}

bool is_colored(const std::string& path) {
  constexpr std::int64_t header_bytes = 1 << 18;  // comments and previews precede a JPEG's size
  std::string start;
  try {
    InputFile file(path);
    start.resize(std::min(header_bytes, file.most_bytes()));
    start.resize(file.read(start));
  } catch (const InputError&) {
    return false;
  }
  constexpr std::size_t color_type = 25;  // of the PNG header: 0 and 4 are gray
  if (start.starts_with(png_start))
    return start.size() > color_type && start[color_type] != 0 && start[color_type] != 4;
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  const auto* bytes = reinterpret_cast<const unsigned char*>(start.data());
  int width = 0, height = 0, subsampling = 0, colors = TJCS_GRAY;
  return start.starts_with(jpeg_start) && decoder &&
         tjDecompressHeader3(decoder.get(), bytes, start.size(), &width, &height, &subsampling,
                             &colors) == 0 &&
         colors != TJCS_GRAY;
}

Array fitted(const Array& image, std::int64_t height, std::int64_t width) {
  require(image.rank() == 3 && image.size() >= 1 && height >= 1 && width >= 1,
          "fitted: {} to ({}, {}); expected an image (C, H, W) and a size",
          to_string(image.shape()), height, width);
  const std::int64_t C = image.dim(0), H = image.dim(1), W = image.dim(2);
  const std::int64_t used_height = std::min(H, std::max<std::int64_t>(1, W * height / width));
  const std::int64_t used_width = std::min(W, std::max<std::int64_t>(1, H * width / height));
  const auto rows = coverage((H - used_height) / 2, used_height, height);
  const auto columns = coverage((W - used_width) / 2, used_width, width);
  Array result({C, height, width});
  auto to = result.mutable_values<float>().begin();
  std::vector<float> row(W);  // mean of the rows that an output row covers
  for (std::int64_t channel = 0; channel < C; ++channel) {
    const auto from = image.values<float>().subspan(channel * H * W, H * W);
    for (const Coverage& vertical : rows) {
      std::ranges::fill(row, 0.0f);
      for (std::size_t i = 0; i < vertical.weights.size(); ++i)
        for (std::int64_t x = 0; x < W; ++x)
          row[x] +=
              vertical.weights[i] * from[(vertical.first + static_cast<std::int64_t>(i)) * W + x];
      for (const Coverage& horizontal : columns) *to++ = mean_of(row, horizontal);
    }
  }
  return result;
}

}  // namespace tapestry
