#include "data/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "autograd/check.hpp"
#include "data/memory_folder.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t bytes_per_read = 1 << 20, least_piece_bytes = 1 << 12;
constexpr std::size_t max_character_bytes = 4;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::int64_t inflated_bytes = 32 << 20, inflated_ratio = 200;

// The payload bits of a lead byte, and the least value that needs this many bytes.
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

bool is_in_memory(const std::string& path) { return memory_folder() && memory_folder()->has(path); }

bool is_memory_folder(const std::string& path) {
  return memory_folder() && memory_folder()->is_folder(path);
}

// The beginning of a part of a file: its byte and its line, both from 0.
struct Position {
  std::int64_t byte = 0, line = 0;
  Position after(std::string_view part) const {
    return {byte + std::ssize(part), line + std::ranges::count(part, '\n')};
  }
};

[[noreturn]] void throw_not_utf8(const std::string& path, const Position& begin,
                                 std::string_view part, std::size_t offset) {
  struct Content {
    std::string_view beginning;
    const char* what;
  };
  constexpr Content others[] = {
      {"PK\x03\x04", "a ZIP archive, as .zip, .xlsx and .docx are; unpack it, or save it as text"},
      {"\xFF\xFE", "UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"},
      {"\xFE\xFF", "UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"},
      {"\x1F\x8B", "compressed with gzip twice; decompress it"},
      {"PAR1", "Parquet; export it as CSV or JSONL"}};
  for (const Content& other : others)
    expect_input(begin.byte > 0 || !part.starts_with(other.beginning), "{}: the content is {}",
                 path, other.what);
  const Position found = begin.after(part.substr(0, offset));
  throw InputError(
      fmt::format("{}: byte {} (line {}): 0x{:02x} is not UTF-8; convert the text to UTF-8, for "
                  "example with iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW",
                  path, found.byte, found.line + 1, static_cast<unsigned char>(part[offset])));
}

}  // namespace

bool is_folder(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::is_directory(path, unseen) || is_memory_folder(path);
}

bool is_there(const std::string& path) {
  std::error_code unseen;
  return is_in_memory(path) || is_memory_folder(path) || std::filesystem::exists(path, unseen);
}

void require_file(const std::string& path) {
  if (is_in_memory(path)) {
    expect_input(in_memory<std::string_view>(path) != nullptr,
                 "{}: are arrays, which this kind of data has no reader for; give the content of a "
                 "file",
                 path);
    return;
  }
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  expect_input(!is_directory(found), "{}: is a folder; give the path of a file", path);
  expect_input(!error && exists(found),
               "{}: cannot be opened: {}; check the path and its permissions", path,
               std::strerror(error ? error.value() : ENOENT));
  expect_input(is_regular_file(found), "{}: is a pipe or a device; give the path of a file", path);
}

bool has_file(const std::string& path) {
  if (is_in_memory(path)) return true;
  struct stat link = {};
  if (::lstat(path.c_str(), &link) != 0 && (errno == ENOENT || errno == ENOTDIR)) return false;
  require_file(path);
  expect_input(::access(path.c_str(), R_OK) == 0,
               "{}: cannot be opened: {}; give this user permission to read the file", path,
               std::strerror(errno));
  return true;
}

namespace {

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

struct FilesRead {
  std::mutex mutex;
  std::set<FileId> ids;
};

FilesRead& files_read() {
  static FilesRead files;
  return files;
}

}  // namespace

void record_read(const std::string& path) {
  const std::lock_guard lock(files_read().mutex);
  if (const auto id = id_of(path)) files_read().ids.insert(*id);
}

bool was_read(const std::string& path) {
  const std::lock_guard lock(files_read().mutex);
  const auto id = id_of(path);
  return id && files_read().ids.contains(*id);
}

InputFile::InputFile(const std::string& path) : path_(path) {
  require_file(path);
  if (const std::string_view* content = in_memory<std::string_view>(path)) {
    expect_input(!content->starts_with("\x1f\x8b"),
                 "{}: is gzip, which is not inflated in memory; give the inflated content", path);
    rest_ = *content;
    stored_bytes_ = std::ssize(*content);
    return;
  }
  record_read(path);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  expect_input(descriptor >= 0, "{}: cannot be opened: {}; check the path and its permissions",
               path, std::strerror(errno));
  struct stat status = {};
  ::fstat(descriptor, &status);
  stored_bytes_ = status.st_size;
  file_ = gzdopen(descriptor, "rb");
  if (file_ == nullptr) {
    ::close(descriptor);
    throw std::bad_alloc();
  }
  is_gzip_ = gzdirect(file_) == 0;
}

InputFile::~InputFile() {
  if (file_) gzclose(file_);
}

std::int64_t InputFile::most_bytes() const {
  return is_gzip_ ? std::max(inflated_bytes, inflated_ratio * stored_bytes_) : stored_bytes_;
}

std::int64_t InputFile::read(std::span<char> into) {
  if (rest_) {
    const std::size_t bytes = rest_->copy(into.data(), into.size());
    rest_->remove_prefix(bytes);
    return static_cast<std::int64_t>(bytes);
  }
  const int got = gzread(file_, into.data(), static_cast<unsigned>(into.size()));
  int code = Z_OK;  // zlib reports a cut or damaged stream here, whatever gzread returned
  const char* reason = gzerror(file_, &code);
  if (code != Z_OK && code != Z_STREAM_END) {
    const char* what = code == Z_BUF_ERROR    ? "the gzip data is cut short"
                       : code == Z_DATA_ERROR ? "the gzip data is damaged"
                       : code == Z_ERRNO      ? std::strerror(errno)
                                              : reason;
    throw InputError(fmt::format("{}: byte {}: {}; copy or download the file again", path_,
                                 static_cast<std::int64_t>(gzoffset(file_)), what));
  }
  read_bytes_ += got;
  expect_input(!is_gzip_ || read_bytes_ <= most_bytes(),
               "{}: {} bytes of gzip hold more than {} bytes; decompress the file first", path_,
               stored_bytes_, most_bytes());
  return got;
}

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  InputFile file(path);
  const auto check = [&](std::int64_t bytes) {
    expect_input(bytes <= max_bytes,
                 "{}: byte {}: the content has more than the {} bytes that can be read; "
                 "give a smaller file",
                 path, max_bytes, max_bytes);
  };
  std::string content;
  if (!file.is_gzip()) {
    check(file.most_bytes());
    content.reserve(file.most_bytes() + least_piece_bytes);
  }
  for (bool more = true; more;) {
    const std::int64_t before = std::ssize(content);
    const std::int64_t left = file.is_gzip() ? before : file.most_bytes() - before;
    const std::int64_t wanted = std::clamp(left, least_piece_bytes, bytes_per_read);
    content.resize(before + wanted);
    const std::int64_t got = file.read({content.data() + before, content.data() + before + wanted});
    content.resize(before + got);
    check(std::ssize(content));
    more = got == wanted;
  }
  return content;
}

std::string inflated(std::string_view gzip, std::size_t bytes) {
  constexpr int with_header = 16 + MAX_WBITS;
  std::string content(bytes, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(bytes);
  const bool begun = inflateInit2(&stream, with_header) == Z_OK;
  const bool ended = begun && inflate(&stream, Z_FINISH) == Z_STREAM_END;
  if (begun) inflateEnd(&stream);
  require(ended && stream.avail_out == 0,
          "inflated: {} bytes are damaged, or not {} bytes inflated", gzip.size(), bytes);
  return content;
}

std::string read_standard_input(std::int64_t max_bytes) {
  std::string content;
  for (ssize_t got = 1; got > 0;) {
    const std::size_t before = content.size();
    content.resize(before + least_piece_bytes);
    do got = ::read(STDIN_FILENO, content.data() + before, least_piece_bytes);
    while (got < 0 && errno == EINTR);
    expect_input(got >= 0, "the standard input cannot be read: {}; give a file instead",
                 std::strerror(errno));
    content.resize(before + got);
    expect_input(std::ssize(content) <= max_bytes,
                 "the standard input has more than {} bytes; give less text", max_bytes);
  }
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

std::size_t whole_characters(std::string_view text, std::size_t bytes) {
  while (bytes > 0 && bytes < text.size() && (text[bytes] & 0xC0) == 0x80) --bytes;
  return bytes;
}

std::size_t character_before(std::string_view text, std::size_t end) {
  return whole_characters(text, end - 1);
}

std::size_t utf8_bytes(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    std::uint64_t eight = 0;  // which are ASCII if none has its highest bit
    if (offset + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + offset, sizeof(eight));
      if ((eight & 0x8080808080808080) == 0) {
        offset += sizeof(eight);
        continue;
      }
    }
    const int bytes = code_point_at(text, offset).bytes;
    if (bytes == 0) break;
    offset += bytes;
  }
  return offset;
}

void require_utf8(std::string_view text, const std::string& path) {
  if (const std::size_t bytes = utf8_bytes(text); bytes < text.size())
    throw_not_utf8(path, {}, text, bytes);
}

void read_text_parts(const std::string& path,
                     const std::function<void(std::string_view part)>& take) {
  InputFile file(path);
  Position position;
  std::string part;
  for (bool more = true; more;) {
    const std::size_t before = part.size();
    part.resize(before + bytes_per_read);
    const std::int64_t got = file.read(std::span(part).subspan(before));
    part.resize(before + got);
    more = got == bytes_per_read;
    const std::size_t bytes = utf8_bytes(part);
    const bool cut = more && part.size() - bytes < max_character_bytes;
    if (bytes < part.size() && !cut) throw_not_utf8(path, position, part, bytes);
    const std::string_view whole = std::string_view(part).substr(0, bytes);
    const bool marked = position.byte == 0 && whole.starts_with(byte_order_mark);
    take(whole.substr(marked ? byte_order_mark.size() : 0));
    position = position.after(whole);
    part.erase(0, bytes);
  }
}

namespace {

// Returns the UTF-8 of a text in UTF-16 that begins with its byte order mark.
std::string from_utf16(std::string_view text, const std::string& path) {
  const bool is_little = text.front() == '\xFF';
  const auto unit_at = [&](std::size_t at) -> char32_t {
    const auto first = static_cast<unsigned char>(text[at]),
               second = static_cast<unsigned char>(text[at + 1]);
    return is_little ? first | second << 8 : second | first << 8;
  };
  const auto expect = [&](bool holds, std::size_t at) {
    expect_input(holds, "{}: byte {}: not UTF-16, as the beginning says; convert the text to UTF-8",
                 path, at);
  };
  expect(text.size() % 2 == 0, text.size());
  std::string utf8;
  for (std::size_t at = 2; at < text.size(); at += 2) {
    char32_t point = unit_at(at);
    if (point >= 0xD800 && point < 0xE000) {  // one of a pair
      expect(point < 0xDC00 && at + 3 < text.size(), at);
      const char32_t low = unit_at(at += 2);
      expect(low >= 0xDC00 && low < 0xE000, at);
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(utf8, point);
  }
  return utf8;
}

}  // namespace

std::string read_text(const std::string& path) {
  constexpr std::int64_t max_bytes = std::int64_t{1} << 30;
  std::string text = read_file(path, max_bytes);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) text = from_utf16(text, path);
  require_utf8(text, path);
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

std::optional<std::string_view> next_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void FileLine::fail(const std::string& message) const {
  throw InputError(fmt::format("{}: line {}: {}", path, number, message));
}

void for_each_line(const std::string& path, const std::function<void(const FileLine& line)>& take) {
  const std::string content = read_text(path);
  std::string_view rest = content;
  for (std::int64_t number = 1; const auto text = next_line(rest); ++number)
    take({path, number, *text});
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

std::optional<float> parse_float(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  // the error does not say whether the number is too large or too small
  if (error == std::errc::result_out_of_range)
    value = std::strtof(std::string(text).c_str(), nullptr);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::vector<std::string> file_names(const std::string& folder) {
  if (is_memory_folder(folder)) return memory_folder()->names();
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  expect_input(!error, "{}: cannot be listed: {}; check the path and its permissions", folder,
               error.message());
  std::ranges::sort(names);
  return names;
}

std::string list_briefly(const std::vector<std::string>& names) {
  if (names.empty()) return "nothing";
  const std::size_t shown = std::min<std::size_t>(names.size(), 5);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     shown < names.size() ? ", ..." : "");
}

}  // namespace tapestry
