#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "autograd/check.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/convert/gguf_tokens.hpp"

namespace tapestry {
namespace {

using namespace gguf;
const char* pattern_name(const BytePairTokenizer& tokenizer) {
  const BytePairModel& model = tokenizer.model();
  const auto found = std::ranges::find_if(pattern_names, [&](const PatternName& name) {
    return name.pattern == model.pieces.pattern &&
           (name.whole_first == model.whole_first ||
            (model.whole_first && tokenizer.merges_suffice()));
  });
  expect_input(
      found != std::end(pattern_names),
      "--format gguf: the tokenizer has ignore_merges = true, which llama.cpp supports only with "
      "Llama 3's pre-tokenizer; use --format huggingface");
  return found->name;
}

void expect_supported(bool holds, const std::string& what) {
  expect_input(holds,
               "--format gguf: the tokenizer {}, which llama.cpp does not support; use --format "
               "huggingface",
               what);
}

// Throws InputError for what llama.cpp's tokenizer "gpt2" does not support.
void expect_supported(const BytePairTokenizer& tokenizer) {
  const BytePairModel& model = tokenizer.model();
  bool has_all_bytes = true;
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    has_all_bytes = has_all_bytes && tokenizer.find({&bytes, 1}) >= 0;
  }
  expect_supported(!model.pieces.lower_case, "converts texts to lower case");
  expect_supported(!model.space_before, "adds a space before texts");
  expect_supported(model.unknown < 0 || has_all_bytes, "replaces bytes that are not tokens");
  expect_supported(model.before.size() <= 1 && model.after.size() <= 1,
                   "adds several tokens before or after texts");
}

struct TokenList {
  std::vector<std::string> names{};
  std::vector<std::int32_t> kinds{};
};

// Appends names that begin with `begins` for the rows of the embedding that are not tokens.
void fill_up(TokenList& list, std::int64_t rows, const char* begins) {
  const std::unordered_set<std::string> taken(list.names.begin(), list.names.end());
  for (std::int64_t row = std::ssize(list.names); row < rows; ++row) {
    std::string name = fmt::format("{}[PAD{}]", begins, row);
    while (taken.contains(name)) name += '_';
    list.names.push_back(std::move(name));
    list.kinds.push_back(unused);
  }
}

TokenList list_of(const BytePairModel& model, std::int64_t rows) {
  TokenList list;
  for (const std::string& token : model.tokens) list.names.push_back(visible_text(token));
  list.kinds.assign(model.tokens.size(), normal);
  for (const AddedToken& added : model.added) {
    list.names[added.token] = model.tokens[added.token];
    list.kinds[added.token] = model.special[added.token] ? control : user_defined;
  }
  fill_up(list, rows, "");
  return list;
}

// Returns the id of a special token that import stored, if the model has such a row.
std::optional<std::int64_t> kept_number(const LanguageModel& task, const char* name) {
  const JsonValue number = kept_special_tokens(task.metadata()).value(name, JsonValue());
  if (!number.is_number_unsigned() || number >= task.vocabulary()) return std::nullopt;
  return number.get<std::int64_t>();
}

// Returns a token that occurs in no text. If no field names an end token, llama.cpp uses token 11.
// Throws InputError if there is no such token.
std::int32_t harmless_end(const TokenList& list) {
  const auto found = std::ranges::find_if(
      list.kinds, [](std::int32_t kind) { return kind == control || kind == unused; });
  expect_input(found != list.kinds.end(),
               "--format gguf: the tokenizer has no end-of-text token and no special token, so "
               "llama.cpp ends texts at token 11; use --format huggingface");
  return static_cast<std::int32_t>(found - list.kinds.begin());
}

void add_number(GgufTokens& tokens, const char* field, std::int64_t number) {
  tokens.fields.push_back({field, static_cast<std::uint32_t>(number)});
}

void add_list(GgufTokens& tokens, const char* model, const char* pattern, TokenList list) {
  tokens.fields.push_back({model_field, std::string(model)});
  if (pattern) tokens.fields.push_back({pattern_field, std::string(pattern)});
  tokens.fields.push_back({tokens_field, std::move(list.names)});
  tokens.fields.push_back({kinds_field, std::move(list.kinds)});
}

void add_template(GgufTokens& tokens, const LanguageModel& task) {
  std::optional<std::string> jinja = trained_jinja(task);
  try {
    if (!jinja) jinja = carried_jinja(task.metadata());
    if (!jinja->empty()) tokens.fields.push_back({template_field, *jinja});
  } catch (const InputError& error) {
    tokens.notes.push_back(fmt::format("the file has no chat template: {}", error.what()));
  }
}

GgufTokens of_byte_pairs(const LanguageModel& task, const BytePairTokenizer& tokenizer) {
  expect_supported(tokenizer);
  const BytePairModel& model = tokenizer.model();
  GgufTokens tokens;
  TokenList list = list_of(model, task.vocabulary());
  std::vector<std::string> merges;
  for (const auto& [left, right] : model.merges)
    merges.push_back(list.names[left] + " " + list.names[right]);
  const std::vector<std::int32_t> ends = end_tokens(task);
  const std::int32_t end = ends.empty() ? harmless_end(list) : ends.front();
  expect_supported(model.after.empty() || model.after.front() == end,
                   "adds a token after each text that is not its end-of-text token");
  add_list(tokens, byte_pairs, pattern_name(tokenizer), std::move(list));
  tokens.fields.push_back({merges_field, std::move(merges)});
  const std::int64_t begin = kept_number(task, "bos_token_id").value_or(end);
  add_number(tokens, bos_field, model.before.empty() ? begin : model.before.front());
  add_number(tokens, eos_field, end);
  if (ends.size() > 1) add_number(tokens, eot_field, ends[1]);
  if (const auto pad = kept_number(task, "pad_token_id")) add_number(tokens, pad_field, *pad);
  tokens.fields.push_back({add_bos_field, !model.before.empty()});
  tokens.fields.push_back({add_eos_field, !model.after.empty()});
  tokens.fields.push_back({composes_field, model.pieces.compose});
  if (model.pieces.compose)
    tokens.notes.emplace_back(
        "the tokenizer composes characters (NFC), llama.cpp does not: give llama.cpp composed "
        "texts");
  if (ends.size() > 2)
    tokens.notes.push_back(fmt::format("texts end at the tokens {}: the file names the first two",
                                       fmt::join(ends, ", ")));
  add_template(tokens, task);
  return tokens;
}

// Returns the tokenizer of names, which begin and end with the first symbol, a newline. Merges
// compose a character of several bytes; their intermediate results are not tokens.
GgufTokens of_names(const CharVocabulary& vocabulary, std::int64_t rows) {
  GgufTokens tokens;
  TokenList list;
  std::vector<std::string> merges;
  std::unordered_set<std::string> made;
  for (const std::string& symbol : vocabulary.symbols()) {
    list.names.push_back(visible_text(symbol));
    list.kinds.push_back(normal);
    for (std::size_t bytes = 1; bytes < symbol.size(); ++bytes)
      if (made.insert(symbol.substr(0, bytes + 1)).second)
        merges.push_back(visible_text(symbol.substr(0, bytes)) + " " +
                         visible_text(symbol.substr(bytes, 1)));
  }
  fill_up(list, rows, "");
  add_list(tokens, byte_pairs, "gpt-2", std::move(list));
  tokens.fields.push_back({merges_field, std::move(merges)});
  add_number(tokens, bos_field, 0);
  add_number(tokens, eos_field, 0);
  tokens.fields.push_back({add_bos_field, true});
  tokens.fields.push_back({add_eos_field, false});
  tokens.fields.push_back({names_field, true});
  return tokens;
}

// Returns a symbol in the escaped form of RWKV's token lists.
std::string escaped(std::string_view symbol) {
  if (symbol == "\\") return "\\\\";
  const auto byte = static_cast<unsigned char>(symbol.front());
  return byte < ' ' || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(symbol);
}

GgufTokens of_characters(const CharVocabulary& vocabulary, std::int64_t rows) {
  GgufTokens tokens;
  TokenList list;
  for (const std::string& symbol : vocabulary.symbols()) list.names.push_back(escaped(symbol));
  list.kinds.assign(list.names.size(), normal);
  fill_up(list, rows, "\\xff");  // no text contains this byte
  add_list(tokens, longest_match, nullptr, std::move(list));
  if (std::ranges::any_of(vocabulary.symbols(),
                          [](const std::string& symbol) { return symbol.size() > 1; }))
    tokens.notes.emplace_back(
        "give llama.cpp only texts of characters that the model knows: with other "
        "characters its tokenizer may not finish");
  return tokens;
}

}  // namespace

GgufTokens gguf_tokens(const LanguageModel& task) {
  const CharVocabulary* characters = task.tokenizer().characters();
  if (!characters) return of_byte_pairs(task, *task.tokenizer().byte_pairs());
  return task.writes_names() ? of_names(*characters, task.vocabulary())
                             : of_characters(*characters, task.vocabulary());
}

}  // namespace tapestry
