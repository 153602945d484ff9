#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tapestry {

// Returns the words of a text in lower case: runs of letters and digits, and each ideograph alone.
std::vector<std::string> words_of(std::string_view text);

// The words of texts, with weights by which a text becomes a vector of length 1 (TF-IDF): the
// number of a word in the text times ln((1 + N) / (1 + n)) + 1 of a word in n of N texts, as in
// scikit-learn's TfidfVectorizer.
class BagOfWords {
 public:
  // Knows at most `most` words, those of most texts.
  BagOfWords(std::span<const std::string> texts, std::int64_t most);

  std::int64_t size() const { return std::ssize(weights_); }
  // Returns (number of a word, value), ascending, of the words that are known.
  std::vector<std::pair<std::int32_t, double>> row(std::string_view text) const;

 private:
  std::unordered_map<std::string, std::int32_t> numbers_{};
  std::vector<double> weights_{};
};

}  // namespace tapestry
