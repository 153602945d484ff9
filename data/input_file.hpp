#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct gzFile_s;  // zlib's

namespace tapestry {

// InputError where the path leads to no file: nothing is there, or a folder, or a pipe or device,
// which may never end.
void require_file(const std::string& path);

// False where nothing is there. InputError where what is there is no file that may be read.
bool has_file(const std::string& path);

// Records that this process reads the file that `path` leads to, for was_read(). Readers of this
// header do so by themselves.
void record_read(const std::string& path);

// Whether this process has read the file that `path` leads to, by this name, another or a link.
bool was_read(const std::string& path);

// A file that is read in pieces. A gzip file (it starts with 1f 8b) is inflated, up to 32 MiB or
// 200 times its size, whichever is more: more is no data, but made to fill the memory.
class InputFile final {
 public:
  explicit InputFile(const std::string& path);  // InputError as of require_file, or unreadable
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // What it holds, in bytes: exactly, or of gzip at most.
  std::int64_t most_bytes() const;
  bool is_gzip() const { return is_gzip_; }

  // Fills `into` as far as the file goes on, and returns how many bytes it has. InputError: gzip
  // cut short, damaged, or above the limit.
  std::int64_t read(std::span<char> into);

 private:
  std::string path_;
  gzFile_s* file_ = nullptr;
  std::int64_t stored_bytes_ = 0, read_bytes_ = 0;
  bool is_gzip_ = false;
};

// A whole file, inflated where it is gzip; InputError also where it holds more than max_bytes. It
// takes the content's size in memory, of gzip twice that.
std::string read_file(const std::string& path, std::int64_t max_bytes);

// The standard input to its end; InputError where it holds more than max_bytes.
std::string read_standard_input(std::int64_t max_bytes);

struct CodePoint {
  char32_t value;
  int bytes;  // in UTF-8: 1 to 4, or 0 where the text is not well-formed
};

// The character that starts at byte `offset` < text.size(). Overlong forms, surrogates and values
// above U+10FFFF are not well-formed (RFC 3629).
CodePoint code_point_at(std::string_view text, std::size_t offset);

// Where the character starts that ends before byte `end` > 0 of a well-formed text.
std::size_t character_before(std::string_view text, std::size_t end);

// InputError names the path, byte offset and line of the first byte that is not UTF-8.
void require_utf8(std::string_view text, const std::string& path);

// A whole file of UTF-8, plain or gzip, without the byte order mark that it may begin with.
// InputError as of read_file and require_utf8, and where it holds more than 1 GiB.
std::string read_text(const std::string& path);

// The same of any size, given on in parts of whole characters, about 1 MiB each, and not kept.
void read_text_parts(const std::string& path,
                     const std::function<void(std::string_view part)>& take);

// Takes the first line off `text`, without what ends it, "\n" or "\r\n", which the last may lack.
// Nothing at the end: while (const auto line = next_line(rest)) …
std::optional<std::string_view> next_line(std::string_view& text);

std::string_view trimmed(std::string_view text);  // without white space around it
// "a, b" at ',' -> {"a", "b"}, trimmed.
std::vector<std::string_view> split(std::string_view text, char separator);

// The float32 nearest to a decimal number: "1", "-2.5e-3"; 0 where that is too small for a float32.
// Nothing where it is too large, not finite ("nan", "inf") or no number.
std::optional<float> parse_float(std::string_view text);

// The names in a folder, in order. InputError where it cannot be listed.
std::vector<std::string> file_names(const std::string& folder);
std::string list_briefly(const std::vector<std::string>& names);  // "a, b", or "nothing"

}  // namespace tapestry
