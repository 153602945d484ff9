#pragma once

#include <functional>

#include "train/generate/generate.hpp"

namespace tapestry {

// A text to be written: at most so many tokens after its prompt, chosen by numbers of its own.
struct Request {
  std::vector<std::int32_t> prompt;
  std::int64_t tokens = 0;
  Random random;
};

// Gets each token of each request, and says whether the text goes on after it.
using KeepsGoing = std::function<bool(std::size_t request, std::int32_t token)>;

// What follows each prompt, token for token what generate() gives for it alone: products read the
// weights once for up to 16 texts, each of which keeps its own place. A text that ends makes room
// for the next. std::invalid_argument for an empty prompt.
std::vector<std::vector<std::int32_t>> generate(const Transformer& model,
                                                std::vector<Request> requests,
                                                const SamplingOptions& options,
                                                const KeepsGoing& continues = {});
std::vector<std::vector<std::int32_t>> generate(const RecurrentNetwork& model,
                                                std::vector<Request> requests,
                                                const SamplingOptions& options,
                                                const KeepsGoing& continues = {});

}  // namespace tapestry
