#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"

namespace tapestry {

// Tokens as a batch of one text (1, T).
inline Array one_row(const std::vector<std::int32_t>& tokens) {
  return Array::of(tokens, {1, std::ssize(tokens)});
}

struct SamplingOptions {
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;  // above 1, what was read or written is less likely to come again
  std::int64_t tokens = 0;        // only the first so many have a meaning; 0: all
};

// One of V tokens by its logits. A temperature of 0 takes the likeliest; top_k, top_p (Holtzman
// et al. 2019, arXiv 1904.09751) and min_p, a share of the likeliest one's probability (Nguyen et
// al. 2024, arXiv 2407.01082), leave only the likeliest tokens to choose from.
std::int32_t choose_token(const Array& logits, const SamplingOptions& options, Random& random);

// Chooses the tokens of one text. The logits of those that stand in it are divided by the
// repetition penalty, or multiplied where they are negative (Keskar et al. 2019, arXiv 1909.05858;
// negative ones as the library transformers has them).
class TokenChooser final {
 public:
  explicit TokenChooser(const SamplingOptions& options) : options_(options) {}

  void read(std::span<const std::int32_t> tokens);  // which stand in the text
  std::int32_t choose(Array logits,
                      Random& random);  // the next one, by logits (V), which it may change

 private:
  SamplingOptions options_;
  std::set<std::int32_t> seen_{};
};

// A model in the middle of a text, with what it keeps of the tokens that it has read.
class DecodingState {
 public:
  virtual ~DecodingState() = default;
  virtual Array read(const std::vector<std::int32_t>& tokens) = 0;  // the logits (V) of the next
};

// At the start of a text. The model must outlive its reader.
// A transformer keeps keys and values; when its context is full, it reads the later half again.
std::unique_ptr<DecodingState> begin_decoding(const Transformer& model);
// A recurrent network keeps its states, at the same cost however long the text.
std::unique_ptr<DecodingState> begin_decoding(const RecurrentNetwork& model);

// Gives `take` the tokens that follow the prompt, one by one as they are chosen, until it returns
// false, and at most `tokens`.
void generate(DecodingState& reader, const std::vector<std::int32_t>& prompt, std::int64_t tokens,
              const SamplingOptions& options, Random& random,
              const std::function<bool(std::int32_t)>& take);

// All of the `tokens` tokens that follow the prompt.
std::vector<std::int32_t> generate(DecodingState& reader, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SamplingOptions& options,
                                   Random& random);

template <class Model>
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SamplingOptions& options,
                                   Random& random) {
  return generate(*begin_decoding(model), prompt, tokens, options, random);
}

}  // namespace tapestry
