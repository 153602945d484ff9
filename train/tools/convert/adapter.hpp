#pragma once

#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/run/run.hpp"
#include "train/run/safetensors.hpp"

// Adapters (LoRA) of published language models, as the library peft saves them: a folder with
// adapter_config.json and adapter_model.safetensors.
namespace tapestry {

// Writes the adapters of a run into a new folder, as a whole or not at all. If peft has one map for
// several of ours, such as GPT-2's c_attn, their adapters become one, whose rank is the sum. Throws
// InputError if the run has no adapters, trained other parameters as well, or has no published
// architecture.
void export_adapter(const TrainedModel& trained, const std::string& folder, StoredFloats stored);

// Reads an adapter_config.json. Throws InputError for a field that is missing, wrong or unknown.
struct PublishedAdapter {
  std::int64_t rank = 0;
  double alpha = 0, dropout = 0;  // the changes are multiplied by alpha / rank
};
PublishedAdapter read_adapter_config(const JsonValue& json, const std::string& path);

// Returns the model of a run with the adapter of a folder added, or without one if the name of the
// folder is empty: load_trained(). Throws InputError, which names the field or tensor, if the
// adapter is of another kind or of another model.
TrainedModel load_trained_with(const std::string& adapter, const std::string& run,
                               const std::vector<std::string>& overrides, bool needs_data);

}  // namespace tapestry
