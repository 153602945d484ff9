#pragma once

#include <string>

#include "data/text/text.hpp"

namespace tapestry {

// Hugging Face's tokenizer.json of a vocabulary of characters: `tokenizers` encodes and decodes by
// it as the vocabulary does. A character that is no symbol is an error there too.
std::string character_tokenizer_json(const CharVocabulary& vocabulary);

}  // namespace tapestry
