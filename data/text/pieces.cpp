#include "data/text/pieces.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

// The length of the longest contraction: 're, or ' and a long s.
constexpr std::size_t contraction_bytes = 3;

// A scanner that finds the first piece of a text, and records whether it depends on how the text
// continues.
class Scanner final {
 public:
  Scanner(std::string_view text, PiecePattern pattern) : text_(text), pattern_(pattern) {}

  Piece first() {
    const bool is_gpt2 = pattern_ == PiecePattern::gpt2 || pattern_ == PiecePattern::smollm2;
    const std::size_t bytes = is_gpt2 ? first_of_gpt2() : first_of_llama3();
    return {bytes, !saw_end_};
  }

 private:
  struct Character {
    CharacterKind kind = CharacterKind::other;
    std::size_t bytes = 0;  // 0 at the end of the text
  };
  struct Run {
    std::size_t end = 0, last = 0;  // `last`: where its last character starts
    std::size_t after_newline = 0;  // end of its last \r or \n; 0: none
  };

  Character at(std::size_t offset) {
    if (offset == text_.size()) {
      saw_end_ = true;
      return {};
    }
    const auto byte = static_cast<unsigned char>(text_[offset]);
    const CodePoint point = byte < 0x80 ? CodePoint{byte, 1} : code_point_at(text_, offset);
    require(point.bytes > 0, "byte_level_pieces: byte {} is not UTF-8; expected UTF-8 text",
            offset);
    const CharacterKind kind = kind_of(point.value);
    const bool stands_apart = pattern_ == PiecePattern::smollm2 && kind == CharacterKind::number;
    if (stands_apart && offset > 0) return {};
    return {kind, static_cast<std::size_t>(point.bytes)};
  }

  bool is_newline(std::size_t offset) const {
    return offset < text_.size() && (text_[offset] == '\n' || text_[offset] == '\r');
  }

  Run run_of(CharacterKind kind, std::size_t offset, std::size_t most = std::string_view::npos) {
    Run run{.end = offset, .last = offset};
    for (; most > 0; --most) {
      const Character character = at(run.end);
      if (character.bytes == 0 || character.kind != kind) break;
      run.last = run.end;
      run.end += character.bytes;
      if (is_newline(run.last)) run.after_newline = run.end;
    }
    return run;
  }

  // Returns the length of 's, 't, 're, 've, 'm, 'll or 'd; 0 if the text begins with none.
  std::size_t contraction(bool any_case) {
    if (text_.front() != '\'') return 0;
    if (text_.size() < contraction_bytes) saw_end_ = true;
    std::string next(text_.substr(1, contraction_bytes - 1));
    if (any_case && next == "ſ") return contraction_bytes;  // the long s is an s
    if (any_case)
      std::ranges::transform(next, next.begin(),
                             [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    if (next.empty()) return 0;
    if (std::string_view("stmd").find(next.front()) != std::string_view::npos) return 2;
    return next == "re" || next == "ve" || next == "ll" ? 3 : 0;
  }

  // Returns the end of a piece of white space: the last of several characters before other text
  // belongs to the next piece.
  std::size_t spaces(const Run& run) {
    return at(run.end).bytes == 0 || run.last == 0 ? run.end : run.last;
  }

  std::size_t first_of_gpt2() {
    using enum CharacterKind;
    if (const std::size_t bytes = contraction(false)) return bytes;
    const std::size_t word = text_.front() == ' ' ? 1 : 0;
    const Character next = at(word);
    if (pattern_ == PiecePattern::smollm2 && next.kind == number) return next.bytes;
    if (next.bytes > 0 && next.kind != space) return run_of(next.kind, word).end;
    return spaces(run_of(space, 0));
  }

  std::size_t first_of_llama3() {
    using enum CharacterKind;
    if (const std::size_t bytes = contraction(true)) return bytes;
    const Character first = at(0);
    if (first.kind == letter) return run_of(letter, 0).end;
    if (first.kind == number) return run_of(number, 0, pattern_ == PiecePattern::qwen2 ? 1 : 3).end;
    if (!is_newline(0) && at(first.bytes).kind == letter) return run_of(letter, first.bytes).end;
    const std::size_t signs = text_.front() == ' ' ? 1 : 0;
    if (const Run run = run_of(other, signs); run.end > signs) {
      std::size_t end = run.end;
      while (is_newline(end)) ++end;
      if (end == text_.size()) saw_end_ = true;
      return end;
    }
    const Run run = run_of(space, 0);
    return run.after_newline > 0 ? run.after_newline : spaces(run);
  }

  std::string_view text_;
  PiecePattern pattern_;
  bool saw_end_ = false;
};

CharacterKind kind_at(std::string_view text, std::size_t offset) {
  return kind_of(code_point_at(text, offset).value);
}

// Returns whether a piece ends between the last two characters of a text, which start at `before`
// and `after`.
bool ends_surely(std::string_view text, std::size_t before, std::size_t after,
                 const PieceOptions& options) {
  const std::string left = prepared(text.substr(before, after - before), options);
  const std::string right = prepared(text.substr(after), options);
  const CharacterKind kind = kind_at(left, character_before(left, left.size()));
  const bool is_word = kind == CharacterKind::letter || kind == CharacterKind::number;
  return is_word && kind != kind_at(right, 0) &&
         (!options.compose || settled_composition_bytes(text) == after);
}

}  // namespace

std::string_view regex_of(PiecePattern pattern) {
  if (pattern == PiecePattern::llama3)
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  if (pattern == PiecePattern::qwen2)
    return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return {};
}

std::string prepared(std::string_view text, const PieceOptions& options) {
  std::string result = options.compose ? composed(text) : std::string(text);
  return options.lower_case ? lower_case(result) : result;
}

Piece first_piece(std::string_view text, PiecePattern pattern) {
  return Scanner(text, pattern).first();
}

std::vector<std::string_view> byte_level_pieces(std::string_view text, PiecePattern pattern) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    pieces.push_back(text.substr(0, first_piece(text, pattern).bytes));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

std::size_t last_sure_end(std::string_view text, const PieceOptions& options) {
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t after = character_before(text, end);
    if (after == 0) break;
    const std::size_t before = character_before(text, after);
    if (ends_surely(text.substr(0, end), before, after, options)) return after;
    end = after;
  }
  return 0;
}

}  // namespace tapestry
