#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/tokenizer.hpp"

namespace tapestry {

// A vocabulary of characters (Unicode code points): token i is the i-th symbol.
class CharVocabulary final : public Tokenizer {
 public:
  // Throws InputError unless each symbol is one character and occurs once. Keeps the order.
  explicit CharVocabulary(std::vector<std::string> symbols);

  // Returns the vocabulary of the distinct characters of a text, sorted by code point. Throws
  // std::invalid_argument for a text that is not UTF-8.
  static CharVocabulary of_text(std::string_view text);

  std::int64_t size() const override { return std::ssize(symbols_); }
  const std::vector<std::string>& symbols() const { return symbols_; }

  // Returns one token per character. Throws InputError with the first character that is not a
  // symbol.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::string_view bytes_of(std::int32_t token) const override { return symbols_.at(token); }
  const CharVocabulary* characters() const override { return this; }

 private:
  [[noreturn]] void throw_unknown(std::string_view text, std::size_t offset) const;

  std::vector<std::string> symbols_;
  std::vector<std::int32_t> tokens_;  // indexed by code point, up to the highest; -1: not a symbol
};

// Returns Hugging Face's tokenizer.json of a vocabulary of characters, with which `tokenizers`
// encodes and decodes as the vocabulary does. A character that is not a symbol is an error there
// too.
std::string character_tokenizer_json(const CharVocabulary& vocabulary);

// Returns the vocabulary of such a tokenizer.json; nothing if its model is not "WordLevel". Throws
// InputError for other WordLevel models, and as parse_json() does.
std::optional<CharVocabulary> vocabulary_of_characters(std::string_view json,
                                                       const std::string& path);

struct Text {
  std::string path;     // path of the file
  std::string content;  // UTF-8, not empty
};

// Describes the files that load_text and text_files read.
inline constexpr const char* plain_text_files =
    "a UTF-8 text file, or a folder or pattern of such files";

// Reads a text in the format of its path: a file of plain text, which may be gzip, or the only
// *.txt file of a folder. Throws InputError for none or several *.txt files, and for a file that is
// empty, not UTF-8 or above 1 GiB.
Text load_text(const std::string& path);

// Returns the texts of a path, sorted by name: the *.txt files of a folder, the files that match a
// pattern with * ? or [abc], or the path itself. Throws InputError if there are none.
std::vector<std::string> text_files(const std::string& path);
// Returns whether the path has one of * ? [ and no file of that name exists.
bool is_pattern(const std::string& path);

// The contents of several texts before and after a byte of their concatenation. A text may be cut,
// between characters; its parts are then on both sides.
struct CutTexts {
  std::vector<std::string> before{}, after{};
  bool cuts_a_text = false;
};
CutTexts cut_texts(std::vector<Text> texts, std::int64_t byte);

// Reads a text of any size in parts, as read_text_parts() does. Throws InputError for several *.txt
// files in a folder, and for a file that is empty or not UTF-8.
void read_plain_text(const std::string& path,
                     const std::function<void(std::string_view part)>& take);

// The windows of T tokens that are the examples of a text of n tokens.
enum class Windows {
  overlapping,  // example i starts at token i: n - T examples, sampled at random in training
  consecutive,  // example i starts at token i · T: each of the n - 1 targets occurs once
};

struct TextRange {
  std::int64_t begin = 0;  // tokens [begin, end)
  std::int64_t end = 0;
  std::int64_t context = 64;  // T
  Windows windows = Windows::overlapping;
  std::string path = {};   // path for messages
  std::string split = {};  // "train" or "validation", for messages
};

// A data set for next-token prediction: windows of T tokens of a text. A batch: inputs (B, T) and
// targets (B, T), int32, targets one token ahead. The last consecutive window may be shorter: its
// inputs end in 0, its targets in ignored_target.
class TextDataset final : public Dataset {
 public:
  // Throws OptionError if the range is too short: of "context" below T + 1 tokens of overlapping
  // windows, of "end" below 2 tokens of consecutive ones. Throws std::invalid_argument for a range
  // outside of the tokens, and for a context below 1.
  TextDataset(std::shared_ptr<const TokenStream> tokens, TextRange range);

  std::int64_t size() const override;
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;

 private:
  std::shared_ptr<const TokenStream> tokens_;
  TextRange range_;
};

}  // namespace tapestry
