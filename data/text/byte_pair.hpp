#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/merge_table.hpp"
#include "data/text/name_finder.hpp"
#include "data/text/pieces.hpp"
#include "data/text/special_tokens.hpp"
#include "data/text/tokenizer.hpp"

namespace tapestry {

struct BytePairOptions {
  std::int64_t vocabulary = 8000;  // at most: the special tokens, 256 bytes, and merges
  std::int64_t least_count = 2;    // a pair that occurs less often is not merged
  bool lower_case = false;         // learn and encode lower_case(text), see data/text/unicode.hpp
  // The first tokens of the vocabulary: names that no piece of a text can be.
  std::vector<std::string> special_tokens = {tapestry::special_tokens.begin(),
                                             tapestry::special_tokens.end()};
  PiecePattern pattern = PiecePattern::gpt2;  // qwen2: of composed(text)
};

// A token that has a name, by which it is found in a text before the text is cut into pieces.
struct AddedToken {
  std::int32_t token = 0;
  bool normalized = false;  // found in the prepared text, else in the text as it is
};

// What a tokenizer is made of.
struct BytePairModel {
  using Pair = std::array<std::int32_t, 2>;  // the left and the right token
  // Their bytes, all different; of added ones the names.
  std::vector<std::string> tokens{};
  std::vector<bool> special{};      // of each: it is an added one and stands for no bytes
  std::vector<Pair> merges{};       // the first applies first; each result is a token
  std::vector<AddedToken> added{};  // special ones, and such as stand for their names' bytes
  std::int64_t only_added = 0;      // so many of the last tokens are not of the vocabulary proper
  PieceOptions pieces{};
  bool space_before = false;  // a text that begins with no ' ' is given one
  bool whole_first = false;   // a piece that is a token is that, whatever merges make of it
  std::int32_t unknown = -1;  // for a byte that is no token; -1: such a byte is left out
  std::vector<std::int32_t> before{}, after{};  // the template: added to a text's tokens
};

struct EncodeOptions {
  bool added_tokens = false;   // special ones are found in the text by their names, as others are
  bool with_template = false;  // the model's `before` and `after` stand around the text's tokens
};

// Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909; over bytes and within
// pieces as in GPT-2, Radford et al. 2019): every text has an encoding, and where all bytes are
// tokens, decode gives it back. A trained one has first the special tokens of its options, then
// the bytes in GPT-2's order, then a token for each merge that made a new one.
class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairModel model);

  // Merges the most frequent pair of neighbouring tokens, again and again; of equally frequent
  // ones that of the smaller left token, then right, as Hugging Face's trainer does. A piece does
  // not merge with the next. Little text may not fill the vocabulary. InputError: special tokens
  // that text may spell, not UTF-8; OptionError of "vocabulary": too small.
  static BytePairTokenizer train(std::span<const std::string> texts,
                                 const BytePairOptions& options = {});

  // The same from files of plain text, which are read part by part: memory is taken by their
  // distinct pieces alone, which may be 256 MiB. A piece above 1 MiB counts as several.
  static BytePairTokenizer train_on_files(std::span<const std::string> paths,
                                          const BytePairOptions& options = {});

  // Hugging Face's tokenizer.json of byte-level BPE; data/text/README.md lists the supported
  // fields. InputError names the file and the field; also above 64 MiB.
  static BytePairTokenizer load(const std::string& path);
  static BytePairTokenizer from_json(std::string_view json, const std::string& path);
  std::string to_json() const;  // what was read, but for what changes no token

  std::int64_t size() const override { return std::ssize(model_.tokens); }
  const BytePairModel& model() const { return model_; }
  std::int32_t find(std::string_view token) const;  // by its name, or its bytes; -1: none

  // As Hugging Face's `tokenizers` does it with encode_special_tokens set: a special token's name
  // in the text is read as text, so that no text can smuggle in <eos>. InputError where the text
  // is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const;

  // Where a text can be cut: what is before is encoded without what comes after, and the tokens of
  // both are the text's, by encode(text). The last such place; 0: there is none.
  std::size_t last_cut(std::string_view text) const;

  // Leaves special tokens out. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::span<const std::int32_t> before_text() const override { return model_.before; }
  const BytePairTokenizer* byte_pairs() const override { return this; }
  std::string_view bytes_of(std::int32_t token) const override {
    return model_.special.at(token) ? std::string_view() : model_.tokens[token];
  }

 private:
  struct Scratch;  // memory of merge(), to be used again
  void index_tokens();
  void index_merges();
  std::int32_t text_token(std::string_view bytes) const;  // not a special one; -1: none
  void encode_between(std::string_view text, const EncodeOptions& options, Scratch& scratch) const;
  void encode_pieces(std::string_view text, Scratch& scratch) const;
  void encode_bytes(std::string_view piece, Scratch& scratch) const;
  void merge(Scratch& scratch) const;

  BytePairModel model_;
  using Ids = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;
  Ids names_{}, texts_{};  // of added tokens; of the others by their bytes
  NameFinder found_raw_{}, found_prepared_{};
  std::array<std::int32_t, 256> byte_tokens_{};
  MergeTable merges_{};
  std::vector<bool> whole_{};  // of each token: a piece of its bytes is encoded as it alone
};

// The character that stands for a byte in tokenizer.json, in GPT-2's way: itself where that can be
// seen, as in "a" and "é", else one from U+0100 on, as "Ġ" for the space.
char32_t visible_character(std::uint8_t byte);
std::string visible_text(std::string_view bytes);
// The bytes that a text of such characters stands for; nothing where it has another one.
std::optional<std::string> bytes_of_visible(std::string_view text);

}  // namespace tapestry
