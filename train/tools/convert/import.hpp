#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/run/run.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {

struct ImportedModel {
  std::string architecture;  // "LlamaForCausalLM"
  Config config;
  std::unique_ptr<Task> task;          // a language model with its weights
  std::vector<std::string> ignored{};  // unknown fields that were ignored
};

// Reads a folder of Hugging Face's transformers: config.json, weights as safetensors in float32,
// float16 or bfloat16, and tokenizer.json. If they exist, tokenizer_config.json,
// generation_config.json and chat_template.jinja are stored for export. `overrides` change keys of
// the config; `to_ignore` names unknown fields that are ignored. Throws InputError that names the
// file and the field or tensor for anything else that is unknown.
ImportedModel import_published(const std::string& folder, const std::vector<std::string>& overrides,
                               const std::vector<std::string>& to_ignore = {});

// Reads a GGUF file of llama.cpp with its tokens: architecture gpt2, llama, qwen2 or qwen3, in F32,
// F16, BF16 or Q8_0. The other arguments and errors are those of import_published.
ImportedModel import_gguf(const std::string& path, const std::vector<std::string>& overrides,
                          const std::vector<std::string>& to_ignore = {});

// Returns load_trained() of a run, with the adapter of a folder of peft added unless `adapter` is
// empty. Throws InputError as load_trained() does, if the run has adapters already, and, with the
// name of the field or tensor, if the adapter is of an unsupported kind or of another model. Adds
// the fields of the adapter that were ignored to `unknown`, if it is given.
TrainedModel load_trained_with(const std::string& adapter, const std::string& run,
                               const std::vector<std::string>& overrides, bool needs_data,
                               bool whole_data = false, UnknownFields* unknown = nullptr);

struct PublishedAdapter {
  std::int64_t rank = 0;
  double alpha = 0, dropout = 0;  // the changes are multiplied by alpha / rank
};
// Reads an adapter_config.json. Throws InputError as read_published_config() does.
PublishedAdapter read_adapter_config(const JsonValue& json, const std::string& path,
                                     UnknownFields& unknown);

// --- arguments of import_model ---

struct PublishedTensor {
  std::string path;  // path of the file
  std::string name;  // name in that file
  Shape shape;
  // Returns float32. Throws InputError if the tensor holds integers or cannot be read.
  std::function<Array()> read;
};

// The tensors of a model of another program, by name.
struct PublishedWeights {
  std::string path;     // path of the file, or of the index of several files
  std::string request;  // what requires the tensors, for messages: "config.json asks for"
  std::map<std::string, PublishedTensor> tensors{};

  // Returns a tensor. Throws InputError if it is missing or has another shape.
  const PublishedTensor& find(const std::string& name, const Shape& shape) const;
};

// Adds the tensors of a safetensors file. Throws InputError if the file is damaged, or if a name
// occurs twice.
void add_safetensors(const std::string& path, PublishedWeights& weights);

// Returns the tensors of a folder: of model.safetensors, or of the files that
// model.safetensors.index.json names. Throws InputError if a file is missing, damaged, or has other
// tensors than the index names.
PublishedWeights read_published_weights(const std::string& folder);

// Returns the tensor as float32. Throws InputError if its numbers are not finite.
Array read_finite(const PublishedTensor& tensor);

// Returns whether shapes and elements, as float32, are equal. Throws InputError if a tensor holds
// integers or cannot be read.
bool are_equal(const PublishedTensor& a, const PublishedTensor& b);

// The tokenizer and other files, which the metadata of a language model store for export.
using Metadata = std::map<std::string, std::string>;

// The files that are stored unchanged, their maximum size in bytes, and the names of their
// metadata.
inline constexpr const char* kept_file_names[] = {"tokenizer_config.json", "generation_config.json",
                                                  "chat_template.jinja"};
inline constexpr std::int64_t max_kept_bytes = 1 << 20;
std::string kept_file(const std::string& name);

struct EndTokens {
  std::string path;
  JsonValue ids;
};
// Adds the ids of special tokens to the metadata: bos_token_id, eos_token_id and pad_token_id of
// `config`, and the tokens that end a text, a number or a list in the file `path`. Throws
// InputError if these are not ids of tokens.
void keep_special_tokens(const JsonValue& config, const EndTokens& ends, Metadata& metadata);

// Returns an object of the ids of special tokens, which is empty if none were stored. Throws
// InputError for anything else.
JsonValue kept_special_tokens(const Metadata& metadata);

struct ImportedTokens {
  Metadata metadata{};
  // Keys of a config that describe the metadata's tokenizer.
  std::map<std::string, std::string> settings{};
};

struct PublishedModel {
  std::string name;         // name of the run
  std::string config_path;  // path of the file that describes the model
  PublishedConfig config{};
  ImportedTokens tokens{};
  TensorFormat format{};
  PublishedWeights weights{};
  UnknownFields unknown{};
};

// Constructs the model with its weights. `overrides` change keys of its config. Throws InputError
// if a tensor is missing, superfluous, of another shape or not finite, or, before the model is
// constructed, if the config describes a larger model than the weights or another number of learned
// positions. If the model ties head and embedding table, the file may have only one of them.
ImportedModel import_model(const PublishedModel& published,
                           const std::vector<std::string>& overrides);

}  // namespace tapestry
