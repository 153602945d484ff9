#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// The safetensors format (huggingface.co/docs/safetensors): eight bytes of header length, a JSON
// header of names, dtypes, shapes and offsets, then the numbers, little-endian.
struct Safetensors {
  std::vector<std::pair<std::string, Array>> tensors;  // F32, F64 or I32
  std::map<std::string, std::string> metadata;
};

enum class StoredFloats { as_they_are, bfloat16 };  // bfloat16: rounded to the nearest

// Writes a file of which the parts stand one after the other.
using WriteParts = std::function<void(const std::vector<std::string_view>& parts)>;

void write_safetensors(const WriteParts& write, const Safetensors& file,
                       StoredFloats stored = StoredFloats::as_they_are);

// Writes a file as write_file_atomically does.
void write_safetensors(const std::string& path, const Safetensors& file,
                       StoredFloats stored = StoredFloats::as_they_are);

// A tensor as the header of a file describes it.
struct SafetensorsEntry {
  std::string name;
  const char* dtype;  // "F32", "BF16", …
  Shape shape;
  std::uint64_t begin, end;  // bytes of the data
};

// A file whose header was read and checked: InputError names the file and what is wrong with it:
// lengths, overlaps, holes, dtypes, shapes, names given twice, a header above 32 MiB. Beside what
// it reads it takes at most 40 bytes a byte of header.
class SafetensorsReader final {
 public:
  explicit SafetensorsReader(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // One tensor: F32, F64 and I32 as they are, F16 and BF16 as float32, which holds them exactly.
  // InputError for any other dtype.
  Array read(const SafetensorsEntry& entry);
  // Reads into an array of the tensor's shape, and of the dtype that it is read as.
  void read(const SafetensorsEntry& entry, Array& into);
  DType dtype_of(const SafetensorsEntry& entry) const;

 private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_{};
  std::map<std::string, std::string> metadata_{};
};

}  // namespace tapestry
