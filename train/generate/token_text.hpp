#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.hpp"

namespace tapestry {

// A decoder of tokens, one by one. It passes on text as soon as the text cannot change: when its
// characters are complete, and no stop text can have begun.
class TokenText final {
 public:
  using Take = std::function<void(std::string_view text)>;

  // Throws std::invalid_argument for an empty stop text. The tokenizer must outlive this object.
  TokenText(const Tokenizer& tokenizer, std::vector<std::string> stops, Take take);

  // Adds a token. Returns false if a stop text was found: the text before it was passed on, and the
  // rest is dropped.
  bool add(std::int32_t token);
  void finish();  // passes on the remaining text

 private:
  bool give(std::string_view text);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  Take take_;
  std::vector<std::int32_t> tokens_;  // tokens with an incomplete last character
  std::string bytes_;                 // bytes of these tokens
  std::string waiting_;               // may begin a stop text
};

}  // namespace tapestry
