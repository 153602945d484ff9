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

// The token that ends a document: the added token of this name, or of "" the first of
// <|endoftext|>, <eos>, <|end_of_text|> and </s> that the tokenizer has; nothing where it has none
// of these. OptionError of "end_of_text": there is no added token of the name.
std::optional<std::int32_t> end_of_text_of(const BytePairTokenizer& tokenizer,
                                           const std::string& name = "");

// What a document is.
enum class Documents {
  whole,      // each text
  lines,      // each line of a text that is not empty, without its end
  separated,  // what stands between the names of the end-of-text token
};

struct TextEncoderOptions {
  Documents documents = Documents::whole;
  std::optional<std::int32_t> end_of_text{};  // stands after each document
  std::string separator = {};                 // of Documents::separated
  std::size_t part_bytes = std::size_t{1} << 18;
};

// Encodes texts of any size in parts, on all threads. The tokens are those of each document as a
// whole: it is cut where BytePairTokenizer::last_cut says, or where 16 parts have no such place,
// anywhere.
class TextEncoder final {
 public:
  using Take = std::function<void(std::span<const std::int32_t> tokens)>;

  // `take` gets the tokens in their order, on the calling thread. The tokenizer outlives it.
  TextEncoder(const BytePairTokenizer& tokenizer, TextEncoderOptions options, Take take);

  void add(std::string_view part);  // of a text: whole characters
  void end_text();                  // and of its last document
  void pause_text();                // gives all tokens on, without the document's end
  void finish();                    // after the last text

 private:
  struct Part {
    std::string text;
    bool ends_document;
  };
  std::size_t cut_of(std::string_view text) const;
  std::string_view without_parts(std::string_view text);
  void end_document(std::string_view text);
  void push(std::string_view text, bool ends_document);

  const BytePairTokenizer& tokenizer_;
  TextEncoderOptions options_;
  Take take_;
  std::string rest_;    // of the text so far, not in parts yet
  bool begun_ = false;  // parts of the document have been pushed
  std::vector<Part> parts_;
  std::size_t waiting_ = 0;  // bytes of parts_
};

}  // namespace tapestry
