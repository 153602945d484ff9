#include "data/text/unicode.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/unicode_kinds.hpp"

namespace tapestry {
namespace {

// The range that the character lies in; null where none does.
template <class Ranges>
constexpr auto range_of(const Ranges& ranges, char32_t character) {
  const auto range = std::ranges::lower_bound(ranges, character, {},
                                              [](const auto& candidate) { return candidate.last; });
  return range != std::end(ranges) && range->first <= character ? &*range : nullptr;
}

constexpr CharacterKind looked_up_kind(char32_t character) {
  const auto* range = range_of(unicode::kinds, character);
  return range ? range->kind : CharacterKind::other;
}

constexpr std::array<CharacterKind, 128> make_ascii_kinds() {
  std::array<CharacterKind, 128> kinds{};
  for (char32_t character = 0; character < kinds.size(); ++character)
    kinds[character] = looked_up_kind(character);
  return kinds;
}
constexpr std::array<CharacterKind, 128> ascii_kinds = make_ascii_kinds();

char32_t lower_case(char32_t character) {
  const auto* range = range_of(unicode::upper_cases, character);
  if (!range || (character - range->first) % range->step != 0) return character;
  return static_cast<char32_t>(static_cast<std::int32_t>(character) + range->offset);
}

}  // namespace

CharacterKind kind_of(char32_t character) {
  return character < ascii_kinds.size() ? ascii_kinds[character] : looked_up_kind(character);
}

std::string lower_case(std::string_view text) {
  constexpr char32_t capital_i_with_dot = 0x130, combining_dot_above = 0x307;
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    require(point.bytes > 0, "lower_case: byte {} is not UTF-8", offset);
    offset += point.bytes;
    const bool dotted = point.value == capital_i_with_dot;
    append_utf8(lower, dotted ? U'i' : lower_case(point.value));
    if (dotted) append_utf8(lower, combining_dot_above);
  }
  return lower;
}

void append_utf8(std::string& text, char32_t character) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto add_tail = [&](int shift) { add(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) return add(character);
  if (character < 0x800) {
    add(0xC0 | character >> 6);
  } else if (character < 0x10000) {
    add(0xE0 | character >> 12);
    add_tail(6);
  } else {
    add(0xF0 | character >> 18);
    add_tail(12);
    add_tail(6);
  }
  add_tail(0);
}

}  // namespace tapestry
