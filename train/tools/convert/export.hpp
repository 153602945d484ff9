#pragma once

#include <string>
#include <vector>

#include "train/run/run.hpp"
#include "train/run/safetensors.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/gguf_file.hpp"

namespace tapestry {

struct ModelExport {
  std::string architecture;          // "LlamaForCausalLM"
  std::vector<std::string> notes{};  // messages about what the other program does differently
};

// Writes a language model for AutoModelForCausalLM and AutoTokenizer of Hugging Face's
// transformers: config.json, generation_config.json, model.safetensors, tokenizer.json,
// tokenizer_config.json and the files stored by import. The folder must not exist, or be empty; it
// is created whole or not at all. Throws InputError for another task or model than a transformer
// language model, and for a key whose value no architecture has.
ModelExport export_published(const TrainedModel& trained, const std::string& folder,
                             StoredFloats stored);

// Writes the adapters (LoRA) of a run into a new folder, in the format of peft
// (adapter_config.json, adapter_model.safetensors); the folder is created whole or not at all. If
// peft has one map for several of ours, such as GPT-2's c_attn, their adapters become one, whose
// rank is the sum. Throws InputError if the run has no adapters, if other parameters were trained
// as well, or if it has no published architecture.
void export_adapter(const TrainedModel& trained, const std::string& folder, StoredFloats stored);

// Writes only the weights of any model, with our names, into a new file. Throws InputError if the
// file exists already, or if its folder does not exist.
void export_weights(const TrainedModel& trained, const std::string& path, StoredFloats stored);

// Writes a language model with its tokens for llama.cpp into a new file. Weights are stored as
// `stored`; norms, biases and learned positions as float32, and tensors whose rows are not whole
// blocks of q8_0 as float16. Throws InputError that names the key or the feature of the tokenizer
// that llama.cpp computes differently.
ModelExport export_gguf(const TrainedModel& trained, const std::string& path, GgufType stored);

// Writes a model as ONNX of opset 17, without cached keys. One graph is written into the new file
// `out`; several are written into a new folder `out`, each into a file with its name:
// "encoder.onnx". Returns the paths of the files. Throws InputError if the run's task has no ONNX
// form, if `out` exists already, or if it ends in .onnx and several graphs are written.
std::vector<std::string> export_onnx(const TrainedModel& trained, const std::string& out);

// Writes word vectors into a new file, in the text format of word2vec, and returns the number of
// words. Throws InputError if the run is of another task, and if `out` exists already.
std::int64_t export_word_vectors(const TrainedModel& trained, const std::string& out);

// Returns the tokens that end a text. The first is the most important one: after a training on
// conversations, the token that ends an answer. Returns an empty list if there are none.
std::vector<std::int32_t> end_tokens(const LanguageModel& task);

// Returns the task as a language model with a transformer. Otherwise throws InputError, which
// begins with `where` and ends with `advice`.
const LanguageModel& transformer_of(
    const TrainedModel& trained, const std::string& where,
    const char* advice = "; --format safetensors writes the weights of any model");

}  // namespace tapestry
