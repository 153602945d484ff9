#pragma once

#include <memory>
#include <vector>

#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "train/task.hpp"

namespace tapestry {

// One of V tokens by its logits. A temperature of 0 takes the likeliest; top_k and top_p (Holtzman
// et al. 2019, arXiv 1904.09751) leave only the likeliest tokens to choose from.
std::int32_t choose_token(const Array& logits, const SampleOptions& options, Random& random);

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
                                   std::int64_t tokens, const SampleOptions& options,
                                   Random& random);

template <class Model>
std::vector<std::int32_t> generate(const Model& model, const std::vector<std::int32_t>& prompt,
                                   std::int64_t tokens, const SampleOptions& options,
                                   Random& random) {
  return generate(*make_reader(model), prompt, tokens, options, random);
}

// The attention of a decoder-only model that reads these tokens, whose names are the labels.
std::vector<AttentionMaps> attention_of(const Transformer& model,
                                        const std::vector<std::int32_t>& tokens,
                                        const std::vector<std::string>& labels);

}  // namespace tapestry
