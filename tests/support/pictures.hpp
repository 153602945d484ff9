#pragma once

#include <doctest/doctest.h>
#include <png.h>
#include <turbojpeg.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {

// Returns a PNG of the pixels, row by row, in a format of libpng's.
inline std::string png(std::uint32_t width, std::uint32_t format,
                       const std::vector<std::uint8_t>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.format = format;
  image.height = static_cast<std::uint32_t>(pixels.size()) / PNG_IMAGE_SAMPLE_SIZE(format) / width;
  std::string bytes(1 << 16, '\0');
  png_alloc_size_t size = bytes.size();
  REQUIRE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr));
  bytes.resize(size);
  return bytes;
}

// Returns a JPEG of pixels (height, width, 3).
inline std::string jpeg_of(int width, int height, const std::vector<std::uint8_t>& pixels) {
  tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  REQUIRE(tjCompress2(encoder, pixels.data(), width, 0, height, TJPF_RGB, &bytes, &size, TJSAMP_444,
                      100, TJFLAG_ACCURATEDCT) == 0);
  std::string all(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(encoder);
  return all;
}

// Returns a JPEG of one color.
inline std::string jpeg(int width, int height, const std::array<std::uint8_t, 3>& color) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < width * height; ++i) pixels.insert(pixels.end(), color.begin(), color.end());
  return jpeg_of(width, height, pixels);
}

}  // namespace tapestry
