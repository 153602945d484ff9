#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// By which pattern a text is cut into the pieces that byte pairs do not cross.
enum class PiecePattern {
  //   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  gpt2,
  // Each \p{N} is a piece; between them GPT-2's, as if each stretch were a text of its own.
  smollm2,
  //   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  //   \s*[\r\n]+|\s+(?!\S)|\s+
  llama3,
  // Llama 3's with \p{N} in place of \p{N}{1,3}.
  qwen2,
};

// Of llama3 and qwen2 as tokenizer.json has it; empty for the others, which `tokenizers` has built
// in.
std::string_view regex_of(PiecePattern pattern);

// What is done to a text before byte pairs are made in it, in this order.
struct PieceOptions {
  bool compose = false;     // composed(text), see data/text/unicode.hpp
  bool lower_case = false;  // lower_case(text), ditto
  PiecePattern pattern = PiecePattern::gpt2;
};

// The text that is cut. Texts are UTF-8, here and below, else std::invalid_argument.
std::string prepared(std::string_view text, const PieceOptions& options);

struct Piece {
  std::size_t bytes = 0;
  bool settled = false;  // however the text goes on
};
Piece first_piece(std::string_view text, PiecePattern pattern);  // of a text that is not empty

// Together they are the text.
std::vector<std::string_view> byte_level_pieces(std::string_view text,
                                                PiecePattern pattern = PiecePattern::gpt2);

// By which a std::unordered_map of strings is looked into by a part of a text.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

// The end of a piece, whatever the text before and after it: where a letter or number stands before
// a character of another kind, which begins a text of its own when composed. The last such place;
// 0: there is none.
std::size_t last_sure_end(std::string_view text, const PieceOptions& options);

}  // namespace tapestry
