#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "autograd/array.hpp"
#include "data/images/images.hpp"
#include "data/images/orientation.hpp"

namespace tapestry {

// Returns whether a file's name ends as that of a picture does: .png, .jpg, .webp, … in any case.
bool has_picture_ending(std::string_view name);

// Bytes that pictures take at most while all threads together read them.
inline constexpr std::int64_t most_decoding_bytes = std::int64_t{1} << 30;

// How a picture is fitted to a size of another aspect ratio: its largest centered part is used; or
// the whole picture, centered between black borders, or stretched.
enum class PictureFit { crop, pad, stretch };

// How a picture is read.
struct PictureReading {
  ImageSize size{};  // to which it is fitted; height and width 0: the picture's own
  PictureFit fit = PictureFit::crop;
  bool reduces_jpeg = false;   // decodes JPEG files at 1/2, 1/4 or 1/8, not below what is filled
  bool turns_upright = false;  // applies the orientation that cameras store (EXIF)
};

// Reads a PNG or JPEG file, whose content decides the format: (channels, height, width) float32 in
// [0, 1], where channels is 1 (gray) or 3 (red, green, blue). The image is fitted to a size; each
// new pixel is the mean of the area that it covers. A gray value of a colored pixel is its luma,
// 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601). 16 bits are reduced to 8; transparent pixels are
// composited over white, and a PNG's gamma is applied. Waits while other threads need the memory of
// most_decoding_bytes. Throws InputError with the path if the file is of another format, damaged,
// cut short, above 256 MiB, has printing colors (CMYK), or, which its header tells, has more than
// 64 million pixels or takes more memory.
Array read_picture(const std::string& path, const PictureReading& how = {});

// Returns how much fitting changes a picture: for crop the part of its pixels that is cut, for pad
// the part of the new pixels that are black, for stretch by how much the sides' ratio grows or
// shrinks (0.5: 1.5 times). 0: nothing is changed.
double fitting_change(const ImageSize& from, const ImageSize& to, PictureFit fit);

// What the beginning of a picture file tells.
struct PictureInfo {
  ImageSize size{};  // of the stored pixels; the 3 channels of colors need not differ
  Orientation orientation{};
  bool has_16_bits = false;  // of each value, of which the upper 8 are read
};
// Throw InputError as read_picture() does, for what the header tells.
PictureInfo picture_info(const std::string& path);
ImageSize picture_size(const std::string& path);

// Returns whether the header of a PNG or JPEG file announces colors, which its pixels need not
// have. Returns false for a file that cannot be read.
bool is_colored(const std::string& path);

}  // namespace tapestry
