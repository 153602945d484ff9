#include "data/text/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "data/input_file.hpp"

namespace tapestry {
namespace {

// Returns whether no terminal shows the code point as a character: controls, line separators, and
// characters that change the direction of the text.
bool is_hidden(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x061C ||
         (point >= 0x200E && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

// Returns whether the code point is not seen after the character `before`, so that texts with and
// without it look the same. Joiners and variants change the look of emoji and of scripts from
// Hebrew on.
bool is_invisible(char32_t point, char32_t before) {
  constexpr char32_t first_with_joiners = 0x0590;
  const bool is_joiner =
      point == 0x034F || point == 0x200C || point == 0x200D || (point >= 0xFE00 && point <= 0xFE0F);
  return point == 0x00AD || point == 0x115F || point == 0x1160 || point == 0x180E ||
         point == 0x200B || (point >= 0x2060 && point <= 0x2064) || point == 0x3164 ||
         point == 0xFEFF || point == 0xFFA0 || (point >= 0xFFF9 && point <= 0xFFFB) ||
         (is_joiner && before < first_with_joiners);
}

bool ends_line(std::string_view rest) { return rest.starts_with('\n') || rest.starts_with("\r\n"); }

std::string without_hidden(std::string_view text, bool keeps_lines) {
  std::string result;
  char32_t before = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const std::string_view rest = text.substr(offset);
    const auto [point, bytes] = code_point_at(text, offset);
    const bool kept = keeps_lines && (rest.front() == '\t' || ends_line(rest));
    if (bytes == 0 || (point < 0x20 && !kept))
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest.front()));
    else if ((is_hidden(point) && !kept) || is_invisible(point, before))
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(point));
    else
      result += rest.substr(0, bytes);
    before = point;
    offset += std::max(bytes, 1);
  }
  return result;
}

}  // namespace

bool is_printable(std::string_view text) {
  for (std::size_t offset = 0; offset < text.size();) {
    const auto [point, bytes] = code_point_at(text, offset);
    if (bytes == 0 || is_hidden(point)) return false;
    offset += bytes;
  }
  return true;
}

std::string printable(std::string_view text) { return without_hidden(text, false); }

std::string printable_lines(std::string_view text) { return without_hidden(text, true); }

std::string printable_beginning(std::string_view text) {
  constexpr std::size_t most = 200;
  if (text.size() <= most) return printable(text);
  std::size_t end = most;
  while (end > most - 4 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return printable(text.substr(0, end)) + "…";
}

std::string shell_word(std::string_view path) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:=@%";
  const std::string start = path.starts_with('-') ? "./" : "";
  if (!path.empty() && path.find_first_not_of(plain) == path.npos) return start + std::string(path);
  const bool is_shown = printable(path) == path;
  std::string word = is_shown ? "'" : "$'";
  for (const char c : path)
    if (is_shown)
      word += c == '\'' ? "'\\''" : std::string(1, c);
    else if (plain.find(c) != plain.npos || c == ' ')
      word += c;
    else
      word += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return start + word + "'";
}

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& character : lower)
    if (character >= 'A' && character <= 'Z') character += 'a' - 'A';
  return lower;
}

}  // namespace tapestry
