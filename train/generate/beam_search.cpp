#include "train/generate/beam_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "autograd/check.hpp"
#include "autograd/ops/softmax.hpp"
#include "train/generate/generate.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Hypothesis {
  Tokens tokens{};
  double score = 0;      // log P
  std::int64_t row = 0;  // index of its row in the batch
};

// The hypotheses of one sentence.
class Beam {
 public:
  Beam(std::int64_t sentence, const TranslateOptions& options)
      : options_(options), first_row_(sentence * options.beams) {
    live_.push_back({{}, 0, first_row_});
  }

  const std::vector<Hypothesis>& live() const { return live_; }

  // Extends the hypotheses by one token, given the log-probabilities (V) of each live one.
  void extend(const std::vector<std::span<const float>>& log_probabilities) {
    std::vector<Hypothesis> next;
    std::vector<std::pair<double, std::pair<std::size_t, std::int32_t>>> candidates;
    for (std::size_t i = 0; i < live_.size(); ++i)
      for (const std::int32_t token : largest(log_probabilities[i], options_.beams))
        candidates.push_back({live_[i].score + log_probabilities[i][token], {i, token}});
    std::ranges::sort(candidates, [](const auto& a, const auto& b) {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    });
    const auto kept = std::min(std::ssize(candidates), options_.beams);
    for (std::int64_t i = 0; i < kept; ++i) {
      const auto& [score, choice] = candidates[i];
      const Hypothesis& parent = live_[choice.first];
      if (choice.second == options_.end) {
        end({parent.tokens, score, parent.row});
        continue;
      }
      next.push_back({parent.tokens, score, parent.row});
      next.back().tokens.push_back(choice.second);
    }
    live_ = std::move(next);
    // Scores only fall: hypotheses that cannot exceed the best finished one are dropped.
    if (has_ended_)
      std::erase_if(live_, [&](const Hypothesis& h) {
        return rated(h.score, options_.max_tokens) <= best_rating_;
      });
  }

  // Assigns a row to each live hypothesis, and sets for each row the row to copy from.
  void place(std::vector<std::int64_t>& rows) {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      const std::int64_t row = first_row_ + static_cast<std::int64_t>(i);
      rows[row] = live_[i].row;
      live_[i].row = row;
    }
  }

  Tokens best() const {
    if (has_ended_) return ended_;
    return live_.empty() ? Tokens{} : live_.front().tokens;
  }

 private:
  double rated(double score, std::int64_t length) const {
    return score / std::pow((5.0 + static_cast<double>(length)) / 6, options_.length_penalty);
  }

  void end(const Hypothesis& hypothesis) {
    const double rating = rated(hypothesis.score, std::ssize(hypothesis.tokens) + 1);
    if (has_ended_ && rating <= best_rating_) return;
    has_ended_ = true;
    ended_ = hypothesis.tokens;
    best_rating_ = rating;
  }

  TranslateOptions options_;
  std::int64_t first_row_;
  std::vector<Hypothesis> live_;
  bool has_ended_ = false;
  Tokens ended_;  // the best finished hypothesis
  double best_rating_ = -std::numeric_limits<double>::infinity();
};

// Returns the log-probabilities (rows, V), float32, of the next token of each row.
Array next_log_probabilities(const EncoderDecoder& model, const Array& tokens,
                             const EncoderDecoder::EncodedSource& encoded,
                             AttentionCaches& caches) {
  const Tensor logits = model.decode(tokens, encoded, caches);  // (rows, 1, V)
  return log_softmax(logits).value().to(DType::float32);
}

}  // namespace

std::vector<Tokens> translate(const EncoderDecoder& model, const Array& source,
                              const Array& padding, const TranslateOptions& options) {
  return translate(model, source.dim(0), model.encode(source, padding), options);
}

std::vector<Tokens> translate(const EncoderDecoder& model, std::int64_t B,
                              const EncoderDecoder::EncodedSource& source,
                              const TranslateOptions& wanted) {
  TranslateOptions options = wanted;
  const std::int64_t context = model.options.target_context;
  options.max_tokens = options.max_tokens > 0 ? std::min(options.max_tokens, context) : context;
  require(options.beams >= 1, "translate: {} beams; expected at least 1", options.beams);

  const std::int64_t K = options.beams, V = model.options.target_vocabulary;
  std::vector<std::int64_t> rows(B * K);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i) / K;
  const EncoderDecoder::EncodedSource encoded = source.select(rows);
  AttentionCaches caches = model.make_caches(B * K);
  std::vector<Beam> beams;
  for (std::int64_t b = 0; b < B; ++b) beams.emplace_back(b, options);

  Array last = Array::of(Tokens(rows.size(), options.begin), {B * K, 1});
  for (std::int64_t step = 0; step < options.max_tokens; ++step) {
    const Array log_probabilities = next_log_probabilities(model, last, encoded, caches);
    const auto values = log_probabilities.values<float>();
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
    bool living = false;
    const auto next = last.mutable_values<std::int32_t>();
    for (Beam& beam : beams) {
      std::vector<std::span<const float>> of_live;
      for (const Hypothesis& h : beam.live()) of_live.push_back(values.subspan(h.row * V, V));
      beam.extend(of_live);
      beam.place(rows);
      for (const Hypothesis& h : beam.live()) next[h.row] = h.tokens.back();
      living |= !beam.live().empty();
    }
    if (!living) break;
    if (K > 1)
      for (const auto& cache : caches) cache->select(rows);
  }
  std::vector<Tokens> targets;
  for (const Beam& beam : beams) targets.push_back(beam.best());
  return targets;
}

}  // namespace tapestry
