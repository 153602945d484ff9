#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// The patterns that divide a text into pieces. Byte pairs are not merged across pieces.
enum class PiecePattern {
  //   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  gpt2,
  // Each \p{N} is a piece; the text between them is divided as GPT-2's, each part separately.
  smollm2,
  //   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  //   \s*[\r\n]+|\s+(?!\S)|\s+
  llama3,
  // Llama 3's with \p{N} in place of \p{N}{1,3}.
  qwen2,
};

// Returns the regular expression of llama3 and qwen2 in tokenizer.json; empty for the others, which
// are built into `tokenizers`.
std::string_view regex_of(PiecePattern pattern);

// The steps that prepare a text for byte-pair encoding, in this order.
struct PieceOptions {
  bool compose = false;     // apply composed() of data/text/unicode.hpp
  bool lower_case = false;  // apply lower_case()
  PiecePattern pattern = PiecePattern::gpt2;
};

// Returns the text that is divided into pieces. This and the functions below throw
// std::invalid_argument for a text that is not UTF-8.
std::string prepared(std::string_view text, const PieceOptions& options);

struct Piece {
  std::size_t bytes = 0;
  bool settled = false;  // the piece is the same however the text continues
};

// Returns the first piece of a text, which must not be empty.
Piece first_piece(std::string_view text, PiecePattern pattern);

// Returns all pieces of a text.
std::vector<std::string_view> byte_level_pieces(std::string_view text,
                                                PiecePattern pattern = PiecePattern::gpt2);

// The hash of an std::unordered_map of strings that is searched by std::string_view.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

// Returns the last place that is the end of a piece whatever precedes and follows the text: between
// a letter or number and a character of another kind that does not compose with it. 0 if there is
// none.
std::size_t last_sure_end(std::string_view text, const PieceOptions& options);

}  // namespace tapestry
