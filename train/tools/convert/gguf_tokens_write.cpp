#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tools/convert/gguf_token_fields.hpp"
#include "train/tools/convert/gguf_tokens.hpp"
#include "train/tools/convert/published_files.hpp"

namespace tapestry {
namespace {

using namespace gguf;
using Json = JsonValue;

// Whether the tokens of texts are others where a piece that is a token is not taken as it.
bool matters_whole(const BytePairTokenizer& tokenizer) {
  BytePairModel model = tokenizer.model();
  model.whole_first = !model.whole_first;
  const BytePairTokenizer other(std::move(model));
  const auto is_text = [](std::string_view text) {
    for (std::size_t offset = 0; offset < text.size();) {
      const int bytes = code_point_at(text, offset).bytes;
      if (bytes == 0) return false;
      offset += bytes;
    }
    return true;
  };
  for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
    const std::string_view text = tokenizer.bytes_of(token);
    if (is_text(text) && tokenizer.encode(text) != other.encode(text)) return true;
  }
  return false;
}

const char* pattern_name(const BytePairTokenizer& tokenizer) {
  const BytePairModel& model = tokenizer.model();
  const auto find = [&](bool whole_first) {
    return std::ranges::find_if(pattern_names, [&](const PatternName& name) {
      return name.pattern == model.pieces.pattern && name.whole_first == whole_first;
    });
  };
  const PatternName* found = find(model.whole_first);
  if (found != std::end(pattern_names)) return found->name;
  expect_input(!matters_whole(tokenizer),
               "the tokenizer takes pieces that are tokens whole (model.ignore_merges): llama.cpp "
               "does so only with Llama 3's pattern; --format huggingface takes it as it is");
  return find(!model.whole_first)->name;
}

// What llama.cpp's "gpt2" has no way to do.
void expect_as_llama_cpp(const BytePairTokenizer& tokenizer) {
  const BytePairModel& model = tokenizer.model();
  const auto expect = [](bool holds, const char* what) {
    expect_input(holds,
                 "the tokenizer {}: llama.cpp does not; --format huggingface takes it as it is",
                 what);
  };
  expect(!model.pieces.lower_case, "makes lower case of texts");
  expect(!model.space_before, "puts a space before texts");
  bool has_all_bytes = true;
  for (int byte = 0; byte < 256; ++byte) {
    const char bytes = static_cast<char>(byte);
    has_all_bytes = has_all_bytes && tokenizer.find({&bytes, 1}) >= 0;
  }
  expect(model.unknown < 0 || has_all_bytes, "puts a token where a byte is none");
  expect(model.before.size() <= 1 && model.after.size() <= 1,
         "adds several tokens before or after texts");
}

struct TokenList {
  std::vector<std::string> names{};
  std::vector<std::int32_t> kinds{};
};

// Rows of the embedding that are no tokens need names of their own.
void fill_up(TokenList& list, std::int64_t rows, const char* begins) {
  const std::unordered_set<std::string> taken(list.names.begin(), list.names.end());
  for (std::int64_t row = std::ssize(list.names); row < rows; ++row) {
    std::string name = fmt::format("{}[PAD{}]", begins, row);
    while (taken.contains(name)) name += '_';
    list.names.push_back(std::move(name));
    list.kinds.push_back(unused);
  }
}

TokenList list_of(const BytePairTokenizer& tokenizer, std::int64_t rows) {
  const BytePairModel& model = tokenizer.model();
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

std::vector<std::string> merges_of(const BytePairModel& model, const TokenList& list) {
  std::vector<std::string> merges;
  for (const auto& [left, right] : model.merges)
    merges.push_back(list.names[left] + " " + list.names[right]);
  return merges;
}

std::optional<std::int64_t> kept_number(const Metadata& metadata, const char* name) {
  const Json kept = kept_special_tokens(metadata);
  const auto found = kept.find(name);
  if (found == kept.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::int64_t>();
}

// llama.cpp ends a text at token 11 where none is said to: one that no text has is named instead.
std::int32_t harmless_end(const TokenList& list) {
  const auto found = std::ranges::find_if(
      list.kinds, [](std::int32_t kind) { return kind == control || kind == unused; });
  expect_input(found != list.kinds.end(),
               "the tokenizer has no token that ends a text, nor a special one: llama.cpp would "
               "take token 11 for it; --format huggingface takes it as it is");
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

void add_template(GgufTokens& tokens, const LanguageModel& task, const Metadata& metadata) {
  if (std::optional<std::string> own = trained_jinja(task)) {
    tokens.fields.push_back({template_field, *std::move(own)});
    return;
  }
  if (const auto kept = metadata.find(kept_file("chat_template.jinja")); kept != metadata.end()) {
    tokens.fields.push_back({template_field, kept->second});
    return;
  }
  const auto kept = metadata.find(kept_file("tokenizer_config.json"));
  if (kept == metadata.end()) return;
  const Json config = parse_json(kept->second, "tokenizer_config.json");
  expect_input(config.is_object(), "tokenizer_config.json: expected a JSON object");
  const Json found = config.value("chat_template", Json());
  if (found.is_string())
    tokens.fields.push_back({template_field, found.get<std::string>()});
  else if (!found.is_null())
    tokens.notes.emplace_back(
        "the chat templates of tokenizer_config.json, of which llama.cpp knows one, are left out");
}

GgufTokens of_byte_pairs(const LanguageModel& task, const BytePairTokenizer& tokenizer) {
  expect_as_llama_cpp(tokenizer);
  const BytePairModel& model = tokenizer.model();
  const Metadata metadata = task.metadata();
  GgufTokens tokens;
  TokenList list = list_of(tokenizer, task.vocabulary());
  std::vector<std::string> merges = merges_of(model, list);
  const std::vector<std::int32_t> ends = end_tokens(task);
  const std::int32_t end = ends.empty() ? harmless_end(list) : ends.front();
  expect_input(model.after.empty() || model.after.front() == end,
               "the tokenizer adds {} after texts, which is not the token that ends one: llama.cpp "
               "does not; --format huggingface takes it as it is",
               printable(model.tokens[model.after.empty() ? 0 : model.after.front()]));
  add_list(tokens, byte_pairs, pattern_name(tokenizer), std::move(list));
  tokens.fields.push_back({merges_field, std::move(merges)});
  const auto within = [&](std::optional<std::int64_t> number) {
    return number && *number < task.vocabulary() ? number : std::nullopt;
  };
  const auto begin = within(kept_number(metadata, "bos_token_id"));
  add_number(tokens, bos_field, model.before.empty() ? begin.value_or(end) : model.before.front());
  add_number(tokens, eos_field, end);
  if (ends.size() > 1) add_number(tokens, eot_field, ends[1]);
  if (const auto pad = within(kept_number(metadata, "pad_token_id")))
    add_number(tokens, pad_field, *pad);
  tokens.fields.push_back({add_bos_field, !model.before.empty()});
  tokens.fields.push_back({add_eos_field, !model.after.empty()});
  tokens.fields.push_back({composes_field, model.pieces.compose});
  if (model.pieces.compose)
    tokens.notes.emplace_back(
        "the tokenizer composes characters (NFC), llama.cpp does not: give it texts that are");
  if (ends.size() > 2)
    tokens.notes.push_back(fmt::format(
        "texts end at the tokens {}: llama.cpp is told of the first two", fmt::join(ends, ", ")));
  add_template(tokens, task, metadata);
  return tokens;
}

// Names end and begin with the first symbol, the end of a line. A character of several bytes is
// made of these by merges, whose steps are no tokens.
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

// As the lists of RWKV's tokens have it.
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
  fill_up(list, rows, "\\xff");  // no text has this byte
  add_list(tokens, longest_match, nullptr, std::move(list));
  if (std::ranges::any_of(vocabulary.symbols(),
                          [](const std::string& symbol) { return symbol.size() > 1; }))
    tokens.notes.emplace_back(
        "give llama.cpp only texts of characters that the model knows: another one may keep its "
        "tokenizer busy for ever");
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
