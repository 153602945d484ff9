#include "data/text/skip_grams.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "autograd/parallel.hpp"
#include "data/option_error.hpp"
#include "data/text/bag_of_words.hpp"

namespace tapestry {

WordVocabulary WordVocabulary::of(std::span<const std::string> lines,
                                  const WordVocabularyOptions& options) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const std::string& line : lines)
    for (std::string& word : words_of(line)) ++counts[std::move(word)];
  std::vector<std::pair<std::int64_t, std::string>> words;
  for (const auto& [word, count] : counts)
    if (count >= options.minimum_count) words.emplace_back(-count, word);
  std::ranges::sort(words);
  if (std::ssize(words) > options.vocabulary) words.resize(options.vocabulary);
  expect_option(words.size() >= 2, "minimum_count", "{} of {} words occur so often; expected two",
                words.size(), counts.size());
  WordVocabulary vocabulary;
  for (auto& [negative, word] : words) {
    vocabulary.words.push_back(std::move(word));
    vocabulary.counts.push_back(-negative);
  }
  return vocabulary;
}

WordWindows::WordWindows(std::span<const std::string> lines, const WordVocabulary& vocabulary,
                         std::int64_t reach, std::int64_t parts)
    : starts_{0}, reach_(reach), parts_(parts) {
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (const std::string& word : vocabulary.words)
    numbers.emplace(word, static_cast<std::int32_t>(numbers.size()));
  for (const std::string& line : lines) {
    for (const std::string& word : words_of(line))
      if (const auto found = numbers.find(word); found != numbers.end())
        words_.push_back(found->second);
    if (std::ssize(words_) > starts_.back()) starts_.push_back(std::ssize(words_));
  }
  expect_option(!words_.empty(), "path", "{} lines have no word of the vocabulary", lines.size());
}

void WordWindows::add_to(Checksum& sum) const {
  sum.add_list(words_);
  sum.add_list(starts_);
}

Batch WordWindows::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  Batch batch{.inputs = Array::full({B, 2 * reach_}, ignored_target, DType::int32),
              .targets = Array({B}, DType::int32),
              .count = 1 / static_cast<double>(parts_)};
  if (is_dry_run()) return batch;
  std::int32_t* near = batch.inputs.mutable_values<std::int32_t>().data();
  std::int32_t* target = batch.targets.mutable_values<std::int32_t>().data();
  for (const std::int64_t example : examples) {
    require_example("WordWindows", example);
    const auto end = std::ranges::upper_bound(starts_, example);
    const std::int64_t before = std::min(reach_, example - *(end - 1)),
                       after = std::min(reach_, *end - example - 1);
    std::reverse_copy(words_.begin() + example - before, words_.begin() + example, near);
    std::copy_n(words_.begin() + example + 1, after, near + reach_);
    *target++ = words_[example];
    near += 2 * reach_;
  }
  return batch;
}

SkipGramSampler::SkipGramSampler(std::span<const std::int64_t> counts,
                                 const SkipGramOptions& options)
    : options_(options) {
  const double words = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> sums;
  double sum = 0;
  for (const std::int64_t count : counts) {
    const double share = static_cast<double>(count) / words, t = options.subsample;
    const double kept = t > 0 ? (std::sqrt(share / t) + 1) * t / share : 1;
    keep_.push_back(static_cast<std::uint64_t>(std::min(1.0, kept) * 0x1p32));
    sums.push_back(sum += std::pow(static_cast<double>(count), 0.75));
  }
  for (const double each : sums)
    negative_.push_back(static_cast<std::uint32_t>(each / sum * (0x1p32 - 1)));
}

// Writes kept words of one side, the nearest first, and returns their number.
std::int64_t SkipGramSampler::draw_window(std::span<const std::int32_t> near, Random& random,
                                          std::int32_t* to) const {
  const std::int64_t most = 1 + random.bits() % options_.window;
  std::int64_t found = 0;
  for (const std::int32_t word : near) {
    if (word == ignored_target || found == most) break;
    if (is_kept(word, random)) to[found++] = word;
  }
  return found;
}

SkipGramSampler::Drawn SkipGramSampler::draw(const Batch& batch, std::span<Random> random) const {
  const std::int64_t B = batch.targets.dim(0), R = batch.inputs.dim(1) / 2, W = options_.window,
                     K = options_.negatives;
  Drawn drawn{Array::full({B, 2 * W}, ignored_target, DType::int32),
              Array::full({B, 1 + K}, ignored_target, DType::int32)};
  std::vector<std::int64_t> pairs(B);
  const std::int32_t *near = batch.inputs.values<std::int32_t>().data(),
                     *word = batch.targets.values<std::int32_t>().data();
  std::int32_t *contexts = drawn.contexts.mutable_values<std::int32_t>().data(),
               *targets = drawn.targets.mutable_values<std::int32_t>().data();
  parallel_for(B, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      if (!is_kept(word[b], random[b])) continue;
      std::int32_t *to = contexts + b * 2 * W, *target = targets + b * (1 + K);
      for (const std::int64_t side : {0, 1})
        pairs[b] += draw_window({near + (2 * b + side) * R, static_cast<std::size_t>(R)}, random[b],
                                to + pairs[b]);
      *target = word[b];
      for (std::int64_t k = 1; k <= K; ++k) {
        const auto found = std::ranges::lower_bound(negative_, random[b].bits());
        const auto drawn_word = static_cast<std::int32_t>(found - negative_.begin());
        if (drawn_word != word[b]) target[k] = drawn_word;
      }
    }
  });
  drawn.pairs = std::accumulate(pairs.begin(), pairs.end(), std::int64_t{0});
  return drawn;
}

}  // namespace tapestry
