#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// The IDX format of MNIST (LeCun, Cortes and Burges): a big-endian header, then one byte a value;
// plain or gzip. InputError names the file and byte offset: wrong kind of file, cut short, longer
// than its header says, nothing in it, above 1 GiB of values. What the header promises is compared
// with the file's size before there is memory for it, which is 4 bytes a value.

// Images: (N, rows, columns) float32 in [0, 1], that is byte / 255.
Array read_idx_images(const std::string& path);

// Labels: N of them, each in [0, classes), else OptionError of "classes".
std::vector<std::int32_t> read_idx_labels(const std::string& path, std::int32_t classes);

}  // namespace tapestry
