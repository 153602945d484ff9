#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/json.hpp"
#include "train/tasks/transformer_settings.hpp"
#include "train/tools/convert/fields.hpp"

// Architectures of language models in other programs, and the configs that describe them.
namespace tapestry {

class LanguageModel;
using TransformerGiven = Given<TransformerSettings>;

enum class Architecture { gpt2, llama, qwen2, qwen3 };

struct ArchitectureNames {
  Architecture architecture;
  const char* class_name;  // in "architectures" of a config.json
  // The name in "model_type" of a config.json and in general.architecture of GGUF files.
  const char* model_type;
};
const ArchitectureNames& names_of(Architecture architecture);

// Returns the architecture whose name of this kind is `name`. Throws InputError that names the
// field if there is none.
Architecture architecture_named(const std::string& name, const char* ArchitectureNames::*kind,
                                const Fields& fields, const char* field);

// A transformer, described by a config.json or by the fields of a GGUF file.
struct PublishedConfig {
  Architecture architecture{};
  std::int64_t vocabulary = 0, context = 0, layers = 0, width = 0, feed_forward = 0;
  std::int64_t heads = 0, key_value_heads = 0, head_width = 0;
  Activation activation = Activation::gelu_tanh;
  double norm_epsilon = 1e-5, dropout = 0;
  RotaryForm rotary{};
  AttentionBias attention_bias = AttentionBias::all;
  bool feed_forward_bias = true, tied_embeddings = true;
};

// The names of a number in the config.json of GPT-2 and of other models, and in GGUF files.
struct NumberNames {
  std::int64_t PublishedConfig::*number;
  const char *gpt2, *llama, *gguf;
};
inline constexpr NumberNames number_names[] = {
    {&PublishedConfig::context, "n_positions", "max_position_embeddings", "context_length"},
    {&PublishedConfig::width, "n_embd", "hidden_size", "embedding_length"},
    {&PublishedConfig::layers, "n_layer", "num_hidden_layers", "block_count"},
    {&PublishedConfig::heads, "n_head", "num_attention_heads", "attention.head_count"}};

// Returns the keys of a config that describe the model, and their values.
std::vector<std::pair<std::string, Value>> settings_of(const PublishedConfig& published);

// Returns the description of a config's model, with the context of the model that it was tuned
// from, if that is longer. Throws InputError that names the key if no architecture supports the
// key's value.
PublishedConfig published_config(const TransformerGiven& model, const LanguageModel& task);

// Returns the architecture of a config. Throws InputError as published_config does.
Architecture architecture_of(const TransformerGiven& model);

// Throws InputError that names the key if llama.cpp computes this config differently, and as
// published_config does.
void expect_llama_cpp(const TransformerGiven& model);

// Returns model.key_value_heads, or the number of heads if that is 0.
std::int64_t key_value_heads_of(const TransformerGiven& model);

// Reads a config.json. Throws InputError for an unknown architecture, and for a field that is
// missing or invalid, or unknown as Fields::expect_all_known() says.
PublishedConfig read_published_config(const JsonValue& json, const std::string& path,
                                      UnknownFields& unknown);

// Returns the config.json of a model, without the ids of special tokens.
JsonValue published_json(const PublishedConfig& published);

}  // namespace tapestry
