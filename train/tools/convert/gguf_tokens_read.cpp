#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ranges>
#include <unordered_set>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tools/convert/gguf_tokens.hpp"

namespace tapestry {
namespace {

using namespace gguf;
using Json = JsonValue;

// Returns the bytes of a token that is in the escaped form of RWKV's token lists.
std::string unescaped(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      bytes += text[i];
      continue;
    }
    const char kind = text[++i];
    const std::string_view digits = text.substr(i + 1, 2);
    const std::size_t named = std::string_view("tnr").find(kind);
    std::uint8_t byte = 0;
    if (kind == 'x' && digits.size() == 2 &&
        std::from_chars(digits.begin(), digits.end(), byte, 16).ptr == digits.end()) {
      bytes += static_cast<char>(byte);
      i += 2;
    } else {
      bytes += named == std::string_view::npos ? kind : "\t\n\r"[named];
    }
  }
  return bytes;
}

class TokenReader final {
 public:
  TokenReader(Fields& fields, const std::string& path) : fields_(fields), path_(path) {}

  ImportedTokens read(std::int64_t& rows) {
    const std::string model = fields_.text(model_field, "");
    if (model != byte_pairs && model != longest_match)
      fields_.fail(model_field, fmt::format("\"{}\" (byte pairs) or \"{}\" (characters; "
                                            "SentencePiece is not supported)",
                                            byte_pairs, longest_match));
    read_list();
    rows = std::ssize(names_);
    while (!kinds_.empty() && kinds_.back() == unused) {
      kinds_.pop_back();
      names_.pop_back();
    }
    if (names_.empty()) fields_.fail(tokens_field, "at least one used token");
    ignore();
    if (model == longest_match) return read_characters(unescaped);
    if (!fields_.flag(names_field, false)) return read_byte_pairs(rows);
    ImportedTokens tokens = read_characters(
        [](const std::string& name) { return bytes_of_visible(name).value_or(""); });
    tokens.settings = {{"data.kind", std::string("names")}};
    return tokens;
  }

 private:
  void ignore() {
    // These fields do not change the tokens of a text, or Tapestry does not support them.
    fields_.ignore({"tokenizer.ggml.scores", "tokenizer.ggml.token_type_count",
                    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.seperator_token_id",
                    "tokenizer.ggml.cls_token_id", "tokenizer.ggml.mask_token_id",
                    "tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pre_token_id",
                    "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id",
                    "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                    "tokenizer.ggml.fim_sep_token_id", "tokenizer.ggml.add_space_prefix",
                    "tokenizer.huggingface.json", "tokenizer.chat_templates"});
    // Only read_byte_pairs reads the fields of byte pairs.
    fields_.ignore({names_field, pattern_field, merges_field, bos_field, eos_field, eot_field,
                    pad_field, add_bos_field, add_eos_field, template_field, composes_field});
    fields_.expect("tokenizer.ggml.add_sep_token", {false});
    fields_.expect("tokenizer.ggml.remove_extra_whitespaces", {false});
  }

  void read_list() {
    const Json& tokens = fields_.list(tokens_field);
    for (const Json& token : tokens) {
      if (!token.is_string()) fields_.fail(tokens_field, "a list of strings");
      names_.push_back(token.get<std::string>());
    }
    kinds_.assign(names_.size(), normal);
    if (!fields_.optional_list(kinds_field)) return;
    const Json& kinds = fields_.list(kinds_field);
    if (kinds.size() != names_.size())
      fields_.fail(kinds_field, fmt::format("{} numbers, one for each token, instead of {}",
                                            names_.size(), kinds.size()));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!kinds[i].is_number_unsigned() || kinds[i] < static_cast<int>(normal) ||
          kinds[i] > static_cast<int>(unused))
        fields_.fail(kinds_field, fmt::format("numbers from 1 to 5, of which number {} is {}", i,
                                              brief(kinds[i])));
      kinds_[i] = kinds[i].get<std::int32_t>();
    }
  }

  std::optional<std::uint32_t> token(const char* field, std::int64_t rows) {
    const std::optional<std::int64_t> number = fields_.optional_count(field, 0);
    if (!number) return std::nullopt;
    if (*number >= rows) fields_.fail(field, fmt::format("the number of a token, below {}", rows));
    return static_cast<std::uint32_t>(*number);
  }

  template <class BytesOf>
  ImportedTokens read_characters(BytesOf bytes_of) {
    std::vector<std::string> symbols;
    for (const std::string& name : names_) symbols.push_back(bytes_of(name));
    try {
      const CharVocabulary vocabulary(symbols);
      ImportedTokens tokens;
      tokens.metadata["vocabulary"] = Json(vocabulary.symbols()).dump();
      return tokens;
    } catch (const InputError& error) {
      throw InputError(fmt::format(
          "{}: {}: {}; expected single characters, as Tapestry writes them; use another file",
          path_, tokens_field, error.what()));
    }
  }

  const PatternName& read_pattern() {
    const std::string name = fields_.text(pattern_field, "");
    const auto* found =
        std::ranges::find(pattern_names, std::string_view(name), &PatternName::name);
    if (found != std::end(pattern_names)) return *found;
    const auto known = pattern_names | std::views::transform(&PatternName::name);
    fields_.fail(pattern_field, fmt::format("one of {}", fmt::join(known, ", ")));
  }

  // Returns the tokenizer as a tokenizer.json, which is checked by its reader.
  std::string json_of(const PatternName& pattern) {
    BytePairModel empty{.whole_first = pattern.whole_first};
    empty.pieces.pattern = pattern.pattern;
    empty.pieces.compose = fields_.flag(composes_field, pattern.pattern == PiecePattern::qwen2);
    Json root = Json::parse(BytePairTokenizer(std::move(empty)).to_json());
    // Special tokens at the end of the list become added tokens, as in published files.
    std::size_t listed = names_.size();
    while (listed > 0 && kinds_[listed - 1] != normal) --listed;
    Json::object_t vocabulary;
    for (std::size_t id = 0; id < listed; ++id) vocabulary.emplace_back(names_[id], id);
    std::unordered_set<std::string_view> seen(names_.begin(), names_.end());
    if (seen.size() != names_.size()) fields_.fail(tokens_field, "different tokens");
    root["model"]["vocab"] = std::move(vocabulary);
    root["model"]["merges"] = fields_.list(merges_field);
    for (std::size_t id = 0; id < names_.size(); ++id)
      if (kinds_[id] != normal)
        root["added_tokens"].push_back({{"id", id},
                                        {"content", names_[id]},
                                        {"normalized", false},
                                        {"special", kinds_[id] != user_defined}});
    return root.dump();
  }

  // Returns the tokens that are added to texts if the flag is set.
  std::vector<std::int32_t> added(const char* flag, bool usually,
                                  std::optional<std::uint32_t> token) {
    if (!fields_.flag(flag, usually)) return {};
    if (!token || *token >= names_.size())
      fields_.fail(flag, "false, or a field with the number of the token to add");
    return {static_cast<std::int32_t>(*token)};
  }

  ImportedTokens read_byte_pairs(std::int64_t rows) {
    const PatternName& pattern = read_pattern();
    const auto begin = token(bos_field, rows), end = token(eos_field, rows),
               turn = token(eot_field, rows), pad = token(pad_field, rows);
    BytePairModel model =
        BytePairTokenizer::from_json(json_of(pattern), path_ + " (tokens as a tokenizer.json)")
            .model();
    model.before = added(add_bos_field, pattern.whole_first, begin);
    model.after = added(add_eos_field, false, end);
    const BytePairTokenizer tokenizer(std::move(model));
    ImportedTokens tokens;
    tokens.metadata["tokenizer"] = tokenizer.to_json();
    if (end && *end < names_.size())
      tokens.settings["data.end_of_text"] = tokenizer.model().tokens[*end];
    Json kept = Json::object();
    if (begin) kept["bos_token_id"] = *begin;
    if (pad) kept["pad_token_id"] = *pad;
    if (end) kept["eos_token_id"] = turn ? Json({*end, *turn}) : Json(*end);
    keep_special_tokens(kept, {path_, kept.value("eos_token_id", Json())}, tokens.metadata);
    if (const std::string text = fields_.text(template_field, ""); !text.empty())
      tokens.metadata[kept_file("chat_template.jinja")] = text;
    return tokens;
  }

  Fields& fields_;
  const std::string& path_;
  std::vector<std::string> names_{};
  std::vector<std::int32_t> kinds_{};
};

}  // namespace

ImportedTokens read_gguf_tokens(Fields& fields, const std::string& path, std::int64_t& rows) {
  return TokenReader(fields, path).read(rows);
}

}  // namespace tapestry
