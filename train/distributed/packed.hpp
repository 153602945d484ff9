#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/check.hpp"

// Conversion of values to bytes and back, for ranks with the same byte order. Trivially copyable
// types, strings, vectors and maps can be packed; any other type must name its fields:
//   struct Seat {
//     std::string cores;
//     int usable = 1;
//     static void fields(auto& visit, auto& self) { visit(self.cores, self.usable); }
//   };
namespace tapestry {

class Packer final {
 public:
  template <class T>
  void put(const T& value) {
    if constexpr (requires { T::fields(*this, value); }) {
      T::fields(*this, value);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) put(value);
  }
  template <class Key, class Value>
  void put(const std::map<Key, Value>& values) {
    put(values.size());
    for (const auto& [key, value] : values) (*this)(key, value);
  }

  template <class... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// A reader of values in the order in which they were packed. Throws std::invalid_argument if fewer
// bytes are left than a value needs.
class Unpacker final {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    T value{};
    get(value);
    return value;
  }

  template <class... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }

  bool at_end() const { return bytes_.empty(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (requires { T::fields(*this, value); }) {
      T::fields(*this, value);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
    }
  }
  void get(std::string& text) { text = next(get<std::size_t>()); }
  template <class T>
  void get(std::vector<T>& values) {
    for (auto left = get<std::size_t>(); left > 0; --left) values.push_back(get<T>());
  }
  template <class Key, class Value>
  void get(std::map<Key, Value>& values) {
    for (auto left = get<std::size_t>(); left > 0; --left) {
      Key key = get<Key>();
      values.emplace(std::move(key), get<Value>());
    }
  }

  std::string_view next(std::size_t count) {
    require(count <= bytes_.size(),
            "Unpacker: {} bytes requested, {} left; expected at most those that are left", count,
            bytes_.size());
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace tapestry
