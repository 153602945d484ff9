#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/check.hpp"
#include "autograd/checksum.hpp"

namespace tapestry {

class BytePairTokenizer;
class CharVocabulary;

// A converter between text and tokens, which are numbers in [0, size()).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;
  // Returns the tokens. Throws InputError if the text is not UTF-8, or if no token represents a
  // part of it.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // Returns the text of tokens. Throws std::invalid_argument for a token outside [0, size()).
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  // Returns the bytes of a token, which may be a part of a character; none of a special token.
  virtual std::string_view bytes_of(std::int32_t token) const = 0;
  // Returns the tokens that precede each text that a model reads: <|begin_of_text|> of Llama 3.
  virtual std::span<const std::int32_t> before_text() const { return {}; }

  // Return this tokenizer as one of byte pairs or of characters, or null if it is of another kind.
  virtual const BytePairTokenizer* byte_pairs() const { return nullptr; }
  virtual const CharVocabulary* characters() const { return nullptr; }
};

// The first tokens of every vocabulary of sentence pairs.
inline constexpr std::int32_t pad_token = 0;      // pads a row to the longest of its batch
inline constexpr std::int32_t bos_token = 1;      // precedes a target
inline constexpr std::int32_t eos_token = 2;      // ends a target
inline constexpr std::int32_t unknown_token = 3;  // token of a symbol that is not in the vocabulary

inline constexpr std::array<std::string_view, 4> special_tokens = {"<pad>", "<bos>", "<eos>",
                                                                   "<unk>"};

// A long text as tokens, in memory or in files. Several threads may read at the same time.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::int64_t size() const = 0;  // returns the number of tokens
  // Reads the tokens [begin, begin + into.size()), which must be within the stream.
  virtual void read(std::int64_t begin, std::span<std::int32_t> into) const = 0;
  // Adds data that identify the tokens [begin, end) to a checksum.
  virtual void add_to(Checksum& sum, std::int64_t begin, std::int64_t end) const = 0;
};

class TokensInMemory final : public TokenStream {
 public:
  explicit TokensInMemory(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}

  std::int64_t size() const override { return std::ssize(tokens_); }
  void read(std::int64_t begin, std::span<std::int32_t> into) const override {
    std::ranges::copy(range(begin, begin + std::ssize(into)), into.begin());
  }
  void add_to(Checksum& sum, std::int64_t begin, std::int64_t end) const override {
    sum.add(std::as_bytes(range(begin, end)));
  }

 private:
  std::span<const std::int32_t> range(std::int64_t begin, std::int64_t end) const {
    require(0 <= begin && begin <= end && end <= size(),
            "TokensInMemory: [{}, {}) of {} tokens; expected a range within them", begin, end,
            size());
    return std::span(tokens_).subspan(begin, end - begin);
  }

  std::vector<std::int32_t> tokens_;
};

}  // namespace tapestry
