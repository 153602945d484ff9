#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <set>
#include <unordered_set>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "data/text/word_counts.hpp"

namespace tapestry {
namespace {

using Pair = BytePairModel::Pair;

std::uint64_t key_of(const Pair& pair) {
  return static_cast<std::uint64_t>(pair[0]) << 32 | static_cast<std::uint32_t>(pair[1]);
}

void check(const BytePairOptions& options) {
  const std::int64_t least = std::ssize(options.special_tokens) + 256;
  expect_option(options.vocabulary >= least, "vocabulary",
                "{} tokens; expected at least {}: the special tokens and 256 bytes",
                options.vocabulary, least);
  require(options.least_count >= 1,
          "BytePairTokenizer::train: least_count = {}; expected at least 1", options.least_count);
  std::set<std::string> names;
  for (const std::string& token : options.special_tokens) {
    require_utf8(token, "a special token");
    expect_input(
        byte_level_pieces(token, options.pattern).size() > 1,
        "special token '{}': a text may contain it as one word; expected a name such as <{}>",
        token, token.empty() ? "sep" : token);
    expect_input(names.insert(token).second, "special token '{}' is given twice; give it once",
                 token);
  }
}

PieceOptions pieces_of(const BytePairOptions& options) {
  return {.compose = options.pattern == PiecePattern::qwen2,
          .lower_case = options.lower_case,
          .pattern = options.pattern};
}

// Returns a model with the special tokens and the 256 bytes.
BytePairModel first_tokens(const BytePairOptions& options) {
  BytePairModel model{.tokens = options.special_tokens, .pieces = pieces_of(options)};
  model.special.assign(model.tokens.size(), true);
  for (std::int32_t token = 0; token < std::ssize(model.tokens); ++token) {
    model.added.push_back({.token = token});
    if (model.tokens[token] == special_tokens[unknown_token]) model.unknown = token;
  }
  std::vector<int> bytes(256);
  for (int byte = 0; byte < 256; ++byte) bytes[byte] = byte;
  std::ranges::sort(bytes, {},
                    [](int byte) { return visible_character(static_cast<std::uint8_t>(byte)); });
  for (const int byte : bytes) model.tokens.emplace_back(1, static_cast<char>(byte));
  model.special.resize(model.tokens.size(), false);
  return model;
}

// The tokens of all words, one element per byte, with a border before each word and after the last.
// A token of several bytes is stored at its first and at its last byte, so that its neighbors on
// both sides are found in one step. Words with the same count are adjacent.
class WordTokens final {
 public:
  using Place = std::uint32_t;
  static constexpr std::int32_t border = -1, inside = -2;
  static_assert(2 * WordCounts::default_limit < std::numeric_limits<Place>::max());

  WordTokens(const WordCounts& words, std::span<const std::int32_t, 256> byte_tokens) {
    std::vector<const WordCounts::Counts::value_type*> by_count;
    by_count.reserve(words.counts().size());
    for (const auto& word : words.counts()) by_count.push_back(&word);
    std::ranges::sort(by_count, {}, [](const auto* word) { return word->second; });

    tokens_.reserve(words.bytes() + by_count.size() + 1);
    for (const auto* word : by_count) {
      if (counts_.empty() || counts_.back().count != word->second)
        counts_.push_back({static_cast<Place>(tokens_.size()), word->second});
      tokens_.push_back(border);
      for (const char byte : word->first)
        tokens_.push_back(byte_tokens[static_cast<unsigned char>(byte)]);
    }
    tokens_.push_back(border);
  }

  std::int32_t operator[](Place place) const { return tokens_[place]; }
  Place size() const { return static_cast<Place>(tokens_.size()); }

  // Returns how often the word at a place occurs in the texts.
  std::int64_t count_at(Place place) const {
    return (std::ranges::upper_bound(counts_, place, {}, &CountsFrom::first) - 1)->count;
  }

  // Replaces the tokens of places [first, second) and [second, end) by one.
  void join(Place first, Place second, Place end, std::int32_t token) {
    tokens_[second - 1] = tokens_[second] = inside;
    tokens_[first] = tokens_[end - 1] = token;
  }

 private:
  struct CountsFrom {
    Place first;
    std::int64_t count;
  };
  std::vector<std::int32_t> tokens_;
  std::vector<CountsFrom> counts_;
};

// The training of merges. The counts of pairs are kept up to date, but not the heap of candidates:
// a candidate whose count has decreased is reinserted when it is reached. A merge visits only the
// places of its pair, and each visit removes a token, so the total time is proportional to the
// bytes of the distinct words and the logarithm of the number of candidates.
class Learner final {
 public:
  Learner(BytePairModel first, const WordCounts& words, const BytePairOptions& options)
      : options_(options), model_(std::move(first)), words_(words, byte_tokens()) {}

  BytePairModel learn() {
    count_all_pairs();
    while (std::ssize(model_.tokens) < options_.vocabulary && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (best.count == count_of(best.pair))
        merge(best.pair);
      else
        offer(best.pair);
    }
    return std::move(model_);
  }

 private:
  using Place = WordTokens::Place;
  struct Use {
    std::int64_t count = 0;
    std::int64_t grown_in = -1;  // the merge in which the pair was last found
    // Positions of the left token: all at which the pair is, and some at which it was before a
    // merge.
    std::vector<Place> places{};
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  // Returns the tokens of the bytes, and records the ids of all tokens.
  std::array<std::int32_t, 256> byte_tokens() {
    std::array<std::int32_t, 256> tokens{};
    for (std::size_t id = 0; id < model_.tokens.size(); ++id) {
      ids_.emplace(model_.tokens[id], static_cast<std::int32_t>(id));
      if (!model_.special[id])
        tokens[static_cast<unsigned char>(model_.tokens[id].front())] =
            static_cast<std::int32_t>(id);
    }
    return tokens;
  }

  Place length_of(std::int32_t token) const {
    return static_cast<Place>(model_.tokens[token].size());
  }

  std::int64_t count_of(const Pair& pair) const {
    const auto use = uses_.find(key_of(pair));
    return use == uses_.end() ? 0 : use->second.count;
  }

  void count_all_pairs() {
    for (Place place = 1; place + 1 < words_.size(); ++place)
      if (words_[place] != WordTokens::border && words_[place + 1] != WordTokens::border)
        gain({words_[place], words_[place + 1]}, words_.count_at(place), place);
    offer_grown();
  }

  void offer(const Pair& pair) {
    if (const std::int64_t count = count_of(pair); count >= options_.least_count)
      candidates_.push({count, pair});
  }

  void offer_grown() {
    for (const Pair& pair : grown_) offer(pair);
    grown_.clear();
    ++merges_done_;
  }

  void gain(const Pair& pair, std::int64_t count, Place place) {
    Use& use = uses_[key_of(pair)];
    use.count += count;
    use.places.push_back(place);
    if (use.grown_in == merges_done_) return;
    use.grown_in = merges_done_;
    grown_.push_back(pair);
  }

  // Subtracts from the count of a pair; the pair that is being merged has no count.
  void lose(const Pair& pair, std::int64_t count) {
    const auto use = uses_.find(key_of(pair));
    if (use == uses_.end()) return;
    use->second.count -= count;
    if (use->second.count == 0) uses_.erase(use);
  }

  // Returns the token that a pair is merged to. Two pairs may have the same bytes.
  std::int32_t result_of(const Pair& pair) {
    const std::string bytes = model_.tokens[pair[0]] + model_.tokens[pair[1]];
    const auto [known, is_new] =
        ids_.try_emplace(bytes, static_cast<std::int32_t>(model_.tokens.size()));
    if (is_new) {
      model_.tokens.push_back(bytes);
      model_.special.push_back(false);
    }
    if (merged_.insert(key_of(pair)).second) model_.merges.push_back(pair);
    return known->second;
  }

  void merge(const Pair& pair) {
    const std::int32_t result = result_of(pair);
    std::vector<Place> places = std::move(uses_.at(key_of(pair)).places);
    uses_.erase(key_of(pair));
    std::ranges::sort(places);  // the order matters for overlapping pairs, as in "aaa"
    for (const Place place : places)
      if (words_[place] == pair[0] && words_[place + length_of(pair[0])] == pair[1])
        merge_at(place, pair, result);
    offer_grown();
  }

  void merge_at(Place place, const Pair& pair, std::int32_t result) {
    const Place second = place + length_of(pair[0]), end = second + length_of(pair[1]);
    const std::int32_t before = words_[place - 1], after = words_[end];
    const std::int64_t count = words_.count_at(place);
    if (before != WordTokens::border) {
      lose({before, pair[0]}, count);
      gain({before, result}, count, place - length_of(before));
    }
    if (after != WordTokens::border) {
      lose({pair[1], after}, count);
      gain({result, after}, count, place);
    }
    words_.join(place, second, end, result);
  }

  BytePairOptions options_;
  BytePairModel model_;
  std::unordered_map<std::string, std::int32_t> ids_;
  WordTokens words_;
  std::unordered_map<std::uint64_t, Use> uses_;
  std::unordered_set<std::uint64_t> merged_;
  std::priority_queue<Candidate> candidates_;
  std::int64_t merges_done_ = 0;
  std::vector<Pair> grown_;  // pairs found in the current merge
};

// Frees the counts of words before pairs are counted, which takes the most memory.
BytePairTokenizer learn(const BytePairOptions& options, WordCounts&& words) {
  Learner learner(first_tokens(options), std::exchange(words, WordCounts({})), options);
  return BytePairTokenizer(learner.learn());
}

}  // namespace

BytePairTokenizer BytePairTokenizer::train(std::span<const std::string> texts,
                                           const BytePairOptions& options) {
  check(options);
  WordCounts words(pieces_of(options));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    require_utf8(texts[i], fmt::format("text {}", i));
    words.add(texts[i]);
    words.end_text();
  }
  return learn(options, std::move(words));
}

BytePairTokenizer BytePairTokenizer::train_on_files(std::span<const std::string> paths,
                                                    const BytePairOptions& options) {
  check(options);
  WordCounts words(pieces_of(options));
  for (const std::string& path : paths) {
    read_plain_text(path, [&](std::string_view part) { words.add(part); });
    words.end_text();
  }
  return learn(options, std::move(words));
}

}  // namespace tapestry
