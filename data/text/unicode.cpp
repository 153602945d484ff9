#include "data/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "data/input_file.hpp"

namespace tapestry {
namespace {

// A character as utf8proc takes it.
utf8proc_int32_t number_of(char32_t character) { return static_cast<utf8proc_int32_t>(character); }

CharacterKind looked_up_kind(char32_t character) {
  if ((character >= '\t' && character <= '\r') || character == U'\u0085')
    return CharacterKind::space;
  const int category = utf8proc_get_property(number_of(character))->category;
  const auto is_among = [&](int first, int last) { return category >= first && category <= last; };
  if (is_among(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO)) return CharacterKind::letter;
  if (is_among(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO)) return CharacterKind::number;
  if (is_among(UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP)) return CharacterKind::space;
  return CharacterKind::other;
}

std::array<CharacterKind, 128> make_ascii_kinds() {
  std::array<CharacterKind, 128> kinds{};
  for (char32_t character = 0; character < kinds.size(); ++character)
    kinds[character] = looked_up_kind(character);
  return kinds;
}

}  // namespace

CharacterKind kind_of(char32_t character) {
  static const std::array<CharacterKind, 128> ascii_kinds = make_ascii_kinds();
  return character < ascii_kinds.size() ? ascii_kinds[character] : looked_up_kind(character);
}

std::string lower_case(std::string_view text) {
  constexpr char32_t capital_i_with_dot = 0x130, combining_dot_above = 0x307;
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    require(point.bytes > 0, "lower_case: byte {} is not UTF-8; expected UTF-8 text", offset);
    offset += point.bytes;
    const bool dotted = point.value == capital_i_with_dot;
    append_utf8(lower, dotted ? U'i' : utf8proc_tolower(number_of(point.value)));
    if (dotted) append_utf8(lower, combining_dot_above);
  }
  return lower;
}

std::string as_seen(std::string_view text) {
  constexpr std::u32string_view invisible = U"\u00AD\u200B\u200E\u200F\u2060\uFEFF";
  constexpr char32_t first_wide = U'！', last_wide = U'～', first_usual = U'!';
  std::string seen;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    require(point.bytes > 0, "as_seen: byte {} is not UTF-8; expected UTF-8 text", offset);
    offset += point.bytes;
    if (invisible.find(point.value) != invisible.npos) continue;
    const bool is_wide = point.value >= first_wide && point.value <= last_wide;
    append_utf8(seen, kind_of(point.value) == CharacterKind::space ? U' '
                      : is_wide ? point.value - first_wide + first_usual
                                : point.value);
  }
  return composed(lower_case(trimmed(seen)));
}

std::string with_ascii_digits(std::string_view text) {
  constexpr std::pair<char32_t, char> marks[] = {
      {U'٫', '.'}, {U'٬', ','}, {U'．', '.'}, {U'，', ','}, {U'－', '-'}};
  const auto is_digit = [](char32_t character) {
    return utf8proc_get_property(number_of(character))->category == UTF8PROC_CATEGORY_ND;
  };
  std::string result;
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const std::size_t bytes = std::max<std::size_t>(point.bytes, 1);
    const auto mark = std::ranges::find(marks, point.value, &std::pair<char32_t, char>::first);
    if (bytes > 1 && is_digit(point.value)) {
      int digit = 0;  // the digits of a script follow each other
      while (is_digit(point.value - digit - 1)) ++digit;
      result += static_cast<char>('0' + digit % 10);
    } else if (bytes > 1 && mark != std::end(marks)) {
      result += mark->second;
    } else {
      result += text.substr(offset, bytes);
    }
    offset += bytes;
  }
  return result;
}

void append_utf8(std::string& text, char32_t character) {
  if (character < 0x80) return text.push_back(static_cast<char>(character));
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(number_of(character), bytes.data());
  text.append(bytes.begin(), bytes.begin() + count);
}

// --- normalization form C ---

namespace {

// A text whose characters are all below this one is in normalization form C.
constexpr char32_t first_composable = 0x300;

// A vowel of Hangul that composes with nothing. utf8proc 2.8 loses it after a syllable.
constexpr char32_t lost_vowel = 0x11A7;

// Returns whether a character never composes with what precedes it, so that the text from there on
// is composed separately. A character that composes continues a grapheme cluster (UAX #29).
bool begins(char32_t character) {
  if (character < first_composable || character == lost_vowel) return true;
  switch (utf8proc_get_property(number_of(character))->boundclass) {
    case UTF8PROC_BOUNDCLASS_EXTEND:
    case UTF8PROC_BOUNDCLASS_SPACINGMARK:
    case UTF8PROC_BOUNDCLASS_V:
    case UTF8PROC_BOUNDCLASS_T:
      return false;
    default:
      return true;
  }
}

constexpr auto composition = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);

using Parts = std::vector<utf8proc_int32_t>;

// Appends the full decomposition of a character.
void decompose(char32_t character, Parts& into) {
  constexpr char32_t first_decomposable = 0xC0;
  if (character < first_decomposable) return into.push_back(number_of(character));
  constexpr std::size_t most = 4;
  const std::size_t size = into.size();
  into.resize(size + most);
  into.resize(size + utf8proc_decompose_char(number_of(character), into.data() + size, most,
                                             composition, nullptr));
}

int class_of(utf8proc_int32_t part) { return utf8proc_get_property(part)->combining_class; }

// Sorts marks in canonical order. utf8proc's own sorting takes quadratic time.
void put_in_order(Parts& parts) {
  const auto is_mark = [](utf8proc_int32_t part) { return class_of(part) != 0; };
  for (auto begin = parts.begin(); begin != parts.end();) {
    begin = std::find_if(begin, parts.end(), is_mark);
    const auto end = std::find_if_not(begin, parts.end(), is_mark);
    if (!std::ranges::is_sorted(begin, end, {}, class_of))
      std::ranges::stable_sort(begin, end, {}, class_of);
    begin = end;
  }
}

CodePoint checked_at(std::string_view text, std::size_t offset) {
  const CodePoint point = code_point_at(text, offset);
  require(point.bytes > 0, "composed: byte {} is not UTF-8; expected UTF-8 text", offset);
  return point;
}

}  // namespace

std::string composed(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  Parts parts;  // of the characters since the last one that begins()
  const auto finish = [&] {
    if (parts.size() > 1) {
      put_in_order(parts);
      parts.resize(utf8proc_normalize_utf32(parts.data(), std::ssize(parts), composition));
    }
    for (const utf8proc_int32_t part : parts) append_utf8(result, part);
    parts.clear();
  };
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = checked_at(text, offset);
    offset += point.bytes;
    if (begins(point.value)) finish();
    decompose(point.value, parts);
  }
  finish();
  return result;
}

std::size_t settled_composition_bytes(std::string_view text) {
  for (std::size_t offset = text.size(); offset > 0;) {
    offset = character_before(text, offset);
    if (begins(checked_at(text, offset).value)) return offset;
  }
  return 0;
}

}  // namespace tapestry
