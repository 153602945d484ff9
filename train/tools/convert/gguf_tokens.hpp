#pragma once

#include <string>
#include <vector>

#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/fields.hpp"
#include "train/tools/convert/gguf_file.hpp"
#include "train/tools/convert/imported_model.hpp"

// What a GGUF file says of tokens: its fields tokenizer.*, by which llama.cpp cuts texts.
namespace tapestry {

struct GgufTokens {
  std::vector<GgufField> fields{};
  std::vector<std::string> notes{};  // what llama.cpp does otherwise, to be said
};

// Byte pairs, and the characters of names, are its tokenizer "gpt2"; those of texts its "rwkv", of
// the longest token that fits, for only that one need not have a token that ends a text.
// InputError names what llama.cpp could not do as the tokenizer does it.
GgufTokens gguf_tokens(const LanguageModel& task);

// The same back. `rows`, how many the file has, are those of the embedding as well: unused ones at
// the end are no tokens. InputError names the file and the field: another kind of tokenizer, or one
// that is in itself wrong.
ImportedTokens read_gguf_tokens(Fields& fields, const std::string& path, std::int64_t& rows);

}  // namespace tapestry
