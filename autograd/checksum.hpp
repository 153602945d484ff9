#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/array.hpp"

struct XXH3_state_s;  // of libxxhash

namespace tapestry {

// XXH3 with 64 bits of all bytes that were added, in their order, however they were parted. It
// tells damage and other content, but nothing of who meant it: it is no signature.
class Checksum {
 public:
  Checksum();

  void add(std::span<const std::byte> bytes);
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::as_bytes(std::span(values)));
  }
  // Of lists that follow one another: the length first, so that "a", "bc" is not "ab", "c".
  template <class T>
  void add_list(const std::vector<T>& values) {
    const std::size_t length = values.size();
    add(std::as_bytes(std::span(&length, 1)));
    add(values);
  }
  void add(const Array& array);  // its numbers, but not its shape

  std::uint64_t value() const;  // of what was added so far
  std::string hex() const;      // the same: 16 digits

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::string checksum(const Array& array);  // of its numbers

}  // namespace tapestry
