#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/random.hpp"
#include "data/dataset.hpp"

// Words of a text, and the pairs of them from which skip-grams with negative sampling learn
// (Mikolov et al. 2013, arXiv 1310.4546).
namespace tapestry {

struct WordVocabularyOptions {
  std::int64_t minimum_count = 5;    // words that occur less often are left out
  std::int64_t vocabulary = 100000;  // at most so many words, the most frequent ones
};

// The words of a text in lower case, the most frequent first, and how often each occurs.
struct WordVocabulary {
  std::vector<std::string> words{};
  std::vector<std::int64_t> counts{};

  // Counts the words of lines. Throws OptionError of "minimum_count" if fewer than two are left.
  static WordVocabulary of(std::span<const std::string> lines,
                           const WordVocabularyOptions& options);
};

// The known words of lines, each an example: inputs (B, 2 R) int32, the R known words before it,
// the nearest first, and the R after it, ignored_target beyond its line; targets (B) int32, the
// word. The count of a batch is 1 / `parts`, so that the objective of a step of so many batches is
// a sum.
class WordWindows final : public Dataset {
 public:
  // Throws OptionError of "path" if no word is known.
  WordWindows(std::span<const std::string> lines, const WordVocabulary& vocabulary,
              std::int64_t reach, std::int64_t parts);

  std::int64_t size() const override { return std::ssize(words_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;

 private:
  std::vector<std::int32_t> words_;   // of all lines
  std::vector<std::int64_t> starts_;  // of each line, and the end
  std::int64_t reach_, parts_;
};

struct SkipGramOptions {
  std::int64_t window = 5;     // W, the most words on each side
  std::int64_t negatives = 5;  // K
  double subsample = 1e-3;     // t; 0: every word is kept
};

// Draws skip-grams. A word with the share f of a text is kept with probability (√(f / t) + 1) t /
// f, as in word2vec's program; the window of a kept word has 1 to W kept words on each side;
// negative words have probabilities in proportion to their counts^0.75.
class SkipGramSampler final {
 public:
  SkipGramSampler(std::span<const std::int64_t> counts, const SkipGramOptions& options);

  // contexts (B, 2 W) and targets (B, 1 + K), int32, as negative_sampling() takes them, and the
  // number of words in `contexts`. A negative word that is the predicted one is left out.
  struct Drawn {
    Array contexts, targets;
    std::int64_t pairs = 0;
  };
  // Draws from a batch of WordWindows with one generator for each example.
  Drawn draw(const Batch& batch, std::span<Random> random) const;

 private:
  bool is_kept(std::int32_t word, Random& random) const { return random.bits() < keep_[word]; }
  std::int64_t draw_window(std::span<const std::int32_t> near, Random& random,
                           std::int32_t* to) const;

  SkipGramOptions options_;
  std::vector<std::uint64_t> keep_;      // 2^32 times the probability of each word
  std::vector<std::uint32_t> negative_;  // the cumulative distribution, times 2^32 - 1
};

}  // namespace tapestry
