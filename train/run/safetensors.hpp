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

// The contents of a file in the safetensors format (huggingface.co/docs/safetensors): eight bytes
// of header length, a JSON header of names, dtypes, shapes and offsets, then the elements,
// little-endian.
struct Safetensors {
  std::vector<std::pair<std::string, Array>> tensors;  // F32, F64 or I32
  std::map<std::string, std::string> metadata;
};

enum class StoredFloats { as_they_are, bfloat16 };  // bfloat16: round floats to nearest

// A function that writes a file that consists of the given parts in order.
using WriteParts = std::function<void(const std::vector<std::string_view>& parts)>;

// Writes a file with `write`. Throws whatever `write` throws.
void write_safetensors(const WriteParts& write, const Safetensors& file,
                       StoredFloats stored = StoredFloats::as_they_are);

// Writes a file with write_file_atomically(). Throws FileError if that fails.
void write_safetensors(const std::string& path, const Safetensors& file,
                       StoredFloats stored = StoredFloats::as_they_are);

// The header entry of a tensor.
struct SafetensorsEntry {
  std::string name;
  const char* dtype;  // "F32", "BF16", …
  Shape shape;
  std::uint64_t begin, end;  // byte range in the data after the header
};

// A reader of a file. The constructor reads and checks the header, and throws InputError that names
// the file and the fault: lengths, overlaps, gaps, dtypes, shapes, repeated names, or a header
// above 32 MiB. In addition to the data, a reader takes at most 40 bytes of memory per byte of the
// header.
class SafetensorsReader final {
 public:
  explicit SafetensorsReader(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Returns a tensor: F32, F64 and I32 unchanged, F16 and BF16 as float32, which is exact. Throws
  // InputError for other dtypes, and if the file was truncated after it was opened.
  Array read(const SafetensorsEntry& entry);
  // Reads into an array of the tensor's shape and of dtype_of(entry). Throws InputError likewise.
  void read(const SafetensorsEntry& entry, Array& into);
  // Returns the dtype of read(entry). Throws InputError for other dtypes.
  DType dtype_of(const SafetensorsEntry& entry) const;

 private:
  std::string path_;
  std::ifstream stream_;
  std::uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_{};
  std::map<std::string, std::string> metadata_{};
};

}  // namespace tapestry
