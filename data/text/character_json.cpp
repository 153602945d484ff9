#include "data/text/character_json.hpp"

#include <nlohmann/json.hpp>

namespace tapestry {

std::string character_tokenizer_json(const CharVocabulary& vocabulary) {
  using Ordered = nlohmann::ordered_json;
  Ordered::object_t symbols;
  for (const std::string& symbol : vocabulary.symbols())
    symbols.emplace_back(symbol, symbols.size());
  const Ordered each_character = {{"type", "Split"},
                                  {"pattern", {{"Regex", "[\\s\\S]"}}},
                                  {"behavior", "Isolated"},
                                  {"invert", false}};
  // The unknown token is required to have a name, and is none: no symbol is that long.
  const Ordered root = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Ordered::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer", each_character},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", symbols}, {"unk_token", "<unk>"}}}};
  return root.dump(1) + "\n";
}

}  // namespace tapestry
