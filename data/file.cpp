#include "data/file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t chunk_bytes = 1 << 20;

struct Close {
  void operator()(gzFile file) const { gzclose(file); }
};
using File = std::unique_ptr<gzFile_s, Close>;

File open(const std::string& path) {
  std::error_code ignored;
  expect_input(!std::filesystem::is_directory(path, ignored),
               "{}: is a folder; give the path of a file", path);
  errno = 0;
  File file(gzopen(path.c_str(), "rb"));
  expect_input(file != nullptr, "{}: cannot be opened: {}; check the path", path,
               std::strerror(errno));
  return file;
}

// zlib reports a cut or damaged stream here, whatever gzread returned.
void check_read(gzFile file, const std::string& path) {
  int code = Z_OK;
  const char* reason = gzerror(file, &code);
  if (code == Z_OK || code == Z_STREAM_END) return;
  const char* what = code == Z_BUF_ERROR    ? "the gzip data is cut short"
                     : code == Z_DATA_ERROR ? "the gzip data is damaged"
                                            : reason;
  throw InputError(fmt::format("{}: byte {}: {}; copy or download the file again", path,
                               static_cast<std::int64_t>(gzoffset(file)), what));
}

// The lead byte's free bits, and the least value that needs this many bytes.
struct Form {
  unsigned mask;
  char32_t least;
};
constexpr Form forms[] = {{0, 0}, {0x7F, 0}, {0x1F, 0x80}, {0x0F, 0x800}, {0x07, 0x10000}};

int bytes_by_lead(unsigned char lead) {
  const int ones = std::countl_one(lead);
  if (ones == 0) return 1;
  return ones >= 2 && ones <= 4 ? ones : 0;
}

}  // namespace

std::string read_start(const std::string& path, std::int64_t bytes) {
  const File file = open(path);
  std::string content;
  for (bool more = true; more;) {
    const std::size_t before = content.size();
    const auto wanted =
        static_cast<unsigned>(std::min(chunk_bytes, bytes - static_cast<std::int64_t>(before)));
    content.resize(before + wanted);
    const int got = gzread(file.get(), content.data() + before, wanted);
    check_read(file.get(), path);
    content.resize(before + std::max(got, 0));
    more = content.size() == before + wanted && std::ssize(content) < bytes;
  }
  return content;
}

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  std::string content = read_start(path, max_bytes + 1);
  expect_input(std::ssize(content) <= max_bytes,
               "{}: byte {}: the content goes on beyond the {} bytes that can be read; "
               "give a smaller file",
               path, max_bytes, max_bytes);
  return content;
}

CodePoint code_point_at(std::string_view text, std::size_t offset) {
  constexpr CodePoint malformed{0, 0};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const int bytes = bytes_by_lead(byte(0));
  if (bytes == 0 || offset + bytes > text.size()) return malformed;
  char32_t value = byte(0) & forms[bytes].mask;
  for (int i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return malformed;
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < forms[bytes].least || surrogate || value > 0x10FFFF) return malformed;
  return {value, bytes};
}

void require_utf8(std::string_view text, const std::string& path) {
  for (std::size_t offset = 0; offset < text.size();) {
    const int bytes = code_point_at(text, offset).bytes;
    if (bytes == 0) {
      const auto line = 1 + std::ranges::count(text.substr(0, offset), '\n');
      throw InputError(
          fmt::format("{}: byte {} (line {}): 0x{:02x} is not UTF-8; convert the file "
                      "to UTF-8, for example with iconv",
                      path, offset, line, static_cast<unsigned char>(text[offset])));
    }
    offset += bytes;
  }
}

std::string read_text(const std::string& path) {
  constexpr std::int64_t max_bytes = std::int64_t{1} << 30;
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  std::string text = read_file(path, max_bytes);
  require_utf8(text, path);
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

std::vector<std::string_view> cut_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::vector<std::string> file_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  expect_input(!error, "{}: cannot be listed: {}; check the path", folder, error.message());
  std::ranges::sort(names);
  return names;
}

std::string list_briefly(const std::vector<std::string>& names) {
  if (names.empty()) return "nothing";
  const std::size_t shown = std::min<std::size_t>(names.size(), 12);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     shown < names.size() ? ", ..." : "");
}

}  // namespace tapestry
