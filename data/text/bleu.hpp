#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

struct BleuOptions {
  bool lower_case = false;  // compare what lower_case (data/text/unicode.hpp) makes of both sides
};

struct BleuScore {
  double score = 0;                    // 0 to 100
  std::array<double, 4> precisions{};  // in percent: of n-grams, n = 1 to 4, smoothed where zero
  double brevity_penalty = 0;
  std::int64_t hypothesis_tokens = 0;
  std::int64_t reference_tokens = 0;
};

// Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it by default (Post 2018), signature
// nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp, or case:lc: one reference for each hypothesis,
// in UTF-8, 4-grams, a brevity penalty, and zero counts smoothed by 1/2, 1/4, … of a match.
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references, const BleuOptions& options = {});

// How corpus_bleu computes it, as sacreBLEU's signature says it, but for the version.
std::string bleu_signature(const BleuOptions& options = {});

// The tokens of mteval-v13a, the tokenizer of that signature: entities such as &quot; are resolved,
// punctuation is split off, but not periods and commas between digits, nor hyphens between letters.
std::vector<std::string> tokenize_13a(std::string_view line);

}  // namespace tapestry
