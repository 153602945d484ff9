#pragma once

#include <memory>
#include <vector>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"

namespace tapestry {

struct SamplingOptions {
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
};

// One of V tokens by its logits. A temperature of 0 takes the likeliest; top_k and top_p (Holtzman
// et al. 2019, arXiv 1904.09751) leave only the likeliest tokens to choose from.
std::int32_t choose_token(const Array& logits, const SamplingOptions& options, Random& random);

// A model in the middle of a text, with what it keeps of the tokens that it has read.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual Array read(const std::vector<std::int32_t>& tokens) = 0;  // the logits (V) of the next
};

// At the start of a text. The model must outlive its reader.
// A transformer keeps keys and values; when its context is full, it reads the later half again.
std::unique_ptr<Reader> make_reader(const Transformer& model);
// A recurrent network keeps its states, at the same cost however long the text.
std::unique_ptr<Reader> make_reader(const RecurrentNetwork& model);

// The `tokens` tokens that follow the prompt.
std::vector<std::int32_t> generate(Reader& reader, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SamplingOptions& options,
                                   Random& random);

template <class Model>
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SamplingOptions& options,
                                   Random& random) {
  return generate(*make_reader(model), prompt, tokens, options, random);
}

}  // namespace tapestry
