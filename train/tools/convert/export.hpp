#pragma once

#include <string>
#include <vector>

#include "train/run/run.hpp"
#include "train/run/safetensors.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/gguf_file.hpp"

namespace tapestry {

// Writes a language model as AutoModelForCausalLM and AutoTokenizer of Hugging Face's transformers
// load it: config.json, generation_config.json, model.safetensors, tokenizer.json,
// tokenizer_config.json and the files that were kept by import. The folder must not exist, or be
// empty; it is written as a whole or not at all. Returns the architecture's name. Throws
// InputError, which names the key that no architecture has.
std::string export_published(const TrainedModel& trained, const std::string& folder,
                             StoredFloats stored);

// Writes the adapters (LoRA) of a run into a new folder, as the library peft saves them
// (adapter_config.json, adapter_model.safetensors), as a whole or not at all. If peft has one map
// for several of ours, such as GPT-2's c_attn, their adapters become one, whose rank is the sum.
// Throws InputError if the run has no adapters, trained other parameters as well, or has no
// published architecture.
void export_adapter(const TrainedModel& trained, const std::string& folder, StoredFloats stored);

// Writes only the weights of any model, by our names, into a new file.
void export_weights(const TrainedModel& trained, const std::string& path, StoredFloats stored);

// Writes a language model with its tokens for llama.cpp into a new file. Weights are in `stored`;
// norms, biases and learned positions are in float32, and tensors whose rows are not whole blocks
// of q8_0 in float16. Throws InputError, which names the key or the feature of the tokenizer that
// llama.cpp computes differently.
struct GgufExport {
  std::string architecture;          // "LlamaForCausalLM"
  std::vector<std::string> notes{};  // differences from the model, to be printed
};
GgufExport export_gguf(const TrainedModel& trained, const std::string& path, GgufType stored);

// Writes a model as ONNX of opset 17, without cached keys. One graph is written into the new file
// `out`; several are written into a new folder `out`, each into a file of its name:
// "encoder.onnx". Returns the files. Throws InputError if the run's task has no such form.
std::vector<std::string> export_onnx(const TrainedModel& trained, const std::string& out);

// Returns the tokens after which a text ends. The first is the most important one: of a model that
// was trained on conversations, the token that ends an answer.
std::vector<std::int32_t> end_tokens(const LanguageModel& task);

// Returns the task as a language model that is a transformer. Throws InputError, which begins with
// `where` and ends with `advice`, if it is another one.
const LanguageModel& transformer_of(
    const TrainedModel& trained, const std::string& where,
    const char* advice = "; --format safetensors writes the weights of any model");

}  // namespace tapestry
