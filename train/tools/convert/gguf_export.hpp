#pragma once

#include <string>
#include <vector>

#include "train/run/run.hpp"
#include "train/tools/convert/gguf_numbers.hpp"

namespace tapestry {

struct GgufExport {
  std::string architecture;          // "LlamaForCausalLM"
  std::vector<std::string> notes{};  // what is stored or done otherwise, to be said
};

// A language model as llama.cpp loads it, with its tokens, into a new file: weights in `stored`,
// norms, biases and learned positions in float32, and what q8_0 has no whole blocks of in float16.
// InputError names the key, or what of the tokenizer, llama.cpp computes otherwise.
GgufExport export_gguf(const TrainedModel& trained, const std::string& path, GgufType stored);

}  // namespace tapestry
