#pragma once

#include <string>
#include <string_view>

namespace tapestry {

// \p{L}, \p{N} and \s of a regular expression. Exactly Unicode 14's letters and numbers in
// U+0000–U+058F (Latin, IPA, Greek, Cyrillic, Armenian) and U+1E00–U+2BFF (Latin and Greek
// extended, punctuation, symbols). Elsewhere a coarse rule: every character above U+058F is a
// letter but for CJK punctuation, the private use area, variation selectors and emoji; digits of
// other scripts and vowel signs count as letters too. White space is exact everywhere.
enum class CharacterKind { letter, number, space, other };
CharacterKind kind_of(char32_t character);

// Lower case, character by character (Σ becomes σ even at the end of a word; İ becomes i and
// U+0307). Exactly Unicode 14's in U+0000–U+058F and U+1E00–U+1EFF; other characters stay as they
// are. std::invalid_argument where the text is not UTF-8.
std::string lower_case(std::string_view text);

// Appends the UTF-8 form of a character.
void append_utf8(std::string& text, char32_t character);

}  // namespace tapestry
