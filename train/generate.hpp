#pragma once

#include <vector>

#include "layers/transformer.hpp"
#include "train/task.hpp"

namespace tapestry {

// One of V tokens by its logits. A temperature of 0 takes the likeliest; top_k and top_p (Holtzman
// et al. 2019, arXiv 1904.09751) leave only the likeliest tokens to choose from.
std::int32_t choose_token(const Array& logits, const SampleOptions& options, Random& random);

// The `tokens` tokens that follow the prompt, with cached keys and values. When the context is
// full, its later half is read again as a new prompt.
std::vector<std::int32_t> generate(const Transformer& model,
                                   const std::vector<std::int32_t>& prompt, std::int64_t tokens,
                                   const SampleOptions& options, Random& random);

}  // namespace tapestry
