#include "data/text/text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

void check_length(const TextRange& range) {
  const bool overlapping = range.windows == Windows::overlapping;
  const std::int64_t needed = overlapping ? range.context + 1 : 2;
  expect_option(range.end - range.begin >= needed, overlapping ? "context" : "end",
                "{}: the {} split has {}; expected at least {} with a context of {}", range.path,
                range.split, counted(range.end - range.begin, "token"), needed, range.context);
}

}  // namespace

CharVocabulary::CharVocabulary(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const std::string& symbol = symbols_[i];
    const CodePoint point = symbol.empty() ? CodePoint{0, 0} : code_point_at(symbol, 0);
    expect_input(point.bytes > 0 && point.bytes == std::ssize(symbol),
                 "vocabulary: symbol {} is not one UTF-8 character; the list is damaged, copy or "
                 "create it again",
                 i);
    if (point.value >= tokens_.size()) tokens_.resize(point.value + 1, -1);
    expect_input(
        tokens_[point.value] < 0,
        "vocabulary: symbols {} and {} are the same; the list is damaged, copy or create it again",
        i, tokens_[point.value]);
    tokens_[point.value] = static_cast<std::int32_t>(i);
  }
}

CharVocabulary CharVocabulary::of_text(std::string_view text) {
  std::vector<std::string_view> seen;  // indexed by code point
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    require(point.bytes > 0, "CharVocabulary::of_text: byte {} is not UTF-8; expected UTF-8 text",
            offset);
    const auto bytes = point.bytes;
    if (point.value >= seen.size()) seen.resize(point.value + 1);
    seen[point.value] = text.substr(offset, bytes);
    offset += bytes;
  }
  std::vector<std::string> symbols;
  for (const std::string_view symbol : seen)
    if (!symbol.empty()) symbols.emplace_back(symbol);
  return CharVocabulary(std::move(symbols));
}

std::vector<std::int32_t> CharVocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const bool known = point.bytes > 0 && point.value < tokens_.size() && tokens_[point.value] >= 0;
    if (!known) throw_unknown(text, offset);
    tokens.push_back(tokens_[point.value]);
    offset += point.bytes;
  }
  return tokens;
}

void CharVocabulary::throw_unknown(std::string_view text, std::size_t offset) const {
  const CodePoint point = code_point_at(text, offset);
  expect_input(point.bytes > 0, "text: byte {}: is not UTF-8; convert the text to UTF-8", offset);
  std::string known;
  for (const std::string& symbol : symbols_) known += printable(symbol);
  if (symbols_.size() > 100) known = "characters of the text that the model was trained on";
  throw InputError(fmt::format(
      "text: byte {}: character '{}' (U+{:04X}) is not in the vocabulary of {}; use only {}",
      offset, printable(text.substr(offset, point.bytes)), static_cast<std::uint32_t>(point.value),
      size(), known));
}

std::string CharVocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < size(), "CharVocabulary::decode: token {}; expected 0 to {}",
            token, size() - 1);
    text += symbols_[token];
  }
  return text;
}

// --- a vocabulary of characters as tokenizer.json ---

namespace {

using Json = JsonValue;

constexpr const char* model_type = "WordLevel";

// Returns the symbols in the order of their numbers; empty if a number is not below their count.
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
  Json::object_t symbols;
  for (const std::string& symbol : vocabulary.symbols())
    symbols.emplace_back(symbol, symbols.size());
  const Json each_character = {{"type", "Split"},
                               {"pattern", {{"Regex", "[\\s\\S]"}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
  // The name of an unknown token is required; it is not a symbol, because these are one character.
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", Json::array()},
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
  Json root = parse_json(json, path);
  const Json model = root.is_object() ? root.value("model", Json()) : Json();
  if (!model.is_object() || model.value("type", Json()) != model_type) return std::nullopt;
  const Json vocabulary = model.value("vocab", Json());
  expect_input(vocabulary.is_object(),
               "{}: /model/vocab: expected an object, found {}; copy or create the file again",
               path, brief(vocabulary));
  std::optional<CharVocabulary> characters;
  try {
    characters.emplace(symbols_of(vocabulary));
  } catch (const InputError&) {
    throw InputError(fmt::format(
        "{}: /model/vocab: expected single characters, numbered from 0 on, as tapestry export "
        "writes them, or byte-level BPE; give another tokenizer.json",
        path));
  }
  root["truncation"] = root["padding"] = nullptr;  // settings of an earlier use
  expect_input(characters->size() > 0 && Json::parse(character_tokenizer_json(*characters)) == root,
               "{}: the WordLevel model is not as tapestry export writes one; expected single "
               "characters and no other settings, or byte-level BPE; give another tokenizer.json",
               path);
  return characters;
}

// --- texts ---

CutTexts cut_texts(std::vector<Text> texts, std::int64_t byte) {
  CutTexts cut;
  for (Text& text : texts) {
    std::string& content = text.content;
    if (byte >= std::ssize(content)) {
      byte -= std::ssize(content);
      cut.before.push_back(std::move(content));
      continue;
    }
    byte = static_cast<std::int64_t>(whole_characters(content, byte));
    if (byte > 0) cut.before.push_back(content.substr(0, byte));
    cut.after.push_back(content.substr(byte));
    cut.cuts_a_text = cut.cuts_a_text || byte > 0;
    byte = 0;
  }
  return cut;
}

TextDataset::TextDataset(std::shared_ptr<const TokenStream> tokens, TextRange range)
    : tokens_(std::move(tokens)), range_(std::move(range)) {
  const std::int64_t total = tokens_->size();
  require(0 <= range_.begin && range_.begin <= range_.end && range_.end <= total,
          "TextDataset: tokens [{}, {}); expected a range within 0 to {}", range_.begin, range_.end,
          total);
  require(range_.context >= 1, "TextDataset: context = {}; expected at least 1", range_.context);
  check_length(range_);
}

std::int64_t TextDataset::size() const {
  const std::int64_t predictable = range_.end - range_.begin - 1;
  if (range_.windows == Windows::overlapping) return predictable - range_.context + 1;
  return (predictable + range_.context - 1) / range_.context;
}

Batch TextDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t T = range_.context;
  const std::int64_t stride = range_.windows == Windows::overlapping ? 1 : T;
  std::vector<std::int32_t> tokens;
  const auto row = [&](std::int64_t b) -> const std::vector<std::int32_t>& {
    const std::int64_t example = examples[b];
    require_example("TextDataset", example);
    const std::int64_t start = range_.begin + example * stride;
    tokens.resize(std::min(T + 1, range_.end - start));
    tokens_->read(start, tokens);
    return tokens;
  };
  return next_token_batch({std::ssize(examples), T}, row);
}

void TextDataset::add_to(Checksum& sum) const { tokens_->add_to(sum, range_.begin, range_.end); }

}  // namespace tapestry
