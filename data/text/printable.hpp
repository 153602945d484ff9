#pragma once

#include <string>
#include <string_view>

namespace tapestry {

// Returns the text on one line, with everything escaped that a terminal interprets or that misleads
// a reader: control characters as \x1b and \u009b, direction marks and line separators as \u202e,
// characters that nobody sees as \u200b, bytes that are not UTF-8 as \xff.
std::string printable(std::string_view text);
// Returns whether printable() shows the text as it is, but for characters that nobody sees.
bool is_printable(std::string_view text);
// Returns printable() of the text, except that tabs and line ends are kept.
std::string printable_lines(std::string_view text);
// Returns printable() of the first 200 bytes, for messages; "…" replaces the rest.
std::string printable_beginning(std::string_view text);
// Returns a path quoted for a shell, on one line: runs/sort, 'my run', $'a\x0ab', ./-x
std::string shell_word(std::string_view path);

// Returns the text with the letters A to Z in lower case; other bytes remain.
std::string lower_ascii(std::string_view text);

}  // namespace tapestry
