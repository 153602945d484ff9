#include <algorithm>
#include <queue>
#include <unordered_set>

#include "autograd/check.hpp"
#include "data/file.hpp"
#include "data/option_error.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

using Pair = BytePairModel::Pair;

std::uint64_t key_of(const Pair& pair) {
  return static_cast<std::uint64_t>(pair[0]) << 32 | static_cast<std::uint32_t>(pair[1]);
}

// The special tokens and the 256 bytes.
BytePairModel first_tokens(const BytePairOptions& options) {
  BytePairModel model{.lower_case = options.lower_case};
  model.tokens.assign(special_tokens.begin(), special_tokens.end());
  for (const std::string& token : options.special_tokens) {
    require_utf8(token, "a special token");
    expect_input(byte_level_pieces(token).size() > 1,
                 "special token '{}': expected a name that no word or run of signs can be, "
                 "such as <{}>",
                 token, token.empty() ? "sep" : token);
    expect_input(std::ranges::find(model.tokens, token) == model.tokens.end(),
                 "special token '{}' is there twice; name it once", token);
    model.tokens.push_back(token);
  }
  model.special.assign(model.tokens.size(), true);
  std::vector<int> bytes(256);
  for (int byte = 0; byte < 256; ++byte) bytes[byte] = byte;
  std::ranges::sort(bytes, {},
                    [](int byte) { return visible_character(static_cast<std::uint8_t>(byte)); });
  for (const int byte : bytes) model.tokens.emplace_back(1, static_cast<char>(byte));
  model.special.resize(model.tokens.size(), false);
  return model;
}

// Learns merges from the distinct pieces of a text and their counts. The counts of pairs are kept
// up to date, and the heap of candidates is not: one whose count has fallen goes back when met.
class Trainer final {
 public:
  explicit Trainer(const BytePairOptions& options) : model_(first_tokens(options)) {
    for (std::size_t id = 0; id < model_.tokens.size(); ++id)
      ids_.emplace(model_.tokens[id], static_cast<std::int32_t>(id));
  }

  void add(std::string_view text) {
    for (const std::string_view piece : byte_level_pieces(text)) {
      const auto [place, is_new] = words_by_text_.try_emplace(std::string(piece), words_.size());
      if (is_new) words_.push_back({bytes_of(piece), 0});
      ++words_[place->second].count;
    }
  }

  BytePairModel learn(std::int64_t vocabulary, std::int64_t least_count) {
    for (std::size_t word = 0; word < words_.size(); ++word) count_pairs(word, 1, any_token);
    for (const Pair& pair : counted_) offer(pair);
    while (std::ssize(model_.tokens) < vocabulary && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const std::int64_t count = uses_.at(key_of(best.pair)).count;
      if (best.count != count && count >= least_count) offer(best.pair);
      if (best.count == count && count >= least_count) merge(best.pair);
    }
    return std::move(model_);
  }

 private:
  static constexpr std::int32_t any_token = -1;

  struct Word {
    std::vector<std::int32_t> tokens;
    std::int64_t count;  // in the text
  };
  struct Use {
    std::int64_t count = 0;
    std::vector<std::size_t> words{};  // all that hold the pair, and some that did
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  std::vector<std::int32_t> bytes_of(std::string_view piece) const {
    std::vector<std::int32_t> tokens;
    for (const char byte : piece) tokens.push_back(ids_.at(std::string(1, byte)));
    return tokens;
  }

  void offer(const Pair& pair) { candidates_.push({uses_.at(key_of(pair)).count, pair}); }

  // Adds a word's pairs, or takes them away (sign -1). Pairs with `token` are noted as counted.
  void count_pairs(std::size_t word, std::int64_t sign, std::int32_t token) {
    const auto& [tokens, count] = words_[word];
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      const Pair pair{tokens[i - 1], tokens[i]};
      Use& use = uses_[key_of(pair)];
      use.count += sign * count;
      if (sign < 0 || (token != any_token && pair[0] != token && pair[1] != token)) continue;
      if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
      if (noted_.insert(key_of(pair)).second) counted_.push_back(pair);
    }
  }

  void merge(const Pair& pair) {
    const std::string bytes = model_.tokens[pair[0]] + model_.tokens[pair[1]];
    const auto id = static_cast<std::int32_t>(model_.tokens.size());
    const auto [known, is_new] = ids_.try_emplace(bytes, id);  // two merges may give the same bytes
    if (is_new) {
      model_.tokens.push_back(bytes);
      model_.special.push_back(false);
    }
    if (merged_.insert(key_of(pair)).second) model_.merges.push_back(pair);

    counted_.clear();
    noted_.clear();
    const std::vector<std::size_t> words = std::move(uses_.at(key_of(pair)).words);
    uses_.at(key_of(pair)).words.clear();
    for (const std::size_t word : words) {
      std::vector<std::int32_t>& tokens = words_[word].tokens;
      if (std::ranges::search(tokens, pair).empty()) continue;
      count_pairs(word, -1, any_token);
      replace(tokens, pair, known->second);
      count_pairs(word, 1, known->second);
    }
    for (const Pair& grown : counted_) offer(grown);
  }

  static void replace(std::vector<std::int32_t>& tokens, const Pair& pair, std::int32_t result) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool here = i + 1 < tokens.size() && tokens[i] == pair[0] && tokens[i + 1] == pair[1];
      tokens[kept++] = here ? result : tokens[i];
      if (here) ++i;
    }
    tokens.resize(kept);
  }

  BytePairModel model_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, std::size_t> words_by_text_;
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, Use> uses_;
  std::unordered_set<std::uint64_t> merged_;
  std::unordered_set<std::uint64_t> noted_;  // counted_, as a set
  std::vector<Pair> counted_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

BytePairTokenizer BytePairTokenizer::train(std::span<const std::string> texts,
                                           const BytePairOptions& options) {
  Trainer trainer(options);
  const std::int64_t least = std::ssize(special_tokens) + std::ssize(options.special_tokens) + 256;
  expect_option(options.vocabulary >= least, "vocabulary",
                "{} tokens, expected at least {}, for the special tokens and 256 bytes",
                options.vocabulary, least);
  require(options.least_count >= 1, "BytePairTokenizer::train: least_count {}",
          options.least_count);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    require_utf8(texts[i], fmt::format("text {}", i));
    trainer.add(options.lower_case ? lower_case(texts[i]) : texts[i]);
  }
  return BytePairTokenizer(trainer.learn(options.vocabulary, options.least_count));
}

}  // namespace tapestry
