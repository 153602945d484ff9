#include "data/images/orientation.hpp"

#include <zlib.h>

#include <cstddef>
#include <cstdint>

namespace tapestry {
namespace {

// Bytes of a file that nothing vouches for. What lies outside of them is read as nothing.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes, bool big_endian = true)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::size_t size() const { return bytes_.size(); }
  bool has(std::size_t at, std::size_t count) const {
    return at <= bytes_.size() && count <= bytes_.size() - at;
  }
  // Returns at most `count` bytes.
  std::string_view part(std::size_t at, std::size_t count) const {
    return at <= bytes_.size() ? bytes_.substr(at, count) : std::string_view();
  }
  // Returns an unsigned number of `count` bytes, or 0 outside.
  std::uint32_t number(std::size_t at, std::size_t count) const {
    if (!has(at, count)) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
      value =
          value << 8 | static_cast<unsigned char>(bytes_[at + (big_endian_ ? i : count - 1 - i)]);
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

constexpr std::string_view exif_start{"Exif\0\0", 6};

// Returns the bytes of the EXIF data of a JPEG file, which precede its pixels; empty: none.
std::string_view exif_of_jpeg(const Bytes& file) {
  for (std::size_t at = 2; file.has(at, 4);) {
    const std::uint32_t marker = file.number(at, 2);
    if (marker == 0xffff) {  // a byte that fills up
      ++at;
      continue;
    }
    const std::uint32_t length = file.number(at + 2, 2);
    if (marker <= 0xff00 || marker == 0xffda || length < 2) return {};
    const std::string_view body = file.part(at + 4, length - 2);
    if (marker == 0xffe1 && body.starts_with(exif_start)) return body;
    at += 2 + length;
  }
  return {};
}

// Returns the bytes of the EXIF data of a PNG file, which may also follow its pixels; empty: none,
// or with another checksum.
std::string_view exif_of_png(const Bytes& file) {
  for (std::size_t at = png_start.size(); file.has(at, 12);) {
    const std::size_t length = file.number(at, 4);
    if (!file.has(at, 12 + length)) return {};
    if (const std::string_view name = file.part(at + 4, 4); name == "eXIf") {
      const std::string_view checked = file.part(at + 4, 4 + length);
      const auto sum = crc32(0, reinterpret_cast<const unsigned char*>(checked.data()),
                             static_cast<unsigned>(checked.size()));
      return sum == file.number(at + 8 + length, 4) ? checked.substr(4) : std::string_view();
    }
    at += 12 + length;
  }
  return {};
}

// Returns the value of the tag 0x0112 in the first list of EXIF data, which are a TIFF file without
// pixels; 0: none.
std::uint32_t orientation_tag(std::string_view exif) {
  if (exif.starts_with(exif_start)) exif.remove_prefix(exif_start.size());
  const bool big_endian = exif.starts_with("MM");
  if (!big_endian && !exif.starts_with("II")) return 0;
  const Bytes tiff(exif, big_endian);
  if (tiff.number(2, 2) != 42) return 0;
  const std::size_t list = tiff.number(4, 4), entries = tiff.number(list, 2);
  for (std::size_t i = 0; i < entries && tiff.has(list + 2 + 12 * i, 12); ++i) {
    const std::size_t entry = list + 2 + 12 * i;
    if (tiff.number(entry, 2) != 0x0112) continue;
    const std::uint32_t type = tiff.number(entry + 2, 2);  // 3: two bytes, 4: four bytes
    if ((type != 3 && type != 4) || tiff.number(entry + 4, 4) != 1) return 0;
    return tiff.number(entry + 8, type == 3 ? 2 : 4);
  }
  return 0;
}

}  // namespace

Orientation exif_orientation(std::string_view content) {
  const Bytes file(content);
  switch (
      orientation_tag(content.starts_with(png_start) ? exif_of_png(file) : exif_of_jpeg(file))) {
    case 2:
      return {.mirrors_columns = true};
    case 3:
      return {.mirrors_columns = true, .mirrors_rows = true};
    case 4:
      return {.mirrors_rows = true};
    case 5:
      return {.transposes = true};
    case 6:
      return {.mirrors_rows = true, .transposes = true};
    case 7:
      return {.mirrors_columns = true, .mirrors_rows = true, .transposes = true};
    case 8:
      return {.mirrors_columns = true, .transposes = true};
    default:
      return {};
  }
}

}  // namespace tapestry
