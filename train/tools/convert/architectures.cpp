#include "train/tools/convert/architectures.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "train/tasks/language/language_model.hpp"

namespace tapestry {
namespace {

constexpr ArchitectureNames all_names[] = {{Architecture::gpt2, "GPT2LMHeadModel", "gpt2"},
                                           {Architecture::llama, "LlamaForCausalLM", "llama"},
                                           {Architecture::qwen2, "Qwen2ForCausalLM", "qwen2"},
                                           {Architecture::qwen3, "Qwen3ForCausalLM", "qwen3"}};

std::int64_t head_width_of(const TransformerGiven& model) {
  const std::int64_t width = model.block.attention.head_width;
  return width > 0 ? width : model.block.width / model.block.attention.heads;
}

AttentionBias attention_bias_of(const TransformerGiven& model) {
  const AttentionBias given = model.attention_bias;
  if (given != AttentionBias::same) return given;
  return model.bias ? AttentionBias::all : AttentionBias::none;
}

// A value that an option must have for one of the architectures.
struct Expected {
  bool holds;
  const char *option, *values;
};

// Throws InputError "key = value: `reason`; expected …; `advice`" for the first key that has
// another value.
void expect_each(const TransformerGiven& model, const std::string& reason, const char* advice,
                 std::initializer_list<Expected> all) {
  for (const Expected& each : all)
    model.expect(each.holds, each.option, "{}; expected {}; {}", reason, each.values, advice);
}

void expect_published(const TransformerGiven& model, std::initializer_list<Expected> all) {
  expect_each(model, "no supported Hugging Face architecture has this",
              "use another model, or export with --format safetensors", all);
}

void expect_gpt2(const TransformerGiven& model) {
  expect_published(model,
                   {{model.block.attention.positions == Positions::learned, "positions",
                     "\"learned\" with layer norms, or \"rotary\" with model.norm_kind = \"rms\""},
                    {!model.block.feed_forward.gated, "gated", "false with layer norms"},
                    {model.bias, "bias", "true with layer norms"},
                    {attention_bias_of(model) == AttentionBias::all, "attention_bias",
                     "\"same\" with layer norms"},
                    {key_value_heads_of(model) == model.block.attention.heads, "key_value_heads",
                     "0 with layer norms"},
                    {head_width_of(model) * model.block.attention.heads == model.block.width,
                     "head_width", "0 with layer norms"},
                    {!model.query_key_norm, "query_key_norm", "false with layer norms"}});
}

void expect_llama(const TransformerGiven& model, Architecture architecture) {
  const bool is_llama = architecture == Architecture::llama,
             is_qwen2 = architecture == Architecture::qwen2;
  expect_published(
      model,
      {{model.block.attention.positions == Positions::rotary, "positions",
        "\"rotary\" with RMS norms, or \"learned\" with model.norm_kind = \"layer\""},
       {model.block.feed_forward.gated, "gated", "true with RMS norms"},
       {is_llama || !model.bias, "bias",
        is_qwen2 ? "false if only queries, keys and values have biases"
                 : "false with norms of queries and keys; for biases of attention alone, set "
                   "model.attention_bias = \"all\""},
       {architecture != Architecture::qwen3 || attention_bias_of(model) != AttentionBias::inputs,
        "attention_bias", "\"all\" or \"none\" with norms of queries and keys"}});
}

}  // namespace

const ArchitectureNames& names_of(Architecture architecture) {
  return *std::ranges::find(all_names, architecture, &ArchitectureNames::architecture);
}

Architecture architecture_named(const std::string& name, const char* ArchitectureNames::*kind,
                                const Fields& fields, const char* field) {
  const auto* found = std::ranges::find(all_names, std::string_view(name), kind);
  if (found != std::end(all_names)) return found->architecture;
  const auto known = all_names | std::views::transform(kind);
  fields.fail(field, fmt::format("one of {}", fmt::join(known, ", ")));
}

std::vector<std::pair<std::string, Value>> settings_of(const PublishedConfig& published) {
  std::vector<std::pair<std::string, Value>> settings = {
      {"model.vocabulary", published.vocabulary},
      {"model.context", published.context},
      {"model.layers", published.layers},
      {"model.heads", published.heads},
      {"model.width", published.width},
      {"model.feed_forward", published.feed_forward},
      {"model.activation", name_of(published.activation)},
      {"model.norm_epsilon", published.norm_epsilon},
      {"model.tied_embeddings", published.tied_embeddings}};
  if (published.architecture == Architecture::gpt2) return settings;
  TransformerSettings biases;
  biases.attention_bias = published.attention_bias;
  settings.insert(settings.end(),
                  {{"model.key_value_heads", published.key_value_heads},
                   {"model.head_width", published.head_width},
                   {"model.gated", true},
                   {"model.norm_kind", std::string("rms")},
                   {"model.positions", std::string("rotary")},
                   {"model.rotary_pairs", std::string("halves")},
                   {"model.rotary_base", published.rotary.base},
                   {"model.query_key_norm", published.architecture == Architecture::qwen3},
                   {"model.bias", published.feed_forward_bias},
                   {"model.attention_bias", transformer_settings.text("attention_bias", biases)}});
  if (const auto& scaling = published.rotary.scaling)
    settings.insert(settings.end(), {{"model.rotary_scaling", std::string("llama3")},
                                     {"model.rotary_factor", scaling->factor},
                                     {"model.rotary_low_frequency", scaling->low_frequency},
                                     {"model.rotary_high_frequency", scaling->high_frequency},
                                     {"model.rotary_original_context", scaling->original_context}});
  return settings;
}

PublishedConfig published_config(const TransformerGiven& model, const LanguageModel& task) {
  const Architecture architecture = architecture_of(model);
  const std::int64_t vocabulary = task.vocabulary();
  const std::int64_t width = model.block.width, feed_forward = model.block.feed_forward.hidden;
  const TransformerOptions options = transformer_options(model, vocabulary, task.context());
  return {.architecture = architecture,
          .vocabulary = vocabulary,
          .context = task.source_context(),
          .layers = model.layers,
          .width = width,
          .feed_forward = feed_forward > 0 ? feed_forward : 4 * width,
          .heads = model.block.attention.heads,
          .key_value_heads = key_value_heads_of(model),
          .head_width = head_width_of(model),
          .activation = model.block.feed_forward.activation,
          .norm_epsilon = model.block.norms.epsilon,
          .dropout = model.block.dropout,
          .rotary = options.block.attention.rotary,
          .attention_bias = attention_bias_of(model),
          .feed_forward_bias = model.bias,
          .tied_embeddings = model.tied_embeddings};
}

Architecture architecture_of(const TransformerGiven& model) {
  expect_published(
      model, {{model.block.norm == NormPlacement::pre, "norm", "\"pre\""},
              {model.attention == AttentionKind::softmax, "attention", "\"softmax\""},
              {model.block.attention.window == 0, "window", "0"},
              {model.block.feed_forward.hidden >= 0, "feed_forward", "0 or more"},
              {model.block.norms.kind != NormKind::none, "norm_kind", "\"layer\" or \"rms\""}});
  if (model.block.norms.kind == NormKind::layer) {
    expect_gpt2(model);
    return Architecture::gpt2;
  }
  const Architecture architecture = model.query_key_norm ? Architecture::qwen3
                                    : attention_bias_of(model) == AttentionBias::inputs
                                        ? Architecture::qwen2
                                        : Architecture::llama;
  expect_llama(model, architecture);
  return architecture;
}

void expect_llama_cpp(const TransformerGiven& model) {
  const Architecture architecture = architecture_of(model);
  const bool is_gpt2 = architecture == Architecture::gpt2,
             is_qwen2 = architecture == Architecture::qwen2,
             is_qwen3 = architecture == Architecture::qwen3;
  expect_each(
      model,
      fmt::format("llama.cpp does not support this for {}", names_of(architecture).model_type),
      "--format huggingface writes the model unchanged",
      {{!is_gpt2 || model.block.feed_forward.activation == Activation::gelu_tanh, "activation",
        "\"gelu_tanh\""},
       {is_gpt2 || model.block.feed_forward.activation == Activation::silu, "activation",
        "\"silu\""},
       {!(is_qwen2 || is_qwen3) || model.rotary_scaling == RotaryScalingKind::none,
        "rotary_scaling", "\"none\""},
       {!is_qwen2 || head_width_of(model) * model.block.attention.heads == model.block.width,
        "head_width", "0"},
       {!is_qwen3 || attention_bias_of(model) == AttentionBias::none, "attention_bias",
        "\"none\""}});
}

std::int64_t key_value_heads_of(const TransformerGiven& model) {
  const std::int64_t heads = model.block.attention.key_value_heads;
  return heads > 0 ? heads : model.block.attention.heads;
}

}  // namespace tapestry
