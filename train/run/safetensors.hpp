#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// The safetensors format (huggingface.co/docs/safetensors): eight bytes of header length, a JSON
// header of names, dtypes, shapes and offsets, then the numbers, little-endian.
struct Safetensors {
  std::vector<std::pair<std::string, Array>> tensors;  // F32, F64 or I32
  std::map<std::string, std::string> metadata;

  const Array* find(const std::string& name) const;  // null if there is none
};

// As write_file_atomically writes.
void write_safetensors(const std::string& path, const Safetensors& file);

// Throws InputError that names the file and what is wrong with it: lengths, overlaps, holes,
// dtypes, shapes, names given twice, a header above 32 MiB. Sizes are compared with the file's
// before there is memory for them; beside the tensors it takes at most 40 bytes a byte of header.
Safetensors read_safetensors(const std::string& path);

}  // namespace tapestry
