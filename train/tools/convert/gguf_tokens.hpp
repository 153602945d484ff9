#pragma once

#include <string>
#include <vector>

#include "data/text/byte_pair.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/fields.hpp"
#include "train/tools/convert/gguf_file.hpp"
#include "train/tools/convert/import.hpp"

// The tokenizer in a GGUF file, that is, its fields tokenizer.*, with which llama.cpp tokenizes
// texts.
namespace tapestry {

struct GgufTokens {
  std::vector<GgufField> fields{};
  std::vector<std::string> notes{};  // messages about differences from llama.cpp
};

// Returns the fields of a model's tokenizer. Byte pairs and the characters of names become
// llama.cpp's tokenizer "gpt2". The characters of texts become "rwkv" (longest match), because it
// is the only one that may lack a token that ends a text. Throws InputError that names what
// llama.cpp does not support.
GgufTokens gguf_tokens(const LanguageModel& task);

// Reads the tokenizer from the fields. Sets `rows` to the number of tokens in the file, which
// equals the number of rows of the embedding. The returned tokens omit unused ones at the end.
// Throws InputError that names the file and the field for an unknown kind of tokenizer or an
// invalid one.
ImportedTokens read_gguf_tokens(Fields& fields, const std::string& path, std::int64_t& rows);

namespace gguf {

// The kinds of tokens in llama.cpp.
enum TokenKind : std::int32_t { normal = 1, unknown, control, user_defined, unused };

inline constexpr const char *model_field = "tokenizer.ggml.model",
                            *pattern_field = "tokenizer.ggml.pre",
                            *tokens_field = "tokenizer.ggml.tokens",
                            *kinds_field = "tokenizer.ggml.token_type",
                            *merges_field = "tokenizer.ggml.merges",
                            *bos_field = "tokenizer.ggml.bos_token_id",
                            *eos_field = "tokenizer.ggml.eos_token_id",
                            *eot_field = "tokenizer.ggml.eot_token_id",
                            *pad_field = "tokenizer.ggml.padding_token_id",
                            *add_bos_field = "tokenizer.ggml.add_bos_token",
                            *add_eos_field = "tokenizer.ggml.add_eos_token",
                            *template_field = "tokenizer.chat_template";
// Fields that llama.cpp does not read.
inline constexpr const char *composes_field = "tapestry.composes", *names_field = "tapestry.names";
// The names of tokenizers in llama.cpp.
inline constexpr const char *byte_pairs = "gpt2", *longest_match = "rwkv";

// The name of a piece pattern in llama.cpp. With some patterns, a piece that is a token is not
// merged.
struct PatternName {
  const char* name;
  PiecePattern pattern;
  bool whole_first = false;
};
inline constexpr PatternName pattern_names[] = {{"gpt-2", PiecePattern::gpt2},
                                                {"smollm", PiecePattern::smollm2},
                                                {"llama-bpe", PiecePattern::llama3, true},
                                                {"llama3", PiecePattern::llama3, true},
                                                {"smaug-bpe", PiecePattern::llama3},
                                                {"qwen2", PiecePattern::qwen2}};

}  // namespace gguf
}  // namespace tapestry
