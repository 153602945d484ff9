#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "data/images/images.hpp"
#include "tests/support/process.hpp"

namespace tapestry {

// Returns the pixels of all images, (N, F).
inline Array all_images(const ImageDataset& images) {
  std::vector<std::int64_t> examples(images.size());
  for (std::size_t i = 0; i < examples.size(); ++i) examples[i] = static_cast<std::int64_t>(i);
  return images.batch(examples).inputs;
}

inline std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift);
  return bytes;
}

// Writes a split of an IDX folder: images of side × side, even ones dark, odd ones bright, with
// these labels.
struct IdxSplit {
  std::string name = "train";  // or "t10k"
  std::uint32_t count = 20, side = 6;
  int bright = 200;
};

inline void write_idx(const TemporaryFolder& folder, const std::string& name,
                      const IdxSplit& split) {
  fs::create_directories(folder.path(name));
  std::string images = big_endian(0x803) + big_endian(split.count) + big_endian(split.side) +
                       big_endian(split.side),
              labels = big_endian(0x801) + big_endian(split.count);
  for (std::uint32_t i = 0; i < split.count; ++i) {
    images += std::string(split.side * split.side, static_cast<char>(i % 2 * split.bright));
    labels += static_cast<char>(i % 2);
  }
  folder.write(fmt::format("{}/{}-images-idx3-ubyte", name, split.name), images);
  folder.write(fmt::format("{}/{}-labels-idx1-ubyte", name, split.name), labels);
}

// Writes both splits: 20 training images and 6 test images.
inline void write_images(const TemporaryFolder& folder, const std::string& name,
                         std::uint32_t side) {
  write_idx(folder, name, {.name = "train", .count = 20, .side = side});
  write_idx(folder, name, {.name = "t10k", .count = 6, .side = side});
}

}  // namespace tapestry
