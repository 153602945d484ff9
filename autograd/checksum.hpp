#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/array.hpp"

struct XXH3_state_s;  // declared by libxxhash

namespace tapestry {

// The 64-bit XXH3 checksum of all bytes that were added, in their order. It detects damage and
// changes, but is no cryptographic signature.
class Checksum {
 public:
  Checksum();

  void add(std::span<const std::byte> bytes);
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::as_bytes(std::span(values)));
  }
  // Adds the length, then the values, so that the lists "a", "bc" differ from "ab", "c".
  template <class T>
  void add_list(const std::vector<T>& values) {
    const std::size_t length = values.size();
    add(std::as_bytes(std::span(&length, 1)));
    add(values);
  }
  void add(const Array& array);  // adds the elements, without the shape

  std::uint64_t value() const;  // returns the checksum of all bytes so far
  std::string hex() const;      // returns value() as 16 hexadecimal digits

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// Returns the checksum of the elements as 16 hexadecimal digits.
std::string checksum(const Array& array);

}  // namespace tapestry
