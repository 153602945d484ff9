#pragma once

#include <string>

#include "data/text/tokenizer.hpp"
#include "layers/module.hpp"
#include "train/config/config.hpp"

namespace tapestry {

namespace key {
inline const Key<std::string> initial_embeddings{
    "model.embeddings", "",
    "file of word vectors, in the text format of word2vec, that are the initial embeddings of the "
    "tokens that are these words; empty: none"};
}  // namespace key

// Sets the rows of the model's first embedding whose tokens, without white space around them and in
// lower case, are words of the file model.embeddings. Returns "812 of 2000 tokens begin with
// vectors of FILE", or "" if the key is empty. Throws InputError for another width than the
// model's, if no token is a word of the file, and as read_word_vectors() does.
std::string set_initial_embeddings(const Config& config, const Tokenizer& tokenizer, Module& model);

// Returns both remarks on one line.
inline std::string joined_remarks(const std::string& one, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : "; ") + other;
}

}  // namespace tapestry
