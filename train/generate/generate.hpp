#pragma once

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"

namespace tapestry {

// Returns tokens as a batch (1, T) of one text.
inline Array one_row(const std::vector<std::int32_t>& tokens) {
  return Array::of(tokens, {1, std::ssize(tokens)});
}

// Returns the indices of the `count` largest values in descending order of the values. Of equal
// values, the one with the lower index comes first.
std::vector<std::int32_t> largest(std::span<const float> values, std::int64_t count);

struct SamplingOptions {
  double temperature = 1;  // 0: choose the most probable token
  std::int64_t top_k = 0;  // choose among the k most probable tokens; 0: all
  double top_p = 1;        // choose among the fewest tokens whose probabilities sum to p; 1: all
  double min_p = 0;        // choose among tokens at least p times as probable as the best; 0: all
  double repetition_penalty = 1;  // above 1: tokens that occur in the text become less probable
  std::int64_t tokens = 0;        // choose only tokens with an index below this; 0: all
};

// Returns the index of a token sampled from its logits (V). For top_p see Holtzman et al. 2019
// (arXiv 1904.09751), for min_p Nguyen et al. 2024 (arXiv 2407.01082).
std::int32_t choose_token(const Array& logits, const SamplingOptions& options, Random& random);

// A sampler for the tokens of one text. Of the tokens that occur in the text, positive logits are
// divided by the repetition penalty (Keskar et al. 2019, arXiv 1909.05858), and negative logits are
// multiplied by the penalty (as in Hugging Face's transformers).
class TokenChooser final {
 public:
  explicit TokenChooser(const SamplingOptions& options) : options_(options) {}

  // Records that these tokens occur in the text.
  void read(std::span<const std::int32_t> tokens);
  // Returns the next token, sampled from its logits (V).
  std::int32_t choose(Array logits, Random& random);

 private:
  SamplingOptions options_;
  std::set<std::int32_t> seen_{};
};

// The decoding state of a model for B texts, one per row. A transformer stores the keys and values
// of the tokens that it has read; when the context is full, the last half of it is read again, as a
// new beginning. A recurrent network stores its states. The model must outlive this object.
class DecodingState final {
 public:
  // Constructs a state with no rows. Implicit, so that a model can be passed to generate().
  DecodingState(const Transformer& model);
  DecodingState(const RecurrentNetwork& model);

  // Appends a row for each prompt, of which a transformer reads at most the last tokens that fit
  // the context. Returns the logits (V), float32, of the token that follows each. Throws
  // std::invalid_argument for an empty prompt.
  std::vector<Array> begin(const std::vector<std::vector<std::int32_t>>& prompts);
  // Appends tokens (B, T), int32, to the texts. Returns the logits (V), float32, of the token that
  // follows in each row. With up to 16 rows, the logits of a row have the same bits as without the
  // others. Throws std::invalid_argument unless there is one row per text.
  std::vector<Array> read(const Array& tokens);
  // Keeps only these rows, all different, in this order.
  void keep(const std::vector<std::int64_t>& rows);

 private:
  // The caches of each layer of a transformer, or the states (B, C) of each layer of a recurrent
  // network.
  struct Memory {
    AttentionCaches caches{};
    std::vector<Tensor> states{};

    std::int64_t rows() const;
    void append(std::span<const Memory> others);  // appends the rows of `others`
    void select(const std::vector<std::int64_t>& rows);
  };

  Memory make_memory(std::int64_t rows) const;
  Tensor forward(const Array& tokens, Memory& memory) const;
  bool has_room(std::int64_t row, std::int64_t tokens) const;
  std::vector<Array> read_ends(std::span<const std::int64_t> rows, std::int64_t most_tokens);
  std::vector<Array> read_past_context(const Array& tokens);

  const Transformer* transformer_ = nullptr;  // either this or recurrent_ is null
  const RecurrentNetwork* recurrent_ = nullptr;
  Memory memory_;
  std::vector<std::vector<std::int32_t>> texts_{};
};

// A prompt, and how many tokens to generate after it.
struct Request {
  std::vector<std::int32_t> prompt;
  std::int64_t tokens = 0;  // maximum number of generated tokens
  Random random;            // random numbers of this text, which do not depend on other requests
};

// A function that takes each generated token of each request and returns whether the text
// continues.
using KeepsGoing = std::function<bool(std::size_t request, std::int32_t token)>;

// Returns the tokens generated after each prompt. Generates up to 16 texts together, so that the
// weights are read once for all of them; each text has the same tokens as if generated alone. When
// a text ends, the next request takes its row. Throws std::invalid_argument for an empty prompt.
std::vector<std::vector<std::int32_t>> generate(DecodingState state, std::vector<Request> requests,
                                                const SamplingOptions& options,
                                                const KeepsGoing& continues = {});

// Returns `tokens` tokens generated after one prompt. Throws std::invalid_argument for an empty
// prompt.
std::vector<std::int32_t> generate(DecodingState state, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SamplingOptions& options,
                                   const Random& random);

}  // namespace tapestry
