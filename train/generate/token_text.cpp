#include "train/generate/token_text.hpp"

#include <algorithm>
#include <utility>

#include "autograd/check.hpp"

namespace tapestry {
namespace {

// Returns the length in bytes of an incomplete character at the end of the text.
std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()); ++bytes) {
    const auto byte = static_cast<unsigned char>(text[text.size() - bytes]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return whole > bytes ? bytes : 0;
  }
  return 0;
}

// Returns the length in bytes of the longest end of the text that is a beginning of the stop text.
std::size_t begun_bytes(std::string_view text, std::string_view stop) {
  std::size_t bytes = std::min(text.size(), stop.size() - 1);
  while (!text.ends_with(stop.substr(0, bytes))) --bytes;
  return bytes;
}

}  // namespace

TokenText::TokenText(const Tokenizer& tokenizer, std::vector<std::string> stops, Take take)
    : tokenizer_(tokenizer), stops_(std::move(stops)), take_(std::move(take)) {
  for (const std::string& stop : stops_)
    require(!stop.empty(), "TokenText: a stop text is empty; expected at least one byte");
}

bool TokenText::add(std::int32_t token) {
  tokens_.push_back(token);
  bytes_ += tokenizer_.bytes_of(token);
  if (unfinished_bytes(bytes_) > 0) return true;
  const std::string text = tokenizer_.decode(tokens_);
  tokens_.clear();
  bytes_.clear();
  return give(text);
}

bool TokenText::give(std::string_view text) {
  waiting_ += text;
  std::size_t end = std::string::npos, kept = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, waiting_.find(stop));
    kept = std::max(kept, begun_bytes(waiting_, stop));
  }
  const bool continues = end == std::string::npos;
  const std::size_t given = continues ? waiting_.size() - kept : end;
  if (given > 0) take_(std::string_view(waiting_).substr(0, given));
  waiting_.erase(0, continues ? given : std::string::npos);
  return continues;
}

void TokenText::finish() {
  waiting_ += tokenizer_.decode(tokens_);
  if (!waiting_.empty()) take_(waiting_);
}

}  // namespace tapestry
