#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "autograd/variant.hpp"

namespace tapestry {
namespace {

// Fails as std::allocator does when memory runs out.
template <class T>
struct NoMemory : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = NoMemory<Other>;
  };
  static inline bool fails = false;
  T* allocate(std::size_t count) {
    if (fails) throw std::bad_alloc();
    return std::allocator<T>::allocate(count);
  }
};

TEST_CASE("bug: a copy of a config value ended the process when memory ran out") {
  using List = std::vector<std::int64_t, NoMemory<std::int64_t>>;
  using Value = Variant<bool, std::int64_t, double, std::string, std::vector<std::string>, List>;
  const Value list = List{1, 2};
  Value other = "text";
  NoMemory<std::int64_t>::fails = true;
  CHECK_THROWS_AS(Value{list}, std::bad_alloc);
  CHECK_THROWS_AS(other = list, std::bad_alloc);
  NoMemory<std::int64_t>::fails = false;
  CHECK(other == Value("text"));
  other = list;
  CHECK(other == list);
}

}  // namespace
}  // namespace tapestry
