#include "data/text/character_json.hpp"

#include "autograd/check.hpp"
#include "data/json.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using Ordered = JsonValue;

constexpr const char* model_type = "WordLevel";

// Each symbol at the place of its number; empty where the numbers are not those of a list.
std::vector<std::string> symbols_of(const JsonValue& vocabulary) {
  std::vector<std::string> symbols(vocabulary.size());
  for (const auto& [symbol, number] : vocabulary.items()) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= symbols.size()) return {};
    symbols[number.get<std::uint64_t>()] = symbol;
  }
  return symbols;
}

}  // namespace

std::string character_tokenizer_json(const CharVocabulary& vocabulary) {
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
      {"model", {{"type", model_type}, {"vocab", symbols}, {"unk_token", "<unk>"}}}};
  return root.dump(1) + "\n";
}

std::optional<CharVocabulary> vocabulary_of_characters(std::string_view json,
                                                       const std::string& path) {
  if (json.find(model_type) == json.npos) return std::nullopt;
  const Json root = parse_json(json, path);
  const Json model = root.is_object() ? root.value("model", Json()) : Json();
  if (!model.is_object() || model.value("type", Json()) != model_type) return std::nullopt;
  const Json vocabulary = model.value("vocab", Json());
  expect_input(vocabulary.is_object(), "{}: the vocab of its model: expected an object", path);
  std::optional<CharVocabulary> characters;
  try {
    characters.emplace(symbols_of(vocabulary));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path, error.what()));
  }
  expect_input(characters->size() > 0 && Json::parse(character_tokenizer_json(*characters)) == root,
               "{}: a model of whole words; of these only one that cuts single characters, as ours "
               "are written, can be read",
               path);
  return characters;
}

}  // namespace tapestry
