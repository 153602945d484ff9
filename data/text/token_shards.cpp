#include "data/text/token_shards.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "data/input_file.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr std::string_view magic = "\x89tokens\n";
constexpr std::uint32_t version = 1;
constexpr std::uint64_t narrow_vocabulary = 65536;
constexpr std::size_t checksum_place = 120;

std::string name_of_shard(std::uint32_t index) {
  return fmt::format("shard-{:05}{}", index, TokenShards::ending);
}

std::uint64_t checksum_of(std::string_view bytes) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)));
  return sum.value();
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t place) {
  Number number;
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

template <class Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string written(const ShardHeader& header) {
  std::string bytes(magic);
  for (const std::uint32_t number :
       {version, header.width, header.index, std::uint32_t{header.is_last}})
    append(bytes, number);
  for (const std::uint64_t number : {header.vocabulary, header.tokenizer, header.counts.tokens,
                                     header.counts.bytes, header.counts.documents, header.checksum})
    append(bytes, number);
  append(bytes, std::uint32_t{header.begins_documents});
  bytes.resize(checksum_place, '\0');
  append(bytes, checksum_of(bytes));
  return bytes;
}

ShardHeader parsed(std::string_view bytes, const std::string& path) {
  expect_input(bytes.starts_with(magic),
               "{}: byte 0: is not a shard of tokens; create the shards again", path);
  const auto found = number_at<std::uint32_t>(bytes, 8);
  expect_input(found == version,
               "{}: byte 8: the shard has version {}, expected {}; create the shards again", path,
               found, version);
  expect_input(number_at<std::uint64_t>(bytes, checksum_place) ==
                   checksum_of(bytes.substr(0, checksum_place)),
               "{}: bytes 0 to 127: the header is damaged; create the shards again", path);
  const ShardHeader header{.width = number_at<std::uint32_t>(bytes, 12),
                           .index = number_at<std::uint32_t>(bytes, 16),
                           .is_last = number_at<std::uint32_t>(bytes, 20) != 0,
                           .vocabulary = number_at<std::uint64_t>(bytes, 24),
                           .tokenizer = number_at<std::uint64_t>(bytes, 32),
                           .counts = {.tokens = number_at<std::uint64_t>(bytes, 40),
                                      .bytes = number_at<std::uint64_t>(bytes, 48),
                                      .documents = number_at<std::uint64_t>(bytes, 56)},
                           .checksum = number_at<std::uint64_t>(bytes, 64),
                           .begins_documents = number_at<std::uint32_t>(bytes, 72) != 0};
  expect_input(header.width == 2 || header.width == 4,
               "{}: byte 12: the tokens have {} bytes, expected 2 or 4; create the shards again",
               path, header.width);
  const std::uint64_t most =
      header.width == 2 ? narrow_vocabulary : std::numeric_limits<std::int32_t>::max();
  expect_input(
      header.vocabulary >= 1 && header.vocabulary <= most,
      "{}: byte 24: the vocabulary has {} tokens, expected 1 to {}; create the shards again", path,
      header.vocabulary, most);
  return header;
}

// A shard that is open for reading.
class ShardFile final {
 public:
  explicit ShardFile(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    expect_input(descriptor_ >= 0, "{}: cannot be opened: {}; check the path and its permissions",
                 path, std::strerror(errno));
  }
  ~ShardFile() { ::close(descriptor_); }
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  std::uint64_t size() const {
    struct stat status = {};
    expect_input(::fstat(descriptor_, &status) == 0, "{}: cannot be examined: {}; check the disk",
                 path_, std::strerror(errno));
    return static_cast<std::uint64_t>(status.st_size);
  }

  void read(std::int64_t offset, std::span<char> into) const {
    while (!into.empty()) {
      const ssize_t got = ::pread(descriptor_, into.data(), into.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      expect_input(got >= 0, "{}: byte {}: cannot be read: {}; check the disk", path_, offset,
                   std::strerror(errno));
      expect_input(got > 0, "{}: byte {}: the file ends too early; copy or create the shards again",
                   path_, offset);
      offset += got;
      into = into.subspan(got);
    }
  }

 private:
  const std::string& path_;
  int descriptor_;
};

void expect_size(const ShardFile& file, const ShardHeader& header, const std::string& path) {
  const std::uint64_t size = file.size(), body = size - ShardHeader::size;
  expect_input(body % header.width == 0 && body / header.width == header.counts.tokens,
               "{}: the file has {} bytes, expected {} tokens of {} bytes after the header; copy "
               "or create the shards again",
               path, size, header.counts.tokens, header.width);
}

void expect_content(const ShardFile& file, const ShardHeader& header, const std::string& path) {
  expect_size(file, header, path);
  Checksum sum;
  std::vector<char> piece(std::size_t{1} << 18);
  const auto end =
      static_cast<std::int64_t>(ShardHeader::size + header.counts.tokens * header.width);
  for (std::int64_t at = ShardHeader::size; at < end; at += std::ssize(piece)) {
    piece.resize(std::min<std::size_t>(piece.size(), end - at));
    file.read(at, piece);
    sum.add(std::as_bytes(std::span(piece)));
  }
  expect_input(sum.value() == header.checksum,
               "{}: the tokens are damaged; copy or create the shards again", path);
}

template <class Number>
void read_tokens(const ShardFile& file, std::int64_t begin, std::span<std::int32_t> into) {
  std::vector<Number> stored(into.size());
  file.read(static_cast<std::int64_t>(ShardHeader::size + begin * sizeof(Number)),
            {reinterpret_cast<char*>(stored.data()), stored.size() * sizeof(Number)});
  std::ranges::transform(stored, into.begin(),
                         [](Number token) { return static_cast<std::int32_t>(token); });
}

}  // namespace

ShardMaker::ShardMaker(const Tokenizer& tokenizer, std::string_view json,
                       const ShardOptions& options, Take take)
    : options_(options), take_(std::move(take)) {
  for (std::int32_t token = 0; token < tokenizer.size(); ++token)
    bytes_of_.push_back(static_cast<std::uint32_t>(tokenizer.bytes_of(token).size()));
  header_.vocabulary = bytes_of_.size();
  header_.width = header_.vocabulary <= narrow_vocabulary ? 2 : 4;
  header_.tokenizer = checksum_of(json);
  header_.begins_documents = options_.begins_documents;
  body_.reserve(options_.tokens * header_.width);
}

void ShardMaker::add(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    if (static_cast<std::int64_t>(header_.counts.tokens) == options_.tokens) give_shard();
    if (header_.width == 2)
      append(body_, static_cast<std::uint16_t>(token));
    else
      append(body_, token);
    ++header_.counts.tokens;
    header_.counts.bytes += bytes_of_.at(token);
    header_.counts.documents += token == options_.end_of_text;
  }
}

void ShardMaker::finish() {
  expect_input(header_.counts.tokens > 0, "the texts contain no documents; give other texts");
  header_.is_last = true;
  give_shard();
}

void ShardMaker::give_shard() {
  header_.checksum = checksum_of(body_);
  take_(name_of_shard(header_.index), {written(header_), body_});
  counts_ += header_.counts;
  header_.counts = {};
  ++header_.index;
  body_.clear();
}

TokenShards::TokenShards(const std::string& folder) : folder_(folder) {
  const std::string json = (fs::path(folder) / tokenizer_name).string();
  json_ = read_file(json, most_tokenizer_bytes);
  tokenizer_ = checksum_of(json_);
  for (const std::string& name : file_names(folder))
    if (name.ends_with(ending)) open((fs::path(folder) / name).string());
  expect_input(!shards_.empty(), "{}: has no shards of tokens; create them again", folder);
  expect_input(shards_.back().header.is_last,
               "{}: {} is missing, and possibly later shards; copy or create the shards again",
               folder, name_of_shard(shards_.back().header.index + 1));
}

void TokenShards::open(const std::string& path) {
  require_file(path);
  record_read(path);
  Shard& shard = shards_.emplace_back();
  shard.path = path;
  shard.begin = size();
  const ShardFile file(shard.path);
  expect_input(
      file.size() >= ShardHeader::size,
      "{}: the file has {} bytes, expected a header of {}; copy or create the shards again", path,
      file.size(), ShardHeader::size);
  file.read(0, shard.bytes);
  shard.header = parsed({shard.bytes.data(), shard.bytes.size()}, path);
  expect_belongs(shard);
  expect_size(file, shard.header, path);
  counts_ += shard.header.counts;
}

void TokenShards::expect_belongs(const Shard& shard) const {
  const ShardHeader& header = shard.header;
  const std::size_t index = shards_.size() - 1;
  const auto expected = static_cast<std::uint32_t>(index);
  expect_input(header.index == expected,
               "{}: is shard {}, but {} is missing; copy it too, or create the shards again",
               shard.path, header.index, name_of_shard(expected));
  expect_input(index == 0 || !shards_[index - 1].header.is_last,
               "{}: follows {}, which is the last shard; use one folder for each set of shards",
               shard.path, shards_[index > 0 ? index - 1 : 0].path);
  expect_input(
      header.tokenizer == tokenizer_,
      "{}: was created by another tokenizer than the {} in its folder; create the shards again",
      shard.path, tokenizer_name);
  expect_input(header.vocabulary == shards_.front().header.vocabulary &&
                   header.width == shards_.front().header.width,
               "{}: the vocabulary has {} tokens, that of {} has {}; create the shards again",
               shard.path, header.vocabulary, shards_.front().path,
               shards_.front().header.vocabulary);
  expect_input(header.begins_documents == begins_documents(),
               "{}: has {}begin-of-text tokens, unlike {}; create the shards again", shard.path,
               header.begins_documents ? "" : "no ", shards_.front().path);
  expect_input(header.counts.tokens > 0, "{}: has no tokens; create the shards again", shard.path);
}

const TokenShards::Shard& TokenShards::shard_of(std::int64_t token) const {
  return *(std::ranges::upper_bound(shards_, token, {}, &Shard::begin) - 1);
}

void TokenShards::read(std::int64_t begin, std::span<std::int32_t> into) const {
  require(0 <= begin && begin + std::ssize(into) <= size(),
          "TokenShards: [{}, {}) of {} tokens; expected a range within them", begin,
          begin + std::ssize(into), size());
  while (!into.empty()) {
    const Shard& shard = shard_of(begin);
    const std::int64_t left =
        shard.begin + static_cast<std::int64_t>(shard.header.counts.tokens) - begin;
    const std::int64_t count = std::min(left, std::ssize(into));
    read(shard, begin - shard.begin, into.first(count));
    begin += count;
    into = into.subspan(count);
  }
}

// Reads tokens of a shard. Opens the file each time, because there may be more shards than a
// process may have open files. Throws InputError if the file has changed.
void TokenShards::read(const Shard& shard, std::int64_t begin, std::span<std::int32_t> into) {
  const ShardFile file(shard.path);
  std::array<char, ShardHeader::size> bytes{};
  file.read(0, bytes);
  expect_input(bytes == shard.bytes,
               "{}: the file has changed since it was opened; run the command again", shard.path);
  std::call_once(shard.verified, [&] { expect_content(file, shard.header, shard.path); });
  if (shard.header.width == 2)
    read_tokens<std::uint16_t>(file, begin, into);
  else
    read_tokens<std::int32_t>(file, begin, into);
  const auto most = static_cast<std::int64_t>(shard.header.vocabulary);
  const auto wrong =
      std::ranges::find_if(into, [&](std::int32_t token) { return token < 0 || token >= most; });
  expect_input(wrong == into.end(), "{}: token {} is {}, expected 0 to {}; create the shards again",
               shard.path, begin + (wrong - into.begin()), wrong == into.end() ? 0 : *wrong,
               most - 1);
}

void TokenShards::verify() const {
  for (const Shard& shard : shards_) {
    std::int32_t first = 0;
    read(shard, 0, {&first, 1});
  }
}

void TokenShards::add_to(Checksum& sum, std::int64_t begin, std::int64_t end) const {
  std::vector<std::uint64_t> identity = {static_cast<std::uint64_t>(begin),
                                         static_cast<std::uint64_t>(end), tokenizer_};
  for (const Shard& shard : shards_) {
    identity.push_back(shard.header.counts.tokens);
    identity.push_back(shard.header.checksum);
  }
  sum.add(identity);
}

bool holds_shards(const std::string& folder) {
  if (!is_folder(folder)) return false;
  std::string shard, text;
  for (const std::string& name : file_names(folder)) {
    if (name.ends_with(TokenShards::ending)) shard = name;
    if (name.ends_with(".txt")) text = name;
  }
  expect_input(shard.empty() || text.empty(),
               "{}: contains shards of tokens and texts: {}, {}; use a separate folder for each",
               folder, shard, text);
  return !shard.empty();
}

}  // namespace tapestry
