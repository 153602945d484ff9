#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/settings/config.hpp"

// The transformers of Hugging Face's library that a language model of ours can be: which keys of a
// config are which fields of a config.json.
namespace tapestry {

enum class Architecture { gpt2, llama, qwen2, qwen3 };

// As config.json's "architectures" has it: "LlamaForCausalLM".
std::string to_string(Architecture architecture);

// What a config.json says.
struct PublishedConfig {
  Architecture architecture;
  std::int64_t vocabulary = 0;
  std::vector<std::pair<std::string, Value>> settings{};  // the keys of a config, and their values
};

// InputError for an architecture that we do not have, and for a field that is missing, wrong, or
// that nobody here knows: none is guessed.
PublishedConfig read_published_config(const nlohmann::json& json, const std::string& path);

// How many heads a config's transformer has of each kind.
struct HeadCounts {
  std::int64_t heads = 1, key_value_heads = 1;
};
HeadCounts head_counts(const Config& config);

// Whether rotary positions turn columns 2k and 2k + 1 together, where published models turn k and
// k + D/2.
bool turns_neighbours(const Config& config);

// The architecture that a language model's config is. InputError names the key that is in the way
// of all of them.
Architecture architecture_of(const Config& config);

// Its config.json, but for the numbers of special tokens.
nlohmann::ordered_json published_config(const Config& config, std::int64_t vocabulary);

}  // namespace tapestry
