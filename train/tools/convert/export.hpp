#pragma once

#include <string>

#include "train/run/run.hpp"
#include "train/run/safetensors.hpp"

namespace tapestry {

// A language model as AutoModelForCausalLM and AutoTokenizer of Hugging Face's library load it:
// config.json, generation_config.json, model.safetensors, tokenizer.json, tokenizer_config.json and
// what was kept when it was imported. The folder must not be there, or be empty; it comes whole or
// not at all. Returns the architecture's name. InputError names the key that no architecture has.
std::string export_published(const TrainedModel& trained, const std::string& folder,
                             StoredFloats stored);

// The weights of any model alone, by our names, into a new file.
void export_weights(const TrainedModel& trained, const std::string& path, StoredFloats stored);

}  // namespace tapestry
