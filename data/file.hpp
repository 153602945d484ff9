#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// The first `bytes` bytes of a file, or all of it where it is shorter. A gzip file (it starts with
// 1f 8b) is inflated. InputError: no such file, a folder, unreadable, gzip cut short or damaged.
std::string read_start(const std::string& path, std::int64_t bytes);

// A whole file, inflated where it is gzip; InputError also where it holds more than max_bytes.
std::string read_file(const std::string& path, std::int64_t max_bytes);

struct CodePoint {
  char32_t value;
  int bytes;  // in UTF-8: 1 to 4, or 0 where the text is not well-formed
};

// The character that starts at byte `offset` < text.size(). Overlong forms, surrogates and values
// above U+10FFFF are not well-formed (RFC 3629).
CodePoint code_point_at(std::string_view text, std::size_t offset);

// InputError names the path, byte offset and line of the first byte that is not UTF-8.
void require_utf8(std::string_view text, const std::string& path);

// A whole file of UTF-8, plain or gzip, without the byte order mark that it may begin with.
// InputError as of read_file and require_utf8, and where it holds more than 1 GiB.
std::string read_text(const std::string& path);

// A text's lines, without what ends them, "\n" or "\r\n". The last may lack it.
std::vector<std::string_view> cut_lines(std::string_view text);

std::string_view trimmed(std::string_view text);  // without white space around it
// "a, b" at ',' -> {"a", "b"}, trimmed.
std::vector<std::string_view> split(std::string_view text, char separator);

// The names in a folder, in order. InputError where it cannot be listed.
std::vector<std::string> file_names(const std::string& folder);
std::string list_briefly(const std::vector<std::string>& names);  // "a, b", or "nothing"

}  // namespace tapestry
