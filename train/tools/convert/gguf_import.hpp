#pragma once

#include <string>
#include <vector>

#include "train/tools/convert/import.hpp"

namespace tapestry {

// A model of the architectures gpt2, llama, qwen2 or qwen3 as llama.cpp loads it, with its tokens,
// in F32, F16 and Q8_0. `overrides` change the config's keys. InputError, which names the file and
// the field or tensor: nothing is guessed.
ImportedModel import_gguf(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace tapestry
