#pragma once

#include <string>
#include <vector>

#include "data/json.hpp"
#include "train/run/run.hpp"
#include "train/run/safetensors.hpp"

// Adapters (LoRA) of published language models, as the library peft keeps them: a folder with
// adapter_config.json and adapter_model.safetensors.
namespace tapestry {

// Those of a run into a new folder, which comes whole or not at all. Where peft has one map for
// several of ours, as GPT-2's c_attn, their adapters become one of a rank that is their sum.
// InputError where the run has none, trained other parameters as well, or is of no published
// architecture.
void export_adapter(const TrainedModel& trained, const std::string& folder, StoredFloats stored);

// What an adapter_config.json says. InputError for a field that is missing, wrong, or that nobody
// here knows: none is guessed.
struct PublishedAdapter {
  std::int64_t rank = 0;
  double alpha = 0, dropout = 0;  // the changes are multiplied by alpha / rank
};
PublishedAdapter read_adapter_config(const JsonValue& json, const std::string& path);

// The model of a run with the adapter of a folder added; of an empty name none, as load_trained().
// InputError names the field or tensor where the adapter is of another kind, or of another model.
TrainedModel load_trained_with(const std::string& adapter, const std::string& run,
                               const std::vector<std::string>& overrides, bool needs_data);

}  // namespace tapestry
