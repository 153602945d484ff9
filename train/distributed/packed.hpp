#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "autograd/check.hpp"

// Values as bytes, for the other ranks, whose processor has the same order of bytes.
namespace tapestry {

class Packer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// std::invalid_argument where there are not as many bytes as are asked for.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(next(get<std::size_t>()));
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      T value;
      std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
      return value;
    }
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view next(std::size_t count) {
    require(count <= bytes_.size(), "Unpacker: {} bytes of {}", count, bytes_.size());
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace tapestry
