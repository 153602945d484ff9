#pragma once

#include <string>
#include <vector>

#include "autograd/array.hpp"

namespace tapestry {

// Words and their vectors (V, C), float32.
struct WordVectors {
  std::vector<std::string> words{};
  Array vectors{};
};

// Reads vectors in the text format of word2vec, plain or gzip: a line with V and C, and V lines
// with a word and C numbers, separated by spaces. Throws InputError for other numbers of lines or
// numbers, for a word that occurs twice, and as read_text() does; V · C is compared with the size
// of the text before memory is allocated.
WordVectors read_word_vectors(const std::string& path);

// Returns vectors in this format.
std::string word_vectors_text(const WordVectors& vectors);

}  // namespace tapestry
