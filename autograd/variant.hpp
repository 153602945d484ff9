#pragma once

#include <utility>
#include <variant>

namespace tapestry {

// A std::variant of numbers, texts and lists whose copy may throw. When the copy of a plain
// std::variant throws, as when memory runs out, libstdc++ destroys an alternative that was not
// constructed: it assumes that a variant of such types always has a value.
template <class... Types>
class Variant final : public std::variant<Types...> {
  using Base = std::variant<Types...>;

 public:
  using Base::Base;
  Variant() = default;
  Variant(const Variant& other)
      : Base(std::visit([](const auto& value) { return Base(value); },
                        static_cast<const Base&>(other))) {}
  Variant(Variant&&) = default;
  Variant& operator=(const Variant& other) { return *this = Variant(other); }
  Variant& operator=(Variant&&) = default;
  ~Variant() = default;
};

}  // namespace tapestry
