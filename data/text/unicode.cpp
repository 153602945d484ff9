#include "data/text/unicode.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/unicode_tables.hpp"

namespace tapestry {
namespace {

// Returns the range that contains the character; null if there is none.
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
    require(point.bytes > 0, "lower_case: byte {} is not UTF-8; expected UTF-8 text", offset);
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

// --- normalization form C: UAX #15 and chapter 3.11 of Unicode ---

namespace {

// A text whose characters are all below this one is in normalization form C.
constexpr char32_t first_composable = 0x300;

// The number of a syllable of Hangul is computed from a leading consonant, a vowel and an optional
// trailing consonant.
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
constexpr char32_t lead_count = 19, vowel_count = 21, trail_count = 28;  // trail 0 is none
constexpr char32_t syllable_count = lead_count * vowel_count * trail_count;

bool is_among(char32_t first, char32_t count, char32_t character) {
  return character >= first && character - first < count;
}
bool is_syllable(char32_t character) { return is_among(syllables, syllable_count, character); }

int class_of(char32_t character) {
  if (character < first_composable) return 0;
  const auto* range = range_of(unicode::combining_classes, character);
  return range ? range->value : 0;
}

std::uint64_t key_of(char32_t first, char32_t second) {
  return static_cast<std::uint64_t>(first) << 32 | second;
}

struct Tables {
  struct Parts {
    char32_t first, second;  // second 0: the first alone
  };
  std::unordered_map<char32_t, Parts> parts{};
  std::unordered_map<std::uint64_t, char32_t> wholes{};  // keyed by both parts
  std::unordered_set<char32_t> seconds{};  // characters that compose with one before them
  Tables() {
    for (const auto& [second, pairs] : unicode::compositions) {
      for (std::size_t i = 0; i < pairs.size(); i += 2) {
        parts[pairs[i + 1]] = {pairs[i], second};
        wholes[key_of(pairs[i], second)] = pairs[i + 1];
      }
      seconds.insert(second);
    }
    for (const auto& [whole, first, second] : unicode::decompositions_to_two)
      parts[whole] = {first, second};
    for (const auto& [first, others] : unicode::decompositions_to_one)
      for (std::size_t i = 0; i < others.size(); ++i)
        parts[first + static_cast<char32_t>(i)] = {others[i], 0};
  }
};
const Tables& tables() {
  static const Tables made;
  return made;
}

// Appends the full decomposition of a character.
void decompose(char32_t character, std::vector<char32_t>& into) {
  if (is_syllable(character)) {
    const char32_t number = character - syllables, trail = number % trail_count;
    into.push_back(leads + number / (vowel_count * trail_count));
    into.push_back(vowels + number / trail_count % vowel_count);
    if (trail != 0) into.push_back(trails + trail);
    return;
  }
  const auto found = character < 0xC0 ? tables().parts.end() : tables().parts.find(character);
  if (found == tables().parts.end()) return into.push_back(character);
  decompose(found->second.first, into);
  if (found->second.second != 0) into.push_back(found->second.second);
}

// Returns the composition of two characters; 0 if there is none.
char32_t whole_of(char32_t first, char32_t second) {
  if (is_among(leads, lead_count, first) && is_among(vowels, vowel_count, second))
    return syllables + ((first - leads) * vowel_count + second - vowels) * trail_count;
  const bool lacks_trail = is_syllable(first) && (first - syllables) % trail_count == 0;
  if (lacks_trail && is_among(trails + 1, trail_count - 1, second)) return first + second - trails;
  const auto found = tables().wholes.find(key_of(first, second));
  return found == tables().wholes.end() ? 0 : found->second;
}

// Returns whether a character whose decomposition begins with this one never composes with what
// precedes it, so that the text from there on is composed separately.
bool begins(char32_t first_part) {
  return first_part < first_composable ||
         (class_of(first_part) == 0 && !tables().seconds.contains(first_part) &&
          !is_among(vowels, vowel_count, first_part) &&
          !is_among(trails + 1, trail_count - 1, first_part));
}

void put_in_order(std::vector<char32_t>& parts) {
  for (auto begin = parts.begin(); begin != parts.end();) {
    begin = std::find_if(begin, parts.end(), [](char32_t part) { return class_of(part) != 0; });
    const auto end =
        std::find_if(begin, parts.end(), [](char32_t part) { return class_of(part) == 0; });
    std::stable_sort(begin, end, [](char32_t a, char32_t b) { return class_of(a) < class_of(b); });
    begin = end;
  }
}

// Composes each part with the last one of class 0, if the two have a composition and no other part
// between them has the same or a higher class.
void compose(std::vector<char32_t>& parts) {
  std::size_t kept = 0, starter = parts.size();
  int last_class = 0;
  for (const char32_t part : parts) {
    const int part_class = class_of(part);
    const bool has_starter = starter < kept;
    const bool next_to_it = starter + 1 == kept;
    const char32_t whole =
        has_starter && (next_to_it || last_class < part_class) ? whole_of(parts[starter], part) : 0;
    if (whole != 0) {
      parts[starter] = whole;
      continue;
    }
    if (part_class == 0) starter = kept;
    last_class = part_class;
    parts[kept++] = part;
  }
  parts.resize(kept);
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
  // Parts of one character; characters since the last one that begins().
  std::vector<char32_t> parts, segment;
  const auto finish = [&] {
    if (segment.size() > 1) {
      put_in_order(segment);
      compose(segment);
    }
    for (const char32_t character : segment) append_utf8(result, character);
    segment.clear();
  };
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = checked_at(text, offset);
    offset += point.bytes;
    parts.clear();
    decompose(point.value, parts);
    if (begins(parts.front())) finish();
    segment.insert(segment.end(), parts.begin(), parts.end());
  }
  finish();
  return result;
}

std::size_t settled_composition_bytes(std::string_view text) {
  std::vector<char32_t> parts;
  for (std::size_t offset = text.size(); offset > 0;) {
    offset = character_before(text, offset);
    parts.clear();
    decompose(checked_at(text, offset).value, parts);
    if (begins(parts.front())) return offset;
  }
  return 0;
}

}  // namespace tapestry
