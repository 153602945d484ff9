#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_pair.hpp"

namespace tapestry {

// Returns the token that ends a document: the special token of this name, or for "" the first of
// <|endoftext|>, <eos>, <|end_of_text|> and </s> that the tokenizer has; nothing if there is none
// of these. Throws OptionError of "end_of_text" if there is no special token of the name.
std::optional<std::int32_t> end_of_text_of(const BytePairTokenizer& tokenizer,
                                           const std::string& name = "");

// The documents of a text.
enum class Documents {
  whole,      // the text
  lines,      // each line that is not empty, without its end
  separated,  // the parts between the names of the end-of-text token
};

struct TextEncoderOptions {
  Documents documents = Documents::whole;
  std::vector<std::int32_t> begin_of_text{};      // added before each document
  std::optional<std::int32_t> end_of_text{};      // added after each document
  bool continues = false;                         // the first text is the rest of a document
  std::string separator = {};                     // used by Documents::separated
  std::size_t part_bytes = std::size_t{1} << 18;  // least size of a part, 8 or more
};

// An encoder of texts of any size in parts, on all threads. A document is cut at
// BytePairTokenizer::last_cut(), so that its tokens are those of the whole document. If 16 parts
// have no such place, it is cut after any character, where the tokens may differ.
class TextEncoder final {
 public:
  using Take = std::function<void(std::span<const std::int32_t> tokens)>;

  // Passes the tokens to `take` in order, on the calling thread. The tokenizer must outlive the
  // encoder. Throws std::invalid_argument for separated documents without a separator, whole ones
  // with one, and parts of less than 8 bytes.
  TextEncoder(const BytePairTokenizer& tokenizer, TextEncoderOptions options, Take take);

  void add(std::string_view part);  // adds a part of a text, of whole characters
  void end_text();                  // ends the text and its last document
  void pause_text();                // passes on all tokens so far, without ending the document
  void finish();                    // passes on all tokens, after the last text

 private:
  struct Part {
    std::string text;
    bool begins_document, ends_document;
  };
  std::size_t cut_of(std::string_view text) const;
  std::string_view without_parts(std::string_view text);
  void end_document(std::string_view text);
  void push(std::string_view text, bool ends_document);

  const BytePairTokenizer& tokenizer_;
  TextEncoderOptions options_;
  Take take_;
  std::string rest_;  // the end of the text so far, not divided into parts yet
  bool begun_;        // parts of the document have been pushed
  std::vector<Part> parts_;
  std::size_t waiting_ = 0;  // number of bytes in parts_
};

}  // namespace tapestry
