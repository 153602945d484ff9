#pragma once

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"

namespace tapestry {

// Returns tokens as a batch of one text (1, T).
inline Array one_row(const std::vector<std::int32_t>& tokens) {
  return Array::of(tokens, {1, std::ssize(tokens)});
}

// Returns the indices of the `count` largest values, the largest first; of equal values, those that
// come first.
std::vector<std::int32_t> largest(std::span<const float> values, std::int64_t count);

struct SamplingOptions {
  double temperature = 1;  // 0: always the most probable token
  std::int64_t top_k = 0;  // choose among the k most probable tokens; 0: among all
  double top_p = 1;        // among the fewest tokens whose probabilities sum to p
  double min_p = 0;        // among those at least p times as probable as the most probable one
  double repetition_penalty = 1;  // above 1, a token that stands in the text becomes less probable
  std::int64_t tokens = 0;        // the first so many tokens have a meaning; 0: all
};

// Returns one of V tokens, sampled by its logits (V). For top_p see Holtzman et al. 2019 (arXiv
// 1904.09751), for min_p Nguyen et al. 2024 (arXiv 2407.01082).
std::int32_t choose_token(const Array& logits, const SamplingOptions& options, Random& random);

// Chooses the tokens of one text. The logits of tokens that stand in it are divided by the
// repetition penalty if they are positive (Keskar et al. 2019, arXiv 1909.05858), and multiplied by
// it if they are negative (as the library transformers does).
class TokenChooser final {
 public:
  explicit TokenChooser(const SamplingOptions& options) : options_(options) {}

  // Adds tokens that stand in the text.
  void read(std::span<const std::int32_t> tokens);
  // Returns the next token by its logits (V), which it may change.
  std::int32_t choose(Array logits, Random& random);

 private:
  SamplingOptions options_;
  std::set<std::int32_t> seen_{};
};

// A model in the middle of B texts, one in each row, and what it keeps of the tokens that it has
// read. A transformer keeps keys and values; when its context is full, it reads the later half
// again. A recurrent network keeps its states. The model outlives it.
class DecodingState final {
 public:
  // Without a text; implicit, so that a model can be given to generate().
  DecodingState(const Transformer& model);
  DecodingState(const RecurrentNetwork& model);

  // Adds texts as the last rows. Returns the logits (V), float32, of the token after each prompt.
  std::vector<Array> begin(const std::vector<std::vector<std::int32_t>>& prompts);
  // Appends tokens (B, T) int32 to the texts. Returns the logits (V), float32, of the token that
  // follows in each row. Up to 16 rows have the bits that each has alone.
  std::vector<Array> read(const Array& tokens);
  // Keeps these rows, all different, in this order, and forgets the others.
  void keep(const std::vector<std::int64_t>& rows);

 private:
  // The memory of each layer: the caches of a transformer, or the states (B, C) of a recurrent
  // network.
  struct Memory {
    AttentionCaches caches{};
    std::vector<Tensor> states{};

    std::int64_t rows() const;
    void append(std::span<const Memory> others);  // whose rows follow the own ones
    void select(const std::vector<std::int64_t>& rows);
  };

  Memory make_memory(std::int64_t rows) const;
  Tensor forward(const Array& tokens, Memory& memory) const;
  bool has_room(std::int64_t row, std::int64_t tokens) const;
  std::vector<Array> read_ends(std::span<const std::int64_t> rows, std::int64_t most_tokens);
  std::vector<Array> read_past_context(const Array& tokens);

  const Transformer* transformer_ = nullptr;  // one of the two is null
  const RecurrentNetwork* recurrent_ = nullptr;
  Memory memory_;
  std::vector<std::vector<std::int32_t>> texts_{};
};

// A text to generate.
struct Request {
  std::vector<std::int32_t> prompt;
  std::int64_t tokens = 0;  // generated after the prompt, at most
  Random random;            // random numbers of this text, independent of other requests
};

// Takes each generated token of each request, and returns whether that text continues after it.
using KeepsGoing = std::function<bool(std::size_t request, std::int32_t token)>;

// Returns the tokens that follow each prompt. Up to 16 texts are generated together, so that the
// weights are read once for all of them; each has the tokens that it has alone. A text that ends
// makes room for the next. Throws std::invalid_argument for an empty prompt.
std::vector<std::vector<std::int32_t>> generate(DecodingState state, std::vector<Request> requests,
                                                const SamplingOptions& options,
                                                const KeepsGoing& continues = {});

// Returns the `tokens` tokens that follow one prompt.
std::vector<std::int32_t> generate(DecodingState state, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SamplingOptions& options,
                                   const Random& random);

}  // namespace tapestry
