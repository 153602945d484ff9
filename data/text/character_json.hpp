#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/text/text.hpp"

namespace tapestry {

// Hugging Face's tokenizer.json of a vocabulary of characters: `tokenizers` encodes and decodes by
// it as the vocabulary does. A character that is no symbol is an error there too.
std::string character_tokenizer_json(const CharVocabulary& vocabulary);

// The vocabulary of such a file; nothing where its model is not of whole words, "WordLevel".
// InputError where it is, but cuts words otherwise than by characters.
std::optional<CharVocabulary> vocabulary_of_characters(std::string_view json,
                                                       const std::string& path);

}  // namespace tapestry
