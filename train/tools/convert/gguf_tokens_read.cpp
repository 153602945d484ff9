#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tools/convert/gguf_token_fields.hpp"
#include "train/tools/convert/gguf_tokens.hpp"
#include "train/tools/convert/published_files.hpp"

namespace tapestry {
namespace {

using namespace gguf;
using Json = JsonValue;
using Ordered = JsonValue;

std::string unescaped(std::string_view text) {
  std::string bytes;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i + 1);
    if (text[i] != '\\' || rest.empty()) {
      bytes += text[i];
    } else if (rest[0] == 'x' && rest.size() > 2 && digit(rest[1]) >= 0 && digit(rest[2]) >= 0) {
      bytes += static_cast<char>(16 * digit(rest[1]) + digit(rest[2]));
      i += 3;
    } else {
      const std::size_t named = std::string_view("tnr").find(rest[0]);
      bytes += named == std::string_view::npos ? rest[0] : "\t\n\r"[named];
      i += 1;
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
      fields_.fail(model_field, fmt::format("\"{}\", of byte pairs, or \"{}\", of characters "
                                            "(SentencePiece's, \"llama\", is not read)",
                                            byte_pairs, longest_match));
    read_list();
    rows = std::ssize(names_);
    while (!kinds_.empty() && kinds_.back() == unused) {
      kinds_.pop_back();
      names_.pop_back();
    }
    if (names_.empty()) fields_.fail(tokens_field, "tokens that are used");
    ignore();
    const bool names = fields_.flag(names_field, false);
    return model == longest_match ? read_characters(unescaped)
           : names                ? read_names()
                                  : read_byte_pairs(rows);
  }

 private:
  // Known to change no token, or not to be ours to do.
  void ignore() {
    fields_.ignore({"tokenizer.ggml.scores",
                    "tokenizer.ggml.token_type_count",
                    "tokenizer.ggml.unknown_token_id",
                    "tokenizer.ggml.seperator_token_id",
                    "tokenizer.ggml.cls_token_id",
                    "tokenizer.ggml.mask_token_id",
                    "tokenizer.ggml.eom_token_id",
                    "tokenizer.ggml.fim_pre_token_id",
                    "tokenizer.ggml.fim_suf_token_id",
                    "tokenizer.ggml.fim_mid_token_id",
                    "tokenizer.ggml.fim_pad_token_id",
                    "tokenizer.ggml.fim_rep_token_id",
                    "tokenizer.ggml.fim_sep_token_id",
                    "tokenizer.ggml.add_space_prefix",
                    "tokenizer.huggingface.json",
                    "tokenizer.chat_templates",
                    pattern_field,
                    merges_field,
                    bos_field,
                    eos_field,
                    eot_field,
                    pad_field,
                    add_bos_field,
                    add_eos_field,
                    template_field,
                    composes_field});
    fields_.expect("tokenizer.ggml.add_sep_token", {false});
    fields_.expect("tokenizer.ggml.remove_extra_whitespaces", {false});
  }

  void read_list() {
    const Json& tokens = fields_.list(tokens_field);
    for (const Json& token : tokens) {
      if (!token.is_string()) fields_.fail(tokens_field, "a list of texts");
      names_.push_back(token.get<std::string>());
    }
    kinds_.assign(names_.size(), normal);
    if (!fields_.has(kinds_field)) return;
    const Json& kinds = fields_.list(kinds_field);
    if (kinds.size() != names_.size())
      fields_.fail(kinds_field, fmt::format("{} numbers, one for each token", names_.size()));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!kinds[i].is_number_unsigned() || kinds[i] < static_cast<int>(normal) ||
          kinds[i] > static_cast<int>(unused))
        fields_.fail(kinds_field, fmt::format("numbers from 1 to 5, of which number {} is {}", i,
                                              brief(kinds[i])));
      kinds_[i] = kinds[i].get<std::int32_t>();
    }
  }

  std::optional<std::uint32_t> token(const char* field, std::int64_t rows) {
    const std::optional<std::int64_t> number = fields_.optional_number(field);
    if (!number) return std::nullopt;
    if (*number >= rows) fields_.fail(field, fmt::format("a token below {}", rows));
    return static_cast<std::uint32_t>(*number);
  }

  template <class BytesOf>
  ImportedTokens read_characters(BytesOf bytes_of) {
    std::vector<std::string> symbols;
    for (const std::string& name : names_) symbols.push_back(bytes_of(name));
    try {
      const CharVocabulary vocabulary(symbols);
      ImportedTokens tokens{.size = vocabulary.size()};
      tokens.metadata["vocabulary"] = Json(vocabulary.symbols()).dump();
      return tokens;
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("{}: {}: {}; of tokenizers of the longest match only one of "
                      "characters, as ours are written, can be read",
                      path_, tokens_field, error.what()));
    }
  }

  ImportedTokens read_names() {
    ImportedTokens tokens = read_characters(
        [](const std::string& name) { return bytes_of_visible(name).value_or(""); });
    tokens.settings = {{key::corpus_kind.name, key::corpus_kind.name_of(CorpusKind::names)}};
    return tokens;
  }

  const PatternName& read_pattern() {
    const std::string name = fields_.text(pattern_field, "");
    std::vector<std::string> known;
    for (const PatternName& each : pattern_names) {
      if (name == each.name) return each;
      known.emplace_back(each.name);
    }
    fields_.fail(pattern_field, fmt::format("one of {}", fmt::join(known, ", ")));
  }

  // The same as a tokenizer.json, which its own reader checks.
  std::string json_of(const PatternName& pattern, const std::vector<std::uint32_t>& before,
                      const std::vector<std::uint32_t>& after) {
    BytePairModel empty{.whole_first = pattern.whole_first};
    empty.pieces.pattern = pattern.pattern;
    empty.pieces.compose = fields_.flag(composes_field, pattern.pattern == PiecePattern::qwen2);
    Ordered root = Ordered::parse(BytePairTokenizer(std::move(empty)).to_json());
    // Names at the end of the list are added to a vocabulary, as published ones have them.
    std::size_t listed = names_.size();
    while (listed > 0 && kinds_[listed - 1] != normal) --listed;
    Ordered::object_t vocabulary;
    for (std::size_t id = 0; id < listed; ++id) vocabulary.emplace_back(names_[id], id);
    std::unordered_set<std::string_view> seen(names_.begin(), names_.end());
    if (seen.size() != names_.size()) fields_.fail(tokens_field, "tokens that are all different");
    root["model"]["vocab"] = std::move(vocabulary);
    root["model"]["merges"] = fields_.list(merges_field);
    for (std::size_t id = 0; id < names_.size(); ++id)
      if (kinds_[id] != normal)
        root["added_tokens"].push_back({{"id", id},
                                        {"content", names_[id]},
                                        {"normalized", false},
                                        {"special", kinds_[id] != user_defined}});
    root["post_processor"] = template_of(before, after);
    return root.dump();
  }

  Ordered template_of(const std::vector<std::uint32_t>& before,
                      const std::vector<std::uint32_t>& after) const {
    if (before.empty() && after.empty()) return nullptr;
    Ordered steps = Ordered::array(), special = Ordered::object();
    const auto add = [&](const std::vector<std::uint32_t>& tokens) {
      for (const std::uint32_t token : tokens) {
        steps.push_back({{"SpecialToken", {{"id", names_[token]}, {"type_id", 0}}}});
        special[names_[token]] = {{"ids", {token}}};
      }
    };
    add(before);
    steps.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add(after);
    return {{"type", "TemplateProcessing"}, {"single", steps}, {"special_tokens", special}};
  }

  // The token that is added where the flag is set.
  std::vector<std::uint32_t> added(const char* flag, bool usually,
                                   std::optional<std::uint32_t> token) {
    if (!fields_.flag(flag, usually)) return {};
    if (!token || *token >= names_.size()) fields_.fail(flag, "a token that it adds, or false");
    return {*token};
  }

  ImportedTokens read_byte_pairs(std::int64_t rows) {
    const PatternName& pattern = read_pattern();
    const auto begin = token(bos_field, rows), end = token(eos_field, rows),
               turn = token(eot_field, rows), pad = token(pad_field, rows);
    const auto before = added(add_bos_field, pattern.whole_first, begin),
               after = added(add_eos_field, false, end);
    const auto tokenizer = BytePairTokenizer::from_json(json_of(pattern, before, after),
                                                        path_ + ", its tokens as a tokenizer.json");
    ImportedTokens tokens{.size = tokenizer.size()};
    tokens.metadata["tokenizer"] = tokenizer.to_json();
    if (end && *end < names_.size())
      tokens.settings[key::end_of_text.name] = tokenizer.model().tokens[*end];
    Json kept = Json::object();
    if (begin) kept["bos_token_id"] = *begin;
    if (pad) kept["pad_token_id"] = *pad;
    if (end) kept["eos_token_id"] = turn ? Json({*end, *turn}) : Json(*end);
    keep_special_tokens(kept, path_, tokens.metadata);
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
