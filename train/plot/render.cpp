#include "train/plot/render.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/engine.hpp"
#include "train/plot/canvas.hpp"

namespace tapestry {
namespace {

// Returns the function of the plug-in that draws PNG, and loads it at the first call. Throws
// std::runtime_error if it cannot be loaded.
const PngCanvas& png_canvas() {
  static const PngCanvas* loaded = nullptr;  // a later call tries again
  if (loaded) return *loaded;
  const std::string path = plugin_path(cairo_plugin);
  void* library = dlopen(path.c_str(), RTLD_NOW);
  loaded = library ? static_cast<const PngCanvas*>(dlsym(library, png_canvas_name)) : nullptr;
  if (!loaded) {
    const char* failure = dlerror();
    throw std::runtime_error(
        fmt::format("PNG figures need cairo, which cannot be loaded: {}; install cairo (apt "
                    "install libcairo2), "
                    "or write SVG: --out x.svg",
                    failure ? failure : path + ": not a plug-in"));
  }
  return *loaded;
}

// Pixels as a PNG stores them, row by row: one byte each, or three for red, green and blue.
struct PixelBytes {
  std::int64_t height, width, channels;
  std::vector<unsigned char> bytes{};
};

// Returns the whole grid, each pixel of an image enlarged to 2 x 2, with gray lines between images.
PixelBytes joined(const PictureGrid& pictures) {
  constexpr std::int64_t enlarged = 2;
  constexpr unsigned char line = 64;
  const auto& [images, columns] = pictures;
  const int rank = images.rank();
  const std::int64_t C = rank == 4 ? images.dim(1) : 1;
  require((rank == 3 || rank == 4) && (C == 1 || C == 3) && columns >= 1,
          "to_png: {} in {} columns; expected images (N, H, W) or (N, C, H, W), C 1 or 3, in at "
          "least 1 column",
          to_string(images.shape()), columns);
  const std::int64_t N = images.dim(0), h = images.dim(rank - 2), w = images.dim(rank - 1);
  const std::int64_t H = enlarged * h, W = enlarged * w, rows = (N + columns - 1) / columns;
  PixelBytes grid{.height = rows * (H + 1) + 1, .width = columns * (W + 1) + 1, .channels = C};
  grid.bytes.assign(grid.height * grid.width * C, line);
  const auto from = images.values<float>();
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t y = 0; y < H; ++y) {
      const std::int64_t row = i / columns * (H + 1) + 1 + y, column = i % columns * (W + 1) + 1;
      for (std::int64_t x = 0; x < W; ++x)
        for (std::int64_t c = 0; c < C; ++c) {
          const float value = from[((i * C + c) * h + y / enlarged) * w + x / enlarged];
          grid.bytes[(row * grid.width + column + x) * C + c] =
              static_cast<unsigned char>(std::lround(std::clamp(value, 0.0F, 1.0F) * 255));
        }
    }
  return grid;
}

template <class Figure>
std::string drawn(const Figure& figure, Format format) {
  const Extent extent = extent_of(figure);
  const auto canvas = format == Format::png ? png_canvas().open(extent) : svg_canvas(extent);
  draw(figure, *canvas);
  return canvas->finish();
}

std::string drawn(const PictureGrid& pictures, Format format) {
  require(format == Format::png, "render: pictures as {}; expected .png", ending_of(format));
  return to_png(pictures);
}

}  // namespace

Array attention_colors(const Array& weights) {
  Array colors = weights.clone();
  const std::int64_t H = weights.dim(0), size = weights.size() / H;
  for (std::int64_t h = 0; h < H; ++h) {
    const auto head = colors.mutable_values<float>().subspan(h * size, size);
    const float most = std::ranges::max(head);
    for (float& weight : head) weight = weight > 0 ? std::sqrt(weight / most) : 0;
  }
  return colors;
}

std::string to_png(const PictureGrid& grid) {
  const PixelBytes pixels = joined(grid);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.height);
  image.width = static_cast<png_uint_32>(pixels.width);
  image.format = pixels.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  std::string bytes;
  bool written =
      png_image_write_get_memory_size(image, size, 0, pixels.bytes.data(), 0, nullptr) != 0;
  bytes.resize(size);
  written = written && png_image_write_to_memory(&image, bytes.data(), &size, 0,
                                                 pixels.bytes.data(), 0, nullptr) != 0;
  if (!written)
    throw std::runtime_error(
        fmt::format("to_png: libpng cannot write the image: {}; free some memory", image.message));
  return bytes;
}

std::string ending_of(Format format) { return format == Format::png ? ".png" : ".svg"; }

std::vector<Format> formats_of(const Figure& figure) {
  if (std::holds_alternative<PictureGrid>(figure)) return {Format::png};
  return {Format::png, Format::svg};
}

std::string render(const Figure& figure, Format format) {
  return std::visit([&](const auto& one) { return drawn(one, format); }, figure);
}

}  // namespace tapestry
