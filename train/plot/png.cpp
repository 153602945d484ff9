#include "train/plot/png.hpp"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "autograd/check.hpp"

namespace tapestry {

namespace {

constexpr std::int64_t enlarged = 2;  // a pixel of an image is so many of the grid, either way

// The whole grid (height, width).
Array joined(const PictureGrid& pictures) {
  const auto& [images, columns] = pictures;
  require(images.rank() == 3 && columns >= 1, "to_png: {} in {} columns", to_string(images.shape()),
          columns);
  const std::int64_t N = images.dim(0), H = enlarged * images.dim(1), W = enlarged * images.dim(2);
  const std::int64_t rows = (N + columns - 1) / columns;
  Array grid = Array::full({rows * (H + 1) + 1, columns * (W + 1) + 1}, 0.25);
  const auto from = images.values<float>();
  const auto to = grid.mutable_values<float>();
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t y = 0; y < H; ++y) {
      const std::int64_t row = i / columns * (H + 1) + 1 + y, column = i % columns * (W + 1) + 1;
      const float* pixels = from.data() + (i * images.dim(1) + y / enlarged) * images.dim(2);
      for (std::int64_t x = 0; x < W; ++x)
        to[row * grid.dim(1) + column + x] = pixels[x / enlarged];
    }
  return grid;
}

}  // namespace

std::string to_png(const PictureGrid& grid) {
  const Array picture = joined(grid);
  std::vector<unsigned char> pixels;
  for (float value : picture.values<float>())
    pixels.push_back(static_cast<unsigned char>(std::lround(std::clamp(value, 0.0F, 1.0F) * 255)));
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(picture.dim(0));
  image.width = static_cast<png_uint_32>(picture.dim(1));
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  std::string bytes;
  bool written = png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr) != 0;
  bytes.resize(size);
  written = written && png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0,
                                                 nullptr) != 0;
  if (!written) throw std::runtime_error(fmt::format("png: {}", image.message));
  return bytes;
}

}  // namespace tapestry
