#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// What Unicode 15.0 says of characters (make_unicode_tables.py makes the tables). Those that it
// does not know are `other`, stay as they are, and are put together with nothing. Texts are UTF-8,
// else std::invalid_argument.
namespace tapestry {

// \p{L}, \p{N} and \s of a regular expression: categories L and N, and White_Space.
enum class CharacterKind { letter, number, space, other };
CharacterKind kind_of(char32_t character);

// Lower case, character by character (Σ becomes σ even at the end of a word; İ becomes i and
// U+0307).
std::string lower_case(std::string_view text);

// Normalization form C (UAX #15): characters are put together where one stands for several, as é
// for e and U+0301, and what is left of marks on a character is in canonical order.
std::string composed(std::string_view text);

// How much of the beginning of a text can be composed without knowing how the text goes on.
std::size_t settled_composition_bytes(std::string_view text);

// Appends the UTF-8 form of a character.
void append_utf8(std::string& text, char32_t character);

}  // namespace tapestry
