#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "autograd/array.hpp"

namespace tapestry {

// Returns whether a file's name ends as that of a picture does: .png, .jpg, .webp, … in any case.
bool has_picture_ending(std::string_view name);

// Reads a PNG or JPEG file, whose content decides the format: (channels, height, width) float32 in
// [0, 1], where channels is 1 (gray) or 3 (red, green, blue). A gray value of a colored pixel is
// its luma, 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601). 16 bits are reduced to 8; transparent
// pixels are composited over white, and a PNG's gamma is applied. The orientation that a camera
// stores beside the pixels (EXIF) is not applied. Throws InputError with the path if the file is of
// another format, damaged, cut short, above 256 MiB, has printing colors (CMYK), or has more than
// 64 million pixels, which is read from its header before memory is allocated.
Array read_picture(const std::string& path, std::int64_t channels);

// Returns whether the header of a PNG or JPEG file announces colors, which its pixels need not
// have. Returns false for a file that cannot be read.
bool is_colored(const std::string& path);

// Returns the image in another size: the largest centered part of the wanted aspect ratio, of which
// each new pixel is the mean of the area that it covers. (C, H, W) -> (C, height, width). Throws
// std::invalid_argument for another rank, and for an empty image or size.
Array fitted(const Array& image, std::int64_t height, std::int64_t width);

}  // namespace tapestry
