#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/task.hpp"

namespace tapestry {

struct ImportedModel {
  std::string architecture;  // "LlamaForCausalLM"
  Config config;
  std::unique_ptr<Task> task;  // a language model, with its weights
};

// What a folder of Hugging Face's library holds: config.json, weights as safetensors in float32,
// float16 or bfloat16, and tokenizer.json; where they are there, tokenizer_config.json,
// generation_config.json and chat_template.jinja, which are kept for export. `overrides` change the
// config's keys.
// InputError, which names file, field or tensor: nothing is guessed, and nothing left over.
ImportedModel import_published(const std::string& folder,
                               const std::vector<std::string>& overrides);

}  // namespace tapestry
