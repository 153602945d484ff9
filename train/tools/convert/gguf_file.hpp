#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "autograd/array.hpp"
#include "data/json.hpp"
#include "train/tools/convert/gguf_numbers.hpp"

// The GGUF format (github.com/ggml-org/ggml, docs/gguf.md): "GGUF", a version and two counts, then
// fields, the tensors' names, shapes and places, and their numbers, all little-endian.
namespace tapestry {

struct GgufField {
  std::string name;  // "llama.block_count"
  std::variant<bool, std::uint32_t, float, std::string, std::vector<std::int32_t>,
               std::vector<std::string>>
      value;
};

struct GgufTensor {
  std::string name;  // "blk.0.attn_q.weight"
  GgufType type = GgufType::f32;
  Shape shape{};  // (out, in) of a projection, which the file has as in, out
};

// As stream_file_atomically writes. `values` is asked for one tensor after the other, float32 of
// its shape. InputError names a tensor whose numbers its type cannot hold.
void write_gguf(const std::string& path, const std::vector<GgufField>& fields,
                const std::vector<GgufTensor>& tensors,
                const std::function<Array(std::size_t tensor)>& values);

// A file whose fields and places were read and checked. InputError names the file, and the byte,
// field or tensor: another version, counts and lengths that the file has no room for, names given
// twice, texts that are not UTF-8, types other than GgufType's, tensors that are not where the one
// before ends, fields and places above 32 MiB. Beside what it reads it takes at most 40 bytes a
// byte of these.
class GgufReader final {
 public:
  explicit GgufReader(const std::string& path);
  ~GgufReader();
  GgufReader(const GgufReader&) = delete;
  GgufReader& operator=(const GgufReader&) = delete;

  const std::string& path() const { return path_; }
  // An object: numbers, texts, flags and lists of them. float32 are the shortest decimal numbers
  // that stand for them.
  const JsonValue& fields() const { return *fields_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  Array read(std::size_t tensor);  // float32

 private:
  std::string path_;
  std::ifstream stream_;
  std::unique_ptr<JsonValue> fields_;
  std::vector<GgufTensor> tensors_{};
  std::vector<std::uint64_t> begins_{};  // of the tensors, in the file
};

}  // namespace tapestry
