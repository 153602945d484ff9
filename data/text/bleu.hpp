#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

struct BleuOptions {
  bool lower_case = false;  // convert both sides by lower_case(), see data/text/unicode.hpp
};

struct BleuScore {
  double score = 0;  // 0 to 100
  // Precision of n-grams for n = 1 to 4, in percent; smoothed if zero, unless all are zero.
  std::array<double, 4> precisions{};
  double brevity_penalty = 0;
  std::int64_t hypothesis_tokens = 0;
  std::int64_t reference_tokens = 0;
};

// Returns the corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it by default (Post 2018),
// signature nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp, or case:lc: one reference for each
// hypothesis, in UTF-8, 4-grams, a brevity penalty, and zero counts smoothed by 1/2, 1/4, … of a
// match. Throws std::invalid_argument for different numbers of hypotheses and references, and for
// text that is not UTF-8.
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references, const BleuOptions& options = {});

// Returns sacreBLEU's signature of corpus_bleu(), without the version.
std::string bleu_signature(const BleuOptions& options = {});

// Returns the tokens of mteval-v13a, the tokenizer of that signature: resolves entities such as
// &quot; and separates punctuation, but not periods and commas between digits, nor hyphens between
// letters. Throws std::invalid_argument for text that is not UTF-8.
std::vector<std::string> tokenize_13a(std::string_view line);

}  // namespace tapestry
