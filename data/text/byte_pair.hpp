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
  std::int64_t vocabulary = 8000;  // maximum number of tokens: special tokens, 256 bytes and merges
  std::int64_t least_count = 2;    // minimum count of a pair to be merged
  bool lower_case = false;         // convert texts with lower_case() of data/text/unicode.hpp
  // The first tokens of the vocabulary. No piece of a text may equal one of these names.
  std::vector<std::string> special_tokens = {tapestry::special_tokens.begin(),
                                             tapestry::special_tokens.end()};
  PiecePattern pattern = PiecePattern::gpt2;  // how texts are divided; qwen2 also applies NFC
};

// A token that is found in a text by its name before the text is divided into pieces.
struct AddedToken {
  std::int32_t token = 0;
  bool normalized = false;  // search the normalized text; else the raw text
};

// The vocabulary and the merges of a tokenizer, and how it divides a text.
struct BytePairModel {
  using Pair = std::array<std::int32_t, 2>;  // the left token and the right token
  // The bytes of each token, all different. For an added token, its name.
  std::vector<std::string> tokens{};
  std::vector<bool> special{};      // per token: whether it is an added token without bytes
  std::vector<Pair> merges{};       // in descending priority; each result is a token
  std::vector<AddedToken> added{};  // special tokens, and tokens whose bytes are their names
  std::int64_t only_added = 0;      // number of added tokens after the vocabulary
  PieceOptions pieces{};
  bool space_before = false;  // add a space to each part between added tokens that lacks one
  bool whole_first = false;   // encode a piece that equals a token as this token, without merges
  std::int32_t unknown = -1;  // token for bytes that are not tokens; -1: omit such bytes
  std::vector<std::int32_t> before{}, after{};  // template: tokens added to those of a text
};

struct EncodeOptions {
  bool added_tokens = false;   // also find special tokens in the text by their names
  bool with_template = false;  // add the model's `before` and `after` to the tokens
};

// Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909; over bytes and within
// pieces as in GPT-2, Radford et al. 2019). Every text has an encoding, and decode() returns the
// text if all bytes are tokens. The vocabulary of a trained tokenizer is its special tokens, then
// the bytes in GPT-2's order, then one token per merge with a new result.
class BytePairTokenizer final : public Tokenizer {
 public:
  // Throws std::invalid_argument if added tokens or merges refer to tokens that do not exist, if
  // the result of a merge is not a token, if two tokens are the same, or if a special token is not
  // among the added ones.
  explicit BytePairTokenizer(BytePairModel model);

  // Merges the most frequent pair of adjacent tokens until the vocabulary is full. Of equally
  // frequent pairs it merges the one with the smaller left token, then the smaller right token, as
  // the trainer of Hugging Face's tokenizers does. Does not merge across pieces. The vocabulary of
  // a short text may stay smaller. Throws InputError for a special token that can be a piece of
  // text or occurs twice, and for text that is not UTF-8; OptionError of "vocabulary" if that is
  // too small; std::invalid_argument for a least_count below 1.
  static BytePairTokenizer train(std::span<const std::string> texts,
                                 const BytePairOptions& options = {});

  // Trains on files of plain text. Stores only their distinct pieces. A piece of more than 1 MiB
  // counts as several. Throws as train() and read_plain_text() do, and InputError for distinct
  // pieces of more than 256 MiB.
  static BytePairTokenizer train_on_files(std::span<const std::string> paths,
                                          const BytePairOptions& options = {});

  // Return the tokenizer of a tokenizer.json of Hugging Face with byte-level BPE;
  // data/text/README.md lists the supported fields. Throw InputError that names file and field;
  // load() also for a file of more than 64 MiB.
  static BytePairTokenizer load(const std::string& path);
  static BytePairTokenizer from_json(std::string_view json, const std::string& path);
  std::string to_json() const;  // returns tokenizer.json without fields that have no effect

  std::int64_t size() const override { return std::ssize(model_.tokens); }
  const BytePairModel& model() const { return model_; }
  // Leaves out the template's tokens before a text.
  void leave_out_before_text() { model_.before.clear(); }
  // Returns the token of this name or these bytes; -1: none.
  std::int32_t find(std::string_view token) const;
  // Returns whether merges alone encode each piece that equals a token as this token.
  bool merges_suffice() const { return merges_suffice_; }

  // Return the tokens of a text, as Hugging Face's tokenizers does with encode_special_tokens set:
  // the name of a special token in the text is encoded as text, so that a text cannot insert <eos>.
  // Throw InputError if the text is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const;

  // Returns the last byte offset at which a text can be divided so that the tokens of both parts
  // together are encode(text); 0 if there is none.
  std::size_t last_cut(std::string_view text) const;

  // Returns the text of tokens, without special tokens. Bytes that are not UTF-8 become U+FFFD.
  // Throws std::invalid_argument for a token outside [0, size()).
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::span<const std::int32_t> before_text() const override { return model_.before; }
  const BytePairTokenizer* byte_pairs() const override { return this; }
  std::string_view bytes_of(std::int32_t token) const override {
    return model_.special.at(token) ? std::string_view() : model_.tokens[token];
  }

 private:
  struct Scratch;  // buffers of merge(), which are reused
  void index_tokens();
  void index_merges();
  // Returns the token of these bytes that is not special; -1 if there is none.
  std::int32_t text_token(std::string_view bytes) const;
  void encode_between(std::string_view text, const EncodeOptions& options, Scratch& scratch) const;
  void encode_pieces(std::string_view text, Scratch& scratch) const;
  void encode_bytes(std::string_view piece, Scratch& scratch) const;
  void merge(Scratch& scratch) const;

  BytePairModel model_;
  using Ids = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;
  Ids names_{}, texts_{};  // added tokens by name; other tokens by bytes
  NameFinder found_raw_{}, found_prepared_{};
  std::array<std::int32_t, 256> byte_tokens_{};
  MergeTable merges_{};
  std::vector<bool> whole_{};  // per token: a piece of its bytes is encoded as this token
  bool merges_suffice_ = true;
};

// Return the character and the text that represent bytes in tokenizer.json, as in GPT-2's: the same
// character if it is visible, such as "a" and "é", else one from U+0100 on, such as "Ġ" for a
// space.
char32_t visible_character(std::uint8_t byte);
std::string visible_text(std::string_view bytes);
// Returns the bytes that a visible_text() represents; nothing if it has other characters.
std::optional<std::string> bytes_of_visible(std::string_view text);

}  // namespace tapestry
