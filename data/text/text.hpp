#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/token_stream.hpp"
#include "data/text/tokenizer.hpp"

namespace tapestry {

// The text with what a terminal would obey, or show to mislead, written out: control characters as
// \x1b and \u009b, marks of direction and breaks of lines as \u202e, bytes that are not UTF-8 as
// \xff. It is one line.
std::string printable(std::string_view text);
// The same, but tabs and the ends of lines stay as they are.
std::string printable_lines(std::string_view text);
// As printable, of the first 200 bytes, for a message: "…" stands for the rest.
std::string printable_beginning(std::string_view text);
// A path as a word that a shell takes for it, on one line: runs/sort, 'my run', $'a\x0ab', ./-x
std::string shell_word(std::string_view path);

// Numbers the characters (Unicode code points) of a language: token i is the i-th symbol.
class CharVocabulary final : public Tokenizer {
 public:
  // Each symbol is one character and occurs once, else InputError. Order is kept.
  explicit CharVocabulary(std::vector<std::string> symbols);

  // The distinct characters of a UTF-8 text, sorted by code point.
  static CharVocabulary of_text(std::string_view text);

  std::int64_t size() const override { return std::ssize(symbols_); }
  const std::vector<std::string>& symbols() const { return symbols_; }

  // One token a character. InputError names the first character that is not a symbol.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::string_view bytes_of(std::int32_t token) const override { return symbols_.at(token); }
  const CharVocabulary* characters() const override { return this; }

 private:
  [[noreturn]] void throw_unknown(std::string_view text, std::size_t offset) const;

  std::vector<std::string> symbols_;
  std::vector<std::int32_t> tokens_;  // by code point, as far as the highest; -1: not a symbol
};

struct Text {
  std::string path;     // of the file that was read
  std::string content;  // UTF-8, not empty
};

// Says what load_text and text_files read.
inline constexpr const char* plain_text_files = "a UTF-8 text file, a folder or pattern of them";

// Reads a text in the format of its path: a file of plain text, which may be gzip, or the one *.txt
// file of a folder. InputError: none or several *.txt files, an empty file, not UTF-8, above 1 GiB.
Text load_text(const std::string& path);

// The texts of a path, in the order of their names: of a folder its *.txt files, and of a pattern,
// in which * ? and [abc] stand for parts of names, the files that match; else the path itself.
// InputError: a folder or pattern without texts.
std::vector<std::string> text_files(const std::string& path);
// Whether the path has * ? or [ in it, and is not the name of what is there.
bool is_pattern(const std::string& path);

// The contents of texts up to a byte of them all, and from there on. A text that is cut, between
// characters, stands on both sides.
struct CutTexts {
  std::vector<std::string> before{}, after{};
  bool cuts_a_text = false;
};
CutTexts cut_texts(std::vector<Text> texts, std::int64_t byte);

// Gives on a plain text part by part, as read_text_parts. InputError as of load_text, but a text of
// any size is read.
void read_plain_text(const std::string& path,
                     const std::function<void(std::string_view part)>& take);

// How examples of T tokens are cut from a text of n tokens.
enum class Windows {
  overlapping,  // example i starts at token i: n - T examples, to draw at random in training
  consecutive,  // example i starts at token i T: each of the n - 1 predictable tokens once
};

struct TextRange {
  std::int64_t begin = 0;  // tokens [begin, end)
  std::int64_t end = 0;
  std::int64_t context = 64;  // T
  Windows windows = Windows::overlapping;
  std::string path = {};   // for messages
  std::string split = {};  // "train" or "validation", for messages
};

// Next-token prediction. A batch: inputs (B, T) and targets (B, T), int32, targets one token ahead.
// The last consecutive window may be short: inputs end in 0, targets in ignored_target.
class TextDataset final : public Dataset {
 public:
  // OptionError where the range is too short, of "context": T + 1 tokens overlapping, or of "end":
  // 2 tokens consecutive.
  TextDataset(std::shared_ptr<const TokenStream> tokens, TextRange range);

  std::int64_t size() const override;
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;

 private:
  std::shared_ptr<const TokenStream> tokens_;
  TextRange range_;
};

}  // namespace tapestry
