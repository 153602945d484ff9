#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/special_tokens.hpp"

namespace tapestry {

struct BytePairOptions {
  std::int64_t vocabulary = 8000;  // at most: the special tokens, 256 bytes, and merges
  std::int64_t least_count = 2;    // a pair that occurs less often is not merged
  bool lower_case = false;         // learn and encode lower_case(text), see data/text/unicode.hpp
  std::vector<std::string> special_tokens = {};  // after the usual four; such as "<sep>"
};

// What a tokenizer is made of. The 256 single bytes are among the tokens, in any order.
struct BytePairModel {
  using Pair = std::array<std::int32_t, 2>;  // the left and the right token
  std::vector<std::string> tokens{};         // their bytes, all different
  std::vector<bool> special{};               // of each: it stands for no bytes
  std::vector<Pair> merges{};                // the first applies first; each result is a token
  bool lower_case = false;
};

// Byte-level byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909; over bytes and within
// pieces as in GPT-2, Radford et al. 2019): every text has an encoding, and decode gives it back.
// A trained one has first the four of special_tokens and those of the options, then the bytes in
// GPT-2's order, then a token for each merge that made a new one.
class BytePairTokenizer final {
 public:
  explicit BytePairTokenizer(BytePairModel model);

  // Merges the most frequent pair of neighbouring tokens, again and again; of equally frequent
  // ones that of the smaller left token, then right, as Hugging Face's trainer does. A piece (see
  // byte_level_pieces) does not merge with the next. Little text may not fill the vocabulary.
  // InputError: special tokens that text may spell, not UTF-8; OptionError of "vocabulary": too
  // small.
  static BytePairTokenizer train(std::span<const std::string> texts,
                                 const BytePairOptions& options = {});

  // The same from files of plain text, which are read part by part: memory is taken by their
  // distinct pieces alone, which may be 256 MiB. A piece above 1 MiB counts as several.
  static BytePairTokenizer train_on_files(std::span<const std::string> paths,
                                          const BytePairOptions& options = {});

  // Hugging Face's tokenizer.json: model BPE; ByteLevel pre-tokenizer and decoder; normalizer null
  // or Lowercase; tokens 0 to 3 those of special_tokens. InputError names the file and the field;
  // also above 64 MiB.
  static BytePairTokenizer load(const std::string& path);
  static BytePairTokenizer from_json(std::string_view json, const std::string& path);
  std::string to_json() const;

  std::int64_t size() const { return std::ssize(model_.tokens); }
  const BytePairModel& model() const { return model_; }
  std::int32_t find(std::string_view token) const;  // by its bytes or special name; -1: none

  // A special token's name in the text is read as text: no text can smuggle in <eos>.
  // InputError where the text is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // Leaves special tokens out. Bytes that are not UTF-8 become U+FFFD.
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  struct Step {
    std::int32_t rank;
    std::int32_t result;
  };
  struct Scratch;  // memory of merge(), to be used again
  void merge(std::vector<std::int32_t>& tokens, Scratch& scratch) const;

  BytePairModel model_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> byte_tokens_;
  std::unordered_map<std::uint64_t, Step> steps_;  // by left and right token
};

// What merges do not cross, by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// with the letters, numbers and spaces of data/text/unicode.hpp. Together they are the text
// (UTF-8).
std::vector<std::string_view> byte_level_pieces(std::string_view text);
std::size_t first_piece_bytes(std::string_view text);  // of a text that is not empty

// The character that stands for a byte in tokenizer.json, in GPT-2's way: itself where that can be
// seen, as in "a" and "é", else one from U+0100 on, as "Ġ" for the space.
char32_t visible_character(std::uint8_t byte);

}  // namespace tapestry
