#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.hpp"

namespace tapestry {

// The text of tokens that come one by one, given on as soon as it cannot change: when characters
// are whole, and no text that is to stop it can have begun.
class TokenText final {
 public:
  using Take = std::function<void(std::string_view text)>;

  // The tokenizer outlives it. No stop is empty.
  TokenText(const Tokenizer& tokenizer, std::vector<std::string> stops, Take take);

  // False: a stop has come. What stood before it was given on; the rest is dropped.
  bool add(std::int32_t token);
  void finish();  // gives on what was waiting

 private:
  bool give(std::string_view text);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  Take take_;
  std::vector<std::int32_t> tokens_;  // whose last character is not whole yet
  std::string bytes_;                 // of these
  std::string waiting_;               // may begin a stop
};

}  // namespace tapestry
