#pragma once

#include <string_view>

namespace tapestry {

inline constexpr std::string_view png_start = "\x89PNG\r\n\x1a\n";  // of each PNG file

// How the pixels of a file are turned to show them upright: the file is mirrored along its rows and
// columns, and then rows become columns.
struct Orientation {
  bool mirrors_columns = false;  // the first column is that of the right
  bool mirrors_rows = false;     // the first row is that of the bottom
  bool transposes = false;

  bool turns() const { return mirrors_columns || mirrors_rows || transposes; }
  bool operator==(const Orientation&) const = default;
};

// Returns the orientation that the EXIF data of a PNG or JPEG file state (CIPA DC-008, tag 0x0112).
// `content` is the file or its beginning. Returns that of upright pixels if there are no EXIF data,
// or damaged ones, or no orientation of 1 to 8.
Orientation exif_orientation(std::string_view content);

}  // namespace tapestry
