#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/pieces.hpp"
#include "data/text/token_tables.hpp"
#include "data/text/tokenizer.hpp"

namespace tapestry {

struct BytePairOptions {
  std::int64_t vocabulary = 8000;  // the most tokens: special tokens, 256 bytes, and merges
  std::int64_t least_count = 2;    // a pair that occurs less often is not merged
  bool lower_case = false;         // convert texts by lower_case(), see data/text/unicode.hpp
  // The first tokens of the vocabulary: names that cannot be a piece of a text.
  std::vector<std::string> special_tokens = {tapestry::special_tokens.begin(),
                                             tapestry::special_tokens.end()};
  PiecePattern pattern = PiecePattern::gpt2;  // qwen2 also composes texts
};

// A token with a name, which is found in a text before the text is divided into pieces.
struct AddedToken {
  std::int32_t token = 0;
  bool normalized = false;  // found in the prepared text, else in the raw text
};

// The contents of a tokenizer.
struct BytePairModel {
  using Pair = std::array<std::int32_t, 2>;  // the left and the right token
  // The bytes of each token, all different; for added tokens their names.
  std::vector<std::string> tokens{};
  std::vector<bool> special{};      // per token: it is an added token without bytes
  std::vector<Pair> merges{};       // in the order in which they apply; each result is a token
  std::vector<AddedToken> added{};  // special tokens, and those whose bytes are their names
  std::int64_t only_added = 0;      // number of the last tokens, which are not in the vocabulary
  PieceOptions pieces{};
  bool space_before = false;  // add ' ' to a text that does not begin with one
  bool whole_first = false;   // a piece that is a token is encoded as it, whatever the merges
  std::int32_t unknown = -1;  // token of a byte that is not a token; -1: omit such a byte
  std::vector<std::int32_t> before{}, after{};  // the template: added to the tokens of a text
};

struct EncodeOptions {
  bool added_tokens = false;   // also find special tokens in the text by their names
  bool with_template = false;  // add the model's `before` and `after` to the tokens
};

// Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909; over bytes and within
// pieces as in GPT-2, Radford et al. 2019): every text has an encoding, and if all bytes are
// tokens, decode() returns the text. The tokens of a trained tokenizer are the special tokens of
// its options, then the bytes in GPT-2's order, then one for each merge with a new result.
class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairModel model);

  // Repeatedly merges the most frequent pair of neighboring tokens; of equally frequent ones that
  // with the smaller left token, then right token, as Hugging Face's trainer does. Does not merge
  // across pieces. A short text may not fill the vocabulary. Throws InputError for special tokens
  // that can be a piece of text and for text that is not UTF-8; OptionError of "vocabulary" if it
  // is too small.
  static BytePairTokenizer train(std::span<const std::string> texts,
                                 const BytePairOptions& options = {});

  // Trains on files of plain text, which are read in parts: only their distinct pieces take memory,
  // at most 256 MiB. A piece longer than 1 MiB counts as several.
  static BytePairTokenizer train_on_files(std::span<const std::string> paths,
                                          const BytePairOptions& options = {});

  // Read Hugging Face's tokenizer.json of byte-level BPE; data/text/README.md lists the supported
  // fields. Throw InputError with file and field, and above 64 MiB.
  static BytePairTokenizer load(const std::string& path);
  static BytePairTokenizer from_json(std::string_view json, const std::string& path);
  std::string to_json() const;  // tokenizer.json without fields that change no token

  std::int64_t size() const override { return std::ssize(model_.tokens); }
  const BytePairModel& model() const { return model_; }
  std::int32_t find(std::string_view token) const;  // by name or by bytes; -1: none
  // Returns whether merges alone make each piece that is a token this token.
  bool merges_suffice() const { return merges_suffice_; }

  // Encode as Hugging Face's `tokenizers` does with encode_special_tokens set: the name of a
  // special token in the text is text, so that a text cannot insert <eos>. Throw InputError if the
  // text is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const;

  // Returns the last place where a text can be cut, so that the tokens of both parts are those of
  // encode(text); 0 if there is none.
  std::size_t last_cut(std::string_view text) const;

  // Omits special tokens. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::span<const std::int32_t> before_text() const override { return model_.before; }
  const BytePairTokenizer* byte_pairs() const override { return this; }
  std::string_view bytes_of(std::int32_t token) const override {
    return model_.special.at(token) ? std::string_view() : model_.tokens[token];
  }

 private:
  struct Scratch;  // memory of merge(), which is reused
  void index_tokens();
  void index_merges();
  // Finds a token that is not special; -1: none.
  std::int32_t text_token(std::string_view bytes) const;
  void encode_between(std::string_view text, const EncodeOptions& options, Scratch& scratch) const;
  void encode_pieces(std::string_view text, Scratch& scratch) const;
  void encode_bytes(std::string_view piece, Scratch& scratch) const;
  void merge(Scratch& scratch) const;

  BytePairModel model_;
  using Ids = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;
  Ids names_{}, texts_{};  // added tokens by name; the others by bytes
  NameFinder found_raw_{}, found_prepared_{};
  std::array<std::int32_t, 256> byte_tokens_{};
  MergeTable merges_{};
  std::vector<bool> whole_{};  // of each token: a piece of its bytes is encoded as this token
  bool merges_suffice_ = true;
};

// Return the character and the text that represent bytes in tokenizer.json, as in GPT-2's: the same
// character if it is visible, such as "a" and "é", else one from U+0100 on, such as "Ġ" for the
// space.
char32_t visible_character(std::uint8_t byte);
std::string visible_text(std::string_view bytes);
// Returns the bytes that such a text represents; nothing if it has another character.
std::optional<std::string> bytes_of_visible(std::string_view text);

}  // namespace tapestry
