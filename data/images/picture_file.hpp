#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "autograd/array.hpp"
#include "data/images/images.hpp"

namespace tapestry {

// Returns whether a file's name ends as that of a picture does: .png, .jpg, .webp, … in any case.
bool has_picture_ending(std::string_view name);

// Bytes that pictures take at most while all threads together read them.
inline constexpr std::int64_t most_decoding_bytes = std::int64_t{1} << 30;

// How a picture is read.
struct PictureReading {
  ImageSize size{};  // to which it is fitted; height and width 0: the picture's own
  bool reduces_jpeg =
      false;  // decodes JPEG files at 1/2, 1/4 or 1/8, not below `size`, to fit them
};

// Reads a PNG or JPEG file, whose content decides the format: (channels, height, width) float32 in
// [0, 1], where channels is 1 (gray) or 3 (red, green, blue). The image is fitted to a size: the
// largest centered part of the wanted aspect ratio, of which each new pixel is the mean of the area
// that it covers. A gray value of a colored pixel is its luma, 0.299 R + 0.587 G + 0.114 B
// (ITU-R BT.601). 16 bits are reduced to 8; transparent pixels are composited over white, and a
// PNG's gamma is applied. The orientation that a camera stores beside the pixels (EXIF) is not
// applied. Waits while other threads need the memory of most_decoding_bytes. Throws InputError with
// the path if the file is of another format, damaged, cut short, above 256 MiB, has printing colors
// (CMYK), or, which its header tells, has more than 64 million pixels or takes more memory.
Array read_picture(const std::string& path, const PictureReading& how = {});

// Returns the size that the header of a PNG or JPEG file announces; the 3 channels of colors need
// not differ. Throws InputError as read_picture() does, for what the header tells.
ImageSize picture_size(const std::string& path);

// Returns whether the header of a PNG or JPEG file announces colors, which its pixels need not
// have. Returns false for a file that cannot be read.
bool is_colored(const std::string& path);

}  // namespace tapestry
