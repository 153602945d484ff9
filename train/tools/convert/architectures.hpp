#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/json.hpp"
#include "train/config/config.hpp"

// The transformers of Hugging Face's library that a language model of ours can be: which keys of a
// config are which fields of a config.json.
namespace tapestry {

enum class Architecture { gpt2, llama, qwen2, qwen3 };

// As config.json's "architectures" has it: "LlamaForCausalLM".
std::string to_string(Architecture architecture);

// As config.json's "model_type" and GGUF's general.architecture have it: "llama".
std::string model_type_of(Architecture architecture);
std::optional<Architecture> architecture_of_type(std::string_view model_type);
std::string model_types();  // all of them, for a message

// What a config.json says.
struct PublishedConfig {
  Architecture architecture;
  std::int64_t vocabulary = 0;
  std::vector<std::pair<std::string, Value>> settings{};  // the keys of a config, and their values
};

// InputError for an architecture that we do not have, and for a field that is missing, wrong, or
// that nobody here knows: none is guessed.
PublishedConfig read_published_config(const JsonValue& json, const std::string& path);

// How many heads a config's transformer has of each kind, and how many columns a head.
struct HeadCounts {
  std::int64_t heads = 1, key_value_heads = 1, head_width = 1;
};
HeadCounts head_counts(const Config& config);

// Whether rotary positions turn columns 2k and 2k + 1 together, where published models turn k and
// k + D/2.
bool turns_neighbours(const Config& config);

// The architecture that a language model's config is. InputError names the key that is in the way
// of all of them.
Architecture architecture_of(const Config& config);

// The same as llama.cpp computes it. InputError names the key that is in the way there.
Architecture gguf_architecture_of(const Config& config);

// Its config.json, but for the numbers of special tokens.
JsonValue published_config(const Config& config, std::int64_t vocabulary);

}  // namespace tapestry
