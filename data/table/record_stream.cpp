#include "data/table/record_stream.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

constexpr std::size_t piece_bytes = 1 << 20, most_record_bytes = 16 << 20;
constexpr std::size_t most_character_bytes = 4;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

std::int64_t read_standard_input_piece(std::span<char> into) {
  std::size_t got = 0;
  while (got < into.size()) {
    const ssize_t more = ::read(STDIN_FILENO, into.data() + got, into.size() - got);
    if (more < 0 && errno == EINTR) continue;
    expect_input(more >= 0, "the standard input cannot be read: {}; give a file instead",
                 std::strerror(errno));
    if (more == 0) break;
    got += more;
  }
  return static_cast<std::int64_t>(got);
}

}  // namespace

struct RecordStream::Source {
  std::optional<InputFile> file{};  // none: the standard input
  std::int64_t read(std::span<char> into) {
    return file ? file->read(into) : read_standard_input_piece(into);
  }
};

RecordStream::RecordStream(std::string path, char delimiter)
    : name_(path == "-" ? "the standard input" : std::move(path)),
      delimiter_(delimiter),
      source_(std::make_unique<Source>()) {
  if (name_ != "the standard input") source_->file.emplace(name_);
  read_more();
  if (buffer_.starts_with(byte_order_mark)) begin_ = byte_order_mark.size();
}

RecordStream::~RecordStream() = default;

// Drops what was read, and appends a piece. Returns whether there is one.
bool RecordStream::read_more() {
  if (has_ended_) return false;
  buffer_.erase(0, begin_);
  checked_ -= begin_;
  begin_ = 0;
  expect_input(buffer_.size() < most_record_bytes,
               "{}: line {}: a row has more than {} bytes; is a quote not closed?", name_, line_,
               most_record_bytes);
  const std::size_t before = buffer_.size();
  buffer_.resize(before + piece_bytes);
  const std::int64_t got = source_->read(std::span(buffer_).subspan(before));
  buffer_.resize(before + got);
  has_ended_ = got < static_cast<std::int64_t>(piece_bytes);
  expect_input(!buffer_.starts_with("\xFF\xFE") && !buffer_.starts_with("\xFE\xFF"),
               "{}: is UTF-16; expected UTF-8; iconv -f UTF-16 -t UTF-8 FILE > NEW converts it",
               name_);
  const std::string_view unchecked = std::string_view(buffer_).substr(checked_);
  const std::size_t good = utf8_bytes(unchecked);
  const bool is_cut = !has_ended_ && unchecked.size() - good < most_character_bytes;
  if (good < unchecked.size() && !is_cut)
    FileLine{name_, line_ - 1 + line_number(buffer_, checked_ + good)}.fail(
        fmt::format("0x{:02x} is not UTF-8; convert the text to UTF-8, for example with iconv -f "
                    "WINDOWS-1252 -t UTF-8 FILE > NEW",
                    static_cast<unsigned char>(unchecked[good])));
  checked_ += good;
  return true;
}

bool RecordStream::next_line_of_text(StreamedRecord& record) {
  std::size_t end = buffer_.find('\n', begin_);
  while (end == buffer_.npos && read_more()) end = buffer_.find('\n', begin_);
  if (begin_ == buffer_.size()) return false;
  std::string_view line =
      std::string_view(buffer_).substr(begin_, std::min(end, buffer_.size()) - begin_);
  begin_ += std::min(line.size() + 1, buffer_.size() - begin_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  record = {.line = line_++, .raw = std::string(line), .cells = {std::string(trimmed(line))}};
  return true;
}

bool RecordStream::next(StreamedRecord& record) {
  if (delimiter_ == no_delimiter) return next_line_of_text(record);
  while (true) {
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    Scanner scanner(name_, rest, delimiter_, line_);
    const bool is_there = scanner.find_record();
    std::size_t first = scanner.at, cell = first;
    record.cells.clear();
    try {
      if (is_there)
        scanner.read_record([&](std::size_t end) {
          const std::string_view raw = rest.substr(cell, end - cell);
          const std::string_view bare = bare_cell(raw, delimiter_);
          const bool is_quoted = bare.data() > raw.data() && bare.data()[-1] == '"';
          record.cells.push_back(is_quoted ? without_doubled_quotes(bare) : std::string(bare));
          cell = end + 1;
        });
    } catch (const InputError&) {  // perhaps the quotes go on in the next piece
      if (!read_more()) throw;
      continue;
    }
    if (scanner.at == rest.size() && read_more()) continue;
    if (!is_there) return false;
    record.line = line_ - 1 + line_number(rest, first);
    record.raw = rest.substr(first, cell - 1 - first);
    line_ = line_ - 1 + line_number(rest, scanner.at);
    begin_ += scanner.at;
    return true;
  }
}

}  // namespace tapestry
