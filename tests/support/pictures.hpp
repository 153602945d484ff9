#pragma once

#include <doctest/doctest.h>
#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>

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

// Returns a number of `count` bytes, the last or the first byte first.
inline std::string bytes_of(std::uint32_t value, int count, bool little_endian = false) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += static_cast<char>(value >> 8 * (little_endian ? i : count - 1 - i));
  return bytes;
}

// Returns the PNG with another size in its header and a correct checksum.
inline std::string with_size(std::string png, std::uint32_t width, std::uint32_t height) {
  png.replace(16, 8, bytes_of(width, 4) + bytes_of(height, 4));
  const auto crc = static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const unsigned char*>(png.data()) + 12, 17));
  return png.replace(29, 4, bytes_of(crc, 4));
}

// Returns EXIF data that state an orientation behind another tag.
inline std::string exif_of(std::uint32_t orientation, bool little_endian = false) {
  const auto number = [&](std::uint32_t value, int count) {
    return bytes_of(value, count, little_endian);
  };
  return (little_endian ? "II" : "MM") + number(42, 2) + number(8, 4) + number(2, 2) +
         number(0x010f, 2) + number(2, 2) + number(4, 4) + std::string("abc\0", 4) +
         number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) + number(0, 2) +
         number(0, 4);
}

// Returns the JPEG with a segment of EXIF data behind its first one.
inline std::string with_exif(std::string jpeg, const std::string& exif) {
  const std::string body = std::string("Exif\0\0", 6) + exif;
  const int first = static_cast<unsigned char>(jpeg[4]) << 8 | static_cast<unsigned char>(jpeg[5]);
  return jpeg.insert(4 + first,
                     "\xff\xe1" + bytes_of(static_cast<std::uint32_t>(body.size()) + 2, 2) + body);
}

}  // namespace tapestry
