#include <algorithm>
#include <stdexcept>

#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "tests/fuzz/target.hpp"

namespace tapestry {
namespace {

// Returns whether every text is decoded to its prepared form: each byte is a token, and no name in
// the text separates characters that are composed.
bool gives_back(const BytePairTokenizer& tokenizer) {
  const BytePairModel& model = tokenizer.model();
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    const std::int32_t token = tokenizer.find({&bytes, 1});
    if (token < 0 || model.special[token]) return false;
  }
  return std::ranges::all_of(model.added,
                             [&](const AddedToken& added) { return model.special[added.token]; });
}

// A tokenizer is written as it was read. The text after the first zero byte is decoded unchanged,
// and its parts have its tokens where it may be cut.
const RegisterFuzzTarget byte_pairs("tokenizer", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  const auto tokenizer = BytePairTokenizer::from_json(parts.front(), "tokenizer.json");
  const std::string written = tokenizer.to_json();
  if (BytePairTokenizer::from_json(written, "written").to_json() != written)
    throw std::logic_error("tokenizer: another tokenizer came back");

  const std::string text(parts.size() > 1 ? parts[1] : "to be, or not to be: 42 \u00E9\n");
  tokenizer.encode(text, {.added_tokens = true, .with_template = true});
  const auto tokens = tokenizer.encode(text);
  const std::string known = prepared(text, tokenizer.model().pieces);
  if (gives_back(tokenizer) && !tokenizer.decode(tokens).ends_with(known))
    throw std::logic_error("tokenizer: another text came back");

  const std::size_t cut = tokenizer.last_cut(text);
  auto apart = tokenizer.encode(text.substr(0, cut));
  const auto rest = tokenizer.encode(text.substr(cut));
  apart.insert(apart.end(), rest.begin(), rest.end());
  if (apart != tokens) throw std::logic_error("tokenizer: a cut text has other tokens");
});

const RegisterFuzzTarget characters("character-tokenizer", [](std::string_view bytes) {
  const auto vocabulary = vocabulary_of_characters(bytes, "tokenizer.json");
  if (!vocabulary) return;
  const auto again = vocabulary_of_characters(character_tokenizer_json(*vocabulary), "written");
  if (!again || again->symbols() != vocabulary->symbols())
    throw std::logic_error("character tokenizer: another vocabulary came back");
});

}  // namespace
}  // namespace tapestry
