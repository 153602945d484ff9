#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

struct gzFile_s;  // declared by zlib

namespace tapestry {

// Return whether the path names a folder, or anything at all; false if that cannot be seen.
bool is_folder(const std::string& path);
bool is_there(const std::string& path);

// Throws InputError unless the path names a regular file: pipes and devices may never end.
void require_file(const std::string& path);

// Returns whether the path names a file. Throws InputError if it names anything else, or a file
// that cannot be opened.
bool has_file(const std::string& path);

// Records for was_read() that this process reads the file. The readers of this header call it.
void record_read(const std::string& path);

// Returns whether this process has read the file, under this name, another one or a link.
bool was_read(const std::string& path);

// A file that is read in pieces. A gzip file (it begins with 1f 8b) is inflated, up to 32 MiB or
// 200 times its size, whichever is more: a file that inflates further may be meant to exhaust the
// memory.
class InputFile final {
 public:
  explicit InputFile(const std::string& path);  // throws as require_file(), or if it cannot be read
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Returns the size of the content in bytes, or for gzip an upper bound.
  std::int64_t most_bytes() const;
  bool is_gzip() const { return is_gzip_; }

  // Reads up to the size of `into`, and returns the number of bytes read, fewer only at the end.
  // Throws InputError if reading fails, or gzip data are cut short, damaged or above the limit.
  std::int64_t read(std::span<char> into);

 private:
  std::string path_;
  std::optional<std::string_view> rest_{};  // of a file in memory (memory_folder.hpp)
  gzFile_s* file_ = nullptr;
  std::int64_t stored_bytes_ = 0, read_bytes_ = 0;
  bool is_gzip_ = false;
};

// Returns the content of a file, inflated if it is gzip. Throws InputError as InputFile does, and
// for a content of more than max_bytes. Takes the size of the content in memory, for gzip twice
// that.
std::string read_file(const std::string& path, std::int64_t max_bytes);

// Returns the content, of this many bytes, of a gzip file in memory. Throws std::invalid_argument
// if it is damaged, or of another size.
std::string inflated(std::string_view gzip, std::size_t bytes);

// Returns the standard input up to its end. Throws InputError if reading fails, and for more than
// max_bytes.
std::string read_standard_input(std::int64_t max_bytes);

struct CodePoint {
  char32_t value;
  int bytes;  // in UTF-8: 1 to 4, or 0 if the text is not well-formed
};

// Returns the character that starts at byte `offset` < text.size(). Overlong forms, surrogates and
// values above U+10FFFF are not well-formed (RFC 3629).
CodePoint code_point_at(std::string_view text, std::size_t offset);

// Returns where the character starts that ends before byte `end` > 0 of a well-formed text.
std::size_t character_before(std::string_view text, std::size_t end);

// Returns `bytes`, or fewer, so that a character does not continue after so many bytes of a text.
std::size_t whole_characters(std::string_view text, std::size_t bytes);

// Returns how many bytes at the beginning of a text are well-formed UTF-8.
std::size_t utf8_bytes(std::string_view text);

// Throws InputError with the path, byte offset and line of the first byte that is not UTF-8.
void require_utf8(std::string_view text, const std::string& path);

// Returns the text of a file in UTF-8, or in UTF-16 with a byte order mark, plain or gzip, as UTF-8
// without a byte order mark.
// Throws InputError as read_file() and require_utf8() do, and above 1 GiB.
std::string read_text(const std::string& path);

// Reads a text of any size, and calls `take` with its parts: whole characters, about 1 MiB each,
// without a byte order mark at the beginning; a part may be empty. Throws InputError as InputFile
// and require_utf8() do.
void read_text_parts(const std::string& path,
                     const std::function<void(std::string_view part)>& take);

// Removes the first line from `text`, and returns it without its end, "\n" or "\r\n", which the
// last line may lack. Returns nothing at the end: while (const auto line = next_line(rest)) …
std::optional<std::string_view> next_line(std::string_view& text);

// A line of a text file, with its position for messages.
struct FileLine {
  const std::string& path;
  std::int64_t number = 1;  // number of the line, from 1
  std::string_view text{};  // without its end

  // Throws InputError "PATH: line N: MESSAGE".
  [[noreturn]] void fail(const std::string& message) const;
  template <class... Args>
  void expect(bool holds, fmt::format_string<Args...> message, Args&&... args) const {
    if (!holds) [[unlikely]]
      fail(fmt::format(message, std::forward<Args>(args)...));
  }
};

// Reads a file and calls `take` with each of its lines. Throws InputError as read_text() does.
void for_each_line(const std::string& path, const std::function<void(const FileLine& line)>& take);

std::string_view trimmed(std::string_view text);  // returns the text without white space around it
// Returns the parts between separators, trimmed: "a, b" at ',' -> {"a", "b"}.
std::vector<std::string_view> split(std::string_view text, char separator);

// Returns the decimal number that the whole text represents; nothing if it is not a number or T
// cannot hold it. For a floating-point T, "nan" and "inf" are numbers.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the float32 nearest to a decimal number, such as "1" or "-2.5e-3"; 0 if it is too small
// for a float32. Returns nothing if it is too large, not finite ("nan", "inf") or not a number.
std::optional<float> parse_float(std::string_view text);

// Returns the sorted names in a folder. Throws InputError if the folder cannot be listed.
std::vector<std::string> file_names(const std::string& folder);
// Returns "nothing", or the first 5 names: "a, b", with ", ..." if there are more.
std::string list_briefly(const std::vector<std::string>& names);

}  // namespace tapestry
