#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.hpp"

// Tokens in files: shard-00000.tokens, shard-00001.tokens, …, in a folder with the tokenizer.json
// that encoded them. A shard is a header of 128 bytes and its tokens; all numbers are
// little-endian:
//
//     byte 0  "\x89tokens\n"      24  tokens in the vocabulary       72  1: documents begin with
//          8  version, 1          32  XXH3 of tokenizer.json             the template's tokens
//         12  bytes per token     40  tokens in this shard           76  zeros
//         16  index, from 0       48  bytes of text                 120  XXH3 of bytes 0 to 119
//         20  1: the last one,    56  documents that end in it      128  tokens of 2 bytes, for
//             else 0              64  XXH3 of its tokens' bytes          vocabularies of 65536 and
//                                                                        less, or of 4
//
// Numbers have 4 bytes before byte 24 and at byte 72, and 8 bytes elsewhere.
namespace tapestry {

struct TokenCounts {
  std::uint64_t tokens = 0, bytes = 0, documents = 0;
  TokenCounts& operator+=(const TokenCounts& other) {
    tokens += other.tokens;
    bytes += other.bytes;
    documents += other.documents;
    return *this;
  }
};

// The header of a shard; see above for its fields.
struct ShardHeader {
  static constexpr std::size_t size = 128;
  std::uint32_t width = 2;
  std::uint32_t index = 0;
  bool is_last = false;
  std::uint64_t vocabulary = 0, tokenizer = 0;
  TokenCounts counts{};
  std::uint64_t checksum = 0;
  bool begins_documents = false;
};

struct ShardOptions {
  std::int32_t end_of_text = 0;   // the token that ends a document
  bool begins_documents = false;  // documents begin with the tokenizer's before_text()
  std::int64_t tokens = std::int64_t{1} << 24;  // maximum per shard
};

// A writer that divides tokens into shards, and holds one of them in memory.
class ShardMaker final {
 public:
  // A function that receives the name of a shard and its bytes, in parts that are to be
  // concatenated.
  using Take =
      std::function<void(const std::string& name, const std::vector<std::string_view>& parts)>;

  // `json` is the tokenizer.json that is stored with the shards.
  ShardMaker(const Tokenizer& tokenizer, std::string_view json, const ShardOptions& options,
             Take take);

  void add(std::span<const std::int32_t> tokens);
  void finish();  // passes on the last shard; throws InputError if no token was added

  const TokenCounts& counts() const { return counts_; }  // sums over all shards
  std::int64_t shards() const { return header_.index; }
  std::uint32_t width() const { return header_.width; }

 private:
  void give_shard();

  ShardOptions options_;
  Take take_;
  std::vector<std::uint32_t> bytes_of_;  // number of bytes of each token
  ShardHeader header_;                   // header of the current shard
  std::string body_;
  TokenCounts counts_;
};

// A stream of the tokens in a folder of shards. Files are read, not mapped: a window takes some
// microseconds either way, and a file that is truncated during the training is an error instead of
// SIGBUS. Each shard is compared with its checksum before its first token is returned.
class TokenShards final : public TokenStream {
 public:
  static constexpr const char* ending = ".tokens";
  static constexpr const char* tokenizer_name = "tokenizer.json";
  static constexpr std::int64_t most_tokenizer_bytes = std::int64_t{1} << 26;

  // Throws InputError without a tokenizer.json or shards, and for a shard that is missing, cut
  // short, of another tokenizer or version, or whose header is damaged.
  explicit TokenShards(const std::string& folder);

  std::int64_t size() const override { return static_cast<std::int64_t>(counts_.tokens); }
  // Throws InputError if a shard has changed since it was opened or written.
  void read(std::int64_t begin, std::span<std::int32_t> into) const override;
  // Adds the checksums that are stored in the shards.
  void add_to(Checksum& sum, std::int64_t begin, std::int64_t end) const override;

  void verify() const;  // throws InputError for a shard whose tokens have changed

  const std::string& folder() const { return folder_; }
  const std::string& tokenizer_json() const { return json_; }
  const TokenCounts& counts() const { return counts_; }
  std::int64_t shards() const { return std::ssize(shards_); }
  // Returns whether documents begin with the tokenizer's before_text().
  bool begins_documents() const { return shards_.front().header.begins_documents; }
  std::int64_t stored_bytes() const { return size() * shards_.front().header.width; }
  std::int64_t vocabulary() const {
    return static_cast<std::int64_t>(shards_.front().header.vocabulary);
  }

 private:
  struct Shard {
    std::string path;
    std::array<char, ShardHeader::size> bytes{};  // bytes of the header
    ShardHeader header{};
    std::int64_t begin = 0;  // index of its first token in the stream
    mutable std::once_flag verified{};
  };
  void open(const std::string& path);
  void expect_belongs(const Shard& shard) const;
  const Shard& shard_of(std::int64_t token) const;
  static void read(const Shard& shard, std::int64_t begin, std::span<std::int32_t> into);

  std::string folder_, json_;
  std::uint64_t tokenizer_ = 0;  // XXH3 of json_
  std::deque<Shard> shards_;
  TokenCounts counts_;
};

// Returns whether the path is a folder with shards. Throws InputError if the folder also has texts.
bool holds_shards(const std::string& folder);

}  // namespace tapestry
