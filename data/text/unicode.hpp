#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Properties of characters, by utf8proc: of Unicode 15.0 in Debian 12, and 15.1 in Debian 13.
// Unassigned characters are `other`, have no lower case and are not composed. The functions throw
// std::invalid_argument for a text that is not UTF-8.
namespace tapestry {

// The class of a character in regular expressions: \p{L}, \p{N}, \s (White_Space), or none of them.
enum class CharacterKind { letter, number, space, other };
CharacterKind kind_of(char32_t character);

// Returns the text in lower case, character by character (Σ becomes σ even at the end of a word; İ
// becomes i and U+0307). Throws std::invalid_argument unless the text is UTF-8.
std::string lower_case(std::string_view text);

// Returns normalization form C (UAX #15): composes characters where one stands for several, as é
// for e and U+0301, and sorts the other marks of a character in canonical order. Throws
// std::invalid_argument unless the text is UTF-8.
std::string composed(std::string_view text);

// Returns what a reader takes the text for: without characters that nobody sees and white space
// around it, in lower case, composed, each space and each full-width character as the usual one.
// Throws std::invalid_argument unless the text is UTF-8.
std::string as_seen(std::string_view text);

// Returns the text with the decimal digits of any script, and the marks of Arabic and full-width
// numbers, as those of ASCII: "١٢٫٥" is "12.5". Bytes that are not UTF-8 remain.
std::string with_ascii_digits(std::string_view text);

// Returns a number of bytes of the beginning that are composed in the same way however the text
// continues.
std::size_t settled_composition_bytes(std::string_view text);

// Appends the UTF-8 form of a character.
void append_utf8(std::string& text, char32_t character);

}  // namespace tapestry
