#pragma once

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "autograd/array.hpp"
#include "autograd/check.hpp"
#include "tests/support/paths.hpp"

namespace tapestry {

// Returns the tensors of tests/golden/NAME.safetensors, which make_golden.py wrote: F64 and I32.
class Golden {
 public:
  explicit Golden(const std::string& name) : name_(name) {
    const std::string path = golden_path(name + ".safetensors");
    std::ifstream file(path, std::ios::binary);
    require(file.good(), "golden: cannot read {}", path);
    std::stringstream bytes;
    bytes << file.rdbuf();
    bytes_ = bytes.str();
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof(length));
    header_ = nlohmann::json::parse(bytes_.substr(sizeof(length), length));
    data_ = sizeof(length) + length;
  }

  bool has(const std::string& key) const { return header_.contains(key); }
  const nlohmann::json& header() const { return header_; }

  // As float64 or int32 as stored.
  Array operator[](const std::string& key) const {
    require(has(key), "golden: {} has no {}", name_, key);
    const nlohmann::json& entry = header_[key];
    Shape shape;
    for (const std::int64_t extent : entry["shape"]) shape.push_back(extent);
    Array array(shape, entry["dtype"] == "F64" ? DType::float64 : DType::int32);
    const std::size_t begin = entry["data_offsets"][0];
    std::memcpy(array.mutable_raw(), bytes_.data() + data_ + begin, array.bytes());
    return array;
  }

 private:
  std::string name_, bytes_;
  nlohmann::json header_;
  std::size_t data_ = 0;
};

}  // namespace tapestry
