#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

class BytePairTokenizer;
class CharVocabulary;

// Cuts text into tokens, numbers in [0, size()), and puts text together again.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t size() const = 0;
  // InputError where the text is not UTF-8, or has what no token stands for.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  // What a token stands for, which may be a part of a character; nothing of a special token.
  virtual std::string_view bytes_of(std::int32_t token) const = 0;
  // Tokens that stand before each text that a model reads: of Llama 3's, <|begin_of_text|>.
  virtual std::span<const std::int32_t> before_text() const { return {}; }

  // Return this tokenizer as one of byte pairs or of characters, or null if it is of another kind.
  virtual const BytePairTokenizer* byte_pairs() const { return nullptr; }
  virtual const CharVocabulary* characters() const { return nullptr; }
};

}  // namespace tapestry
