#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/run/safetensors.hpp"

namespace tapestry {

// The tensors of a published model: of model.safetensors in its folder, or of the several files
// that model.safetensors.index.json names.
class PublishedWeights final {
 public:
  // InputError where a file is missing, damaged, or holds other tensors than the index says.
  explicit PublishedWeights(const std::string& folder);

  struct Tensor {
    std::size_t file = 0;
    SafetensorsEntry entry{};
  };
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }  // by name
  std::int64_t elements() const;                                             // of all tensors

  // The file that a message about a tensor names.
  const std::string& path_of(const Tensor& tensor) const { return files_[tensor.file].path(); }
  const std::string& path() const { return path_; }  // of the only file, or of the index

  Array read(const Tensor& tensor) { return files_[tensor.file].read(tensor.entry); }

 private:
  void add_file(const std::string& path);

  std::string path_;
  std::vector<SafetensorsReader> files_{};
  std::map<std::string, Tensor> tensors_{};
};

}  // namespace tapestry
