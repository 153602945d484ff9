#include "data/images/idx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::uint32_t labels_magic = 0x00000801;  // unsigned bytes, 1 axis
constexpr std::uint32_t images_magic = 0x00000803;  // unsigned bytes, 3 axes
constexpr std::int64_t max_bytes = std::int64_t{1} << 30;

struct Idx {
  std::vector<std::int64_t> extents{};
  std::string bytes{};      // the whole file
  std::size_t payload = 0;  // where the values start
};

const char* describe(std::uint32_t magic) {
  if (magic == labels_magic) return "IDX labels";
  if (magic == images_magic) return "IDX images";
  return "not such an IDX file";
}

std::uint32_t big_endian(const std::string& bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return value;
}

void check_magic(const std::string& path, const std::string& start, std::uint32_t expected) {
  expect_input(start.size() >= 4, "{}: byte {}: the file ends, expected {} (magic 0x{:08x}); {}",
               path, start.size(), describe(expected), expected, "copy or download it again");
  const std::uint32_t magic = big_endian(start, 0);
  expect_input(magic == expected,
               "{}: byte 0: expected 0x{:08x} ({}), found 0x{:08x} ({}); give the {} file", path,
               expected, describe(expected), magic, describe(magic),
               expected == images_magic ? "...-images-idx3-ubyte" : "...-labels-idx1-ubyte");
}

std::vector<std::int64_t> read_extents(const std::string& path, const std::string& start,
                                       int rank) {
  const std::size_t header = 4 + 4 * rank;
  expect_input(start.size() >= header,
               "{}: byte {}: the file ends within its {}-byte header; copy or download it again",
               path, start.size(), header);
  std::vector<std::int64_t> extents;
  for (std::size_t offset = 4; offset < header; offset += 4) {
    extents.push_back(big_endian(start, offset));
    expect_input(extents.back() > 0, "{}: byte {}: expected {}, found 0; give a file with {}", path,
                 offset, offset == 4 ? "a count" : "an image's height or width",
                 rank == 1 ? "labels" : "images");
  }
  return extents;
}

// The bytes that follow the header; each partial product is checked, so none overflows.
std::int64_t payload_bytes(const std::string& path, const std::vector<std::int64_t>& extents) {
  std::int64_t bytes = 1;
  for (const std::int64_t extent : extents) {
    expect_input(extent <= max_bytes / bytes,
                 "{}: byte 4: the header promises {} bytes, expected at most {}; the file is "
                 "damaged, copy or download it again",
                 path, fmt::join(extents, " x "), max_bytes);
    bytes *= extent;
  }
  return bytes;
}

Idx read_idx(const std::string& path, std::uint32_t magic) {
  const int rank = static_cast<int>(magic & 0xFF);
  const std::int64_t header = 4 + 4 * rank;
  const std::string start = read_start(path, header);
  check_magic(path, start, magic);
  Idx idx{.extents = read_extents(path, start, rank), .payload = static_cast<std::size_t>(header)};
  const std::int64_t expected = header + payload_bytes(path, idx.extents);
  idx.bytes = read_start(path, expected + 1);
  const std::int64_t found = std::ssize(idx.bytes);
  const std::string promise = fmt::format("{}", fmt::join(idx.extents, " x "));
  expect_input(found >= expected,
               "{}: byte {}: the file ends, expected {} bytes (its header promises {} values); "
               "copy or download it again",
               path, found, expected, promise);
  expect_input(found == expected,
               "{}: byte {}: the file goes on, expected its end (its header promises {} values); "
               "copy or download it again",
               path, expected, promise);
  return idx;
}

}  // namespace

Array read_idx_images(const std::string& path) {
  const Idx idx = read_idx(path, images_magic);
  Array images({idx.extents[0], idx.extents[1], idx.extents[2]});
  std::transform(idx.bytes.begin() + static_cast<std::ptrdiff_t>(idx.payload), idx.bytes.end(),
                 images.mutable_values<float>().begin(), [](char byte) {
                   return static_cast<float>(static_cast<unsigned char>(byte)) / 255;
                 });
  return images;
}

std::vector<std::int32_t> read_idx_labels(const std::string& path, std::int32_t classes) {
  const Idx idx = read_idx(path, labels_magic);
  std::vector<std::int32_t> labels;
  labels.reserve(idx.bytes.size());
  for (std::size_t offset = idx.payload; offset < idx.bytes.size(); ++offset) {
    labels.push_back(static_cast<unsigned char>(idx.bytes[offset]));
    expect_option(labels.back() < classes, "classes",
                  "{}: byte {}: expected a label from 0 to {}, found {}; give labels of {} classes",
                  path, offset, classes - 1, labels.back(), classes);
  }
  return labels;
}

}  // namespace tapestry
