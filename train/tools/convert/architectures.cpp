#include "train/tools/convert/architectures.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "train/tasks/language/language_model.hpp"

namespace tapestry {
namespace {

constexpr ArchitectureNames all_names[] = {{Architecture::gpt2, "GPT2LMHeadModel", "gpt2"},
                                           {Architecture::llama, "LlamaForCausalLM", "llama"},
                                           {Architecture::qwen2, "Qwen2ForCausalLM", "qwen2"},
                                           {Architecture::qwen3, "Qwen3ForCausalLM", "qwen3"}};

std::int64_t head_width_of(const Config& config) {
  const std::int64_t width = config[key::head_width];
  return width > 0 ? width : config[key::width] / config[key::heads];
}

AttentionBias attention_bias_of(const Config& config) {
  const AttentionBias given = config[key::attention_bias];
  if (given != AttentionBias::same) return given;
  return config[key::bias] ? AttentionBias::all : AttentionBias::none;
}

// A value that a key must have for one of the architectures.
struct Expected {
  bool holds;
  const KeyInfo& key;
  const char* values;
};

// Throws InputError "key = value: `reason`; expected …; `advice`" for the first key that has
// another value.
void expect_each(const Config& config, const std::string& reason, const char* advice,
                 std::initializer_list<Expected> all) {
  for (const Expected& each : all)
    config.expect(each.holds, each.key, "{}; expected {}; {}", reason, each.values, advice);
}

void expect_published(const Config& config, std::initializer_list<Expected> all) {
  expect_each(config, "no supported Hugging Face architecture has this",
              "use another model, or export with --format safetensors", all);
}

void expect_gpt2(const Config& config) {
  expect_published(
      config, {{config[key::positions] == Positions::learned, key::positions,
                "\"learned\" with layer norms, or \"rotary\" with model.norm_kind = \"rms\""},
               {!config[key::gated], key::gated, "false with layer norms"},
               {config[key::bias], key::bias, "true with layer norms"},
               {attention_bias_of(config) == AttentionBias::all, key::attention_bias,
                "\"same\" with layer norms"},
               {key_value_heads_of(config) == config[key::heads], key::key_value_heads,
                "0 with layer norms"},
               {head_width_of(config) * config[key::heads] == config[key::width], key::head_width,
                "0 with layer norms"},
               {!config[key::query_key_norm], key::query_key_norm, "false with layer norms"}});
}

void expect_llama(const Config& config, Architecture architecture) {
  const bool is_llama = architecture == Architecture::llama,
             is_qwen2 = architecture == Architecture::qwen2;
  expect_published(
      config,
      {{config[key::positions] == Positions::rotary, key::positions,
        "\"rotary\" with RMS norms, or \"learned\" with model.norm_kind = \"layer\""},
       {config[key::gated], key::gated, "true with RMS norms"},
       {is_llama || !config[key::bias], key::bias,
        is_qwen2 ? "false if only queries, keys and values have biases"
                 : "false with norms of queries and keys; for biases of attention alone, set "
                   "model.attention_bias = \"all\""},
       {architecture != Architecture::qwen3 || attention_bias_of(config) != AttentionBias::inputs,
        key::attention_bias, "\"all\" or \"none\" with norms of queries and keys"}});
}

}  // namespace

const ArchitectureNames& names_of(Architecture architecture) {
  return *std::ranges::find(all_names, architecture, &ArchitectureNames::architecture);
}

Architecture architecture_named(const std::string& name, const char* ArchitectureNames::*kind,
                                const Fields& fields, const char* field) {
  std::vector<std::string> known;
  for (const ArchitectureNames& names : all_names) {
    if (name == names.*kind) return names.architecture;
    known.emplace_back(names.*kind);
  }
  fields.fail(field, fmt::format("one of {}", fmt::join(known, ", ")));
}

std::vector<std::pair<std::string, Value>> settings_of(const PublishedConfig& published) {
  std::vector<std::pair<std::string, Value>> settings = {
      {key::vocabulary.name, published.vocabulary},
      {key::context.name, published.context},
      {key::layers.name, published.layers},
      {key::heads.name, published.heads},
      {key::width.name, published.width},
      {key::feed_forward.name, published.feed_forward},
      {key::activation.name, key::activation.name_of(published.activation)},
      {key::norm_epsilon.name, published.norm_epsilon},
      {key::tied_embeddings.name, published.tied_embeddings}};
  if (published.architecture == Architecture::gpt2) return settings;
  settings.insert(
      settings.end(),
      {{key::key_value_heads.name, published.key_value_heads},
       {key::head_width.name, published.head_width},
       {key::gated.name, true},
       {key::norm_kind.name, key::norm_kind.name_of(NormKind::rms)},
       {key::positions.name, key::positions.name_of(Positions::rotary)},
       {key::rotary_pairs.name, key::rotary_pairs.name_of(RotaryPairs::halves)},
       {key::rotary_base.name, published.rotary.base},
       {key::query_key_norm.name, published.architecture == Architecture::qwen3},
       {key::bias.name, published.feed_forward_bias},
       {key::attention_bias.name, key::attention_bias.name_of(published.attention_bias)}});
  if (const auto& scaling = published.rotary.scaling)
    settings.insert(
        settings.end(),
        {{key::rotary_scaling.name, key::rotary_scaling.name_of(RotaryScalingKind::llama3)},
         {key::rotary_factor.name, scaling->factor},
         {key::rotary_low_frequency.name, scaling->low_frequency},
         {key::rotary_high_frequency.name, scaling->high_frequency},
         {key::rotary_original_context.name, scaling->original_context}});
  return settings;
}

PublishedConfig published_config(const Config& config, const LanguageModel& task) {
  const Architecture architecture = architecture_of(config);
  const std::int64_t vocabulary = task.vocabulary();
  const std::int64_t width = config[key::width], feed_forward = config[key::feed_forward];
  const TransformerOptions options = transformer_options(config, vocabulary, config[key::context]);
  return {.architecture = architecture,
          .vocabulary = vocabulary,
          .context = task.source_context(),
          .layers = config[key::layers],
          .width = width,
          .feed_forward = feed_forward > 0 ? feed_forward : 4 * width,
          .heads = config[key::heads],
          .key_value_heads = key_value_heads_of(config),
          .head_width = head_width_of(config),
          .activation = config[key::activation],
          .norm_epsilon = config[key::norm_epsilon],
          .dropout = config[key::dropout],
          .rotary = options.block.attention.rotary,
          .attention_bias = attention_bias_of(config),
          .feed_forward_bias = config[key::bias],
          .tied_embeddings = config[key::tied_embeddings]};
}

Architecture architecture_of(const Config& config) {
  expect_published(
      config, {{config[key::norm] == NormPlacement::pre, key::norm, "\"pre\""},
               {config[key::attention] == AttentionKind::softmax, key::attention, "\"softmax\""},
               {config[key::window] == 0, key::window, "0"}});
  if (config[key::norm_kind] == NormKind::layer) {
    expect_gpt2(config);
    return Architecture::gpt2;
  }
  const Architecture architecture = config[key::query_key_norm] ? Architecture::qwen3
                                    : attention_bias_of(config) == AttentionBias::inputs
                                        ? Architecture::qwen2
                                        : Architecture::llama;
  expect_llama(config, architecture);
  return architecture;
}

void expect_llama_cpp(const Config& config) {
  const Architecture architecture = architecture_of(config);
  const bool is_gpt2 = architecture == Architecture::gpt2,
             is_qwen2 = architecture == Architecture::qwen2,
             is_qwen3 = architecture == Architecture::qwen3;
  expect_each(
      config,
      fmt::format("llama.cpp does not support this for {}", names_of(architecture).model_type),
      "--format huggingface writes the model unchanged",
      {{!is_gpt2 || config[key::activation] == Activation::gelu_tanh, key::activation,
        "\"gelu_tanh\""},
       {is_gpt2 || config[key::activation] == Activation::silu, key::activation, "\"silu\""},
       {!(is_qwen2 || is_qwen3) || config[key::rotary_scaling] == RotaryScalingKind::none,
        key::rotary_scaling, "\"none\""},
       {!is_qwen2 || head_width_of(config) * config[key::heads] == config[key::width],
        key::head_width, "0"},
       {!is_qwen3 || attention_bias_of(config) == AttentionBias::none, key::attention_bias,
        "\"none\""}});
}

std::int64_t key_value_heads_of(const Config& config) {
  const std::int64_t heads = config[key::key_value_heads];
  return heads > 0 ? heads : config[key::heads];
}

}  // namespace tapestry
