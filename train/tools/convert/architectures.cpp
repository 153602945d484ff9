#include "train/tools/convert/architectures.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/json.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tasks/transformer_keys.hpp"
#include "train/tools/convert/fields.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;
using Ordered = JsonValue;
using Settings = std::vector<std::pair<std::string, Value>>;

struct Names {
  Architecture architecture;
  const char* class_name;
  const char* model_type;
};
constexpr Names all_names[] = {{Architecture::gpt2, "GPT2LMHeadModel", "gpt2"},
                               {Architecture::llama, "LlamaForCausalLM", "llama"},
                               {Architecture::qwen2, "Qwen2ForCausalLM", "qwen2"},
                               {Architecture::qwen3, "Qwen3ForCausalLM", "qwen3"}};

const Names& names_of(Architecture architecture) {
  return *std::ranges::find(all_names, architecture, &Names::architecture);
}

// Their names of activations, and ours.
const std::vector<std::pair<const char*, Activation>>& activation_names() {
  static const std::vector<std::pair<const char*, Activation>> names = {
      {"silu", Activation::silu},          {"swish", Activation::silu},
      {"gelu", Activation::gelu},          {"gelu_new", Activation::gelu_tanh},
      {"relu", Activation::relu},          {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}};
  return names;
}

Value activation_of(Fields& fields, const std::string& field, const std::string& otherwise) {
  const std::string name = fields.text(field, otherwise);
  for (const auto& [theirs, ours] : activation_names())
    if (name == theirs) return key::activation.name_of(ours);
  fields.fail(field, "silu, gelu, gelu_new, gelu_pytorch_tanh or relu");
}

std::string activation_name(const Config& config) {
  return std::ranges::find(activation_names(), config[key::activation],
                           &std::pair<const char*, Activation>::second)
      ->first;
}

// What every config.json may hold, and what changes how a model is trained, stored or used but
// not what it computes.
void ignore_common(Fields& fields) {
  fields.ignore({"architectures",
                 "transformers_version",
                 "torch_dtype",
                 "dtype",
                 "use_cache",
                 "_name_or_path",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "unk_token_id",
                 "sep_token_id",
                 "task_specific_params",
                 "output_attentions",
                 "output_hidden_states",
                 "return_dict",
                 "attn_implementation",
                 "_attn_implementation_autoset",
                 "tokenizer_class",
                 "id2label",
                 "label2id",
                 "problem_type",
                 "gradient_checkpointing",
                 "transformers.js_config",
                 "initializer_range",
                 "attention_dropout",
                 "attn_pdrop",
                 "embd_pdrop",
                 "resid_pdrop",
                 "unsloth_version",
                 "torchscript",
                 "use_bfloat16",
                 "model_name"});
  fields.expect("add_cross_attention", {false});
  fields.expect("is_encoder_decoder", {false});
  fields.expect("is_decoder", {true, false});
  fields.expect("pruned_heads", {Json::object()});
}

void read_gpt2(Fields& fields, PublishedConfig& config) {
  fields.ignore({"n_ctx", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj", "reorder_and_upcast_attn", "output_past"});
  fields.expect("scale_attn_weights", {true});
  fields.expect("scale_attn_by_inverse_layer_idx", {false});
  const std::int64_t width = fields.count("n_embd");
  config.settings = {
      {key::layers.name, fields.count("n_layer")},
      {key::heads.name, fields.count("n_head")},
      {key::width.name, width},
      {key::feed_forward.name, fields.optional_count("n_inner").value_or(4 * width)},
      {key::context.name, fields.count("n_positions")},
      {key::activation.name, activation_of(fields, "activation_function", "gelu_new")},
      {key::norm_epsilon.name, fields.number("layer_norm_epsilon", 1e-5)},
      {key::tied_embeddings.name, fields.flag("tie_word_embeddings", true)}};
}

// Rotary positions: their base, and Llama 3's scaling where they have one.
void read_rotary(Fields& scaling, Settings& settings) {
  std::string kind = scaling.text("rope_type", "");
  if (kind.empty()) kind = scaling.text("type", "default");
  scaling.ignore({"type", "rope_theta"});
  if (kind == "default") return;
  if (kind != "llama3") scaling.fail("rope_type", "default or llama3");
  settings.insert(
      settings.end(),
      {{key::rotary_scaling.name, key::rotary_scaling.name_of(RotaryScalingKind::llama3)},
       {key::rotary_factor.name, scaling.number("factor")},
       {key::rotary_low_frequency.name, scaling.number("low_freq_factor")},
       {key::rotary_high_frequency.name, scaling.number("high_freq_factor")},
       {key::rotary_original_context.name, scaling.count("original_max_position_embeddings")}});
}

void read_rotary(Fields& fields, const std::string& path, Settings& settings) {
  double base = fields.number("rope_theta", 10000.0);
  for (const char* name : {"rope_scaling", "rope_parameters"})  // the latter since version 5
    if (const Json* object = fields.object(name)) {
      Fields scaling(*object, path, std::string(name) + ".");
      base = scaling.number("rope_theta", base);
      read_rotary(scaling, settings);
      scaling.expect_all_known();
    }
  settings.emplace_back(key::rotary_base.name, base);
}

void read_llama(Fields& fields, const std::string& path, PublishedConfig& config) {
  const bool qwen =
      config.architecture == Architecture::qwen2 || config.architecture == Architecture::qwen3;
  const std::int64_t heads = fields.count("num_attention_heads");
  const bool attention_bias =
      config.architecture != Architecture::qwen2 && fields.flag("attention_bias", false);
  const bool feed_forward_bias = !qwen && fields.flag("mlp_bias", false);
  fields.expect("rope_interleaved", {false});
  fields.expect("partial_rotary_factor", {1.0, 1, nullptr});
  if (!qwen) {
    fields.expect("pretraining_tp", {1});
    fields.ignore({"is_llama_config"});
  } else {
    fields.expect("use_sliding_window", {false});
    fields.expect("use_mrope", {false});
    fields.ignore({"sliding_window", "max_window_layers"});
    fields.expect_each("layer_types", "full_attention");
  }
  using enum AttentionBias;
  const AttentionBias biases = config.architecture == Architecture::qwen2 ? inputs
                               : attention_bias                           ? all
                                                                          : none;
  config.settings = {
      {key::layers.name, fields.count("num_hidden_layers")},
      {key::heads.name, heads},
      {key::key_value_heads.name, fields.optional_count("num_key_value_heads").value_or(heads)},
      {key::head_width.name, fields.optional_count("head_dim").value_or(0)},
      {key::width.name, fields.count("hidden_size")},
      {key::feed_forward.name, fields.count("intermediate_size")},
      {key::context.name, fields.count("max_position_embeddings")},
      {key::activation.name, activation_of(fields, "hidden_act", "silu")},
      {key::gated.name, true},
      {key::norm_kind.name, key::norm_kind.name_of(NormKind::rms)},
      {key::norm_epsilon.name, fields.number("rms_norm_eps", 1e-6)},
      {key::positions.name, key::positions.name_of(Positions::rotary)},
      {key::rotary_pairs.name, key::rotary_pairs.name_of(RotaryPairs::halves)},
      {key::query_key_norm.name, config.architecture == Architecture::qwen3},
      {key::bias.name, feed_forward_bias},
      {key::attention_bias.name, key::attention_bias.name_of(biases)},
      {key::tied_embeddings.name, fields.flag("tie_word_embeddings", false)}};
  read_rotary(fields, path, config.settings);
}

Architecture read_architecture(Fields& fields, const Json& json) {
  std::vector<std::string> known;
  for (const Names& names : all_names) known.emplace_back(names.class_name);
  const std::string expected = fmt::format("one of {}", fmt::join(known, ", "));
  const auto named = json.find("architectures");
  const bool is_list = named != json.end() && named->is_array() && named->size() == 1;
  if (!is_list || !(*named)[0].is_string()) fields.fail("architectures", "a list of " + expected);
  for (const Names& names : all_names)
    if ((*named)[0] == names.class_name) {
      fields.expect("model_type", {names.model_type});
      return names.architecture;
    }
  fields.fail("architectures", expected);
}

// What keeps a model from being one of any architecture. `wanted` completes "expected …".
void expect_published(const Config& config, bool holds, const KeyInfo& key, const char* wanted) {
  config.expect(holds, key,
                "no architecture of Hugging Face's library that Tapestry knows has this; expected "
                "{}; --format safetensors takes the weights out of any model",
                wanted);
}

std::int64_t heads_of_keys(const Config& config) {
  const std::int64_t heads = config[key::key_value_heads];
  return heads > 0 ? heads : config[key::heads];
}

std::int64_t head_width_of(const Config& config) {
  const std::int64_t width = config[key::head_width];
  return width > 0 ? width : config[key::width] / config[key::heads];
}

AttentionBias attention_bias_of(const Config& config) {
  const AttentionBias given = config[key::attention_bias];
  if (given != AttentionBias::same) return given;
  return config[key::bias] ? AttentionBias::all : AttentionBias::none;
}

void expect_gpt2(const Config& config) {
  const auto expect = [&](bool holds, const KeyInfo& key, const char* wanted) {
    expect_published(config, holds, key, wanted);
  };
  expect(config[key::positions] == Positions::learned, key::positions,
         "\"learned\" with layer norms, or \"rotary\" with model.norm_kind = \"rms\"");
  expect(!config[key::gated], key::gated, "false with layer norms");
  expect(config[key::bias], key::bias, "true with layer norms");
  expect(attention_bias_of(config) == AttentionBias::all, key::attention_bias,
         "\"same\" with layer norms");
  expect(heads_of_keys(config) == config[key::heads], key::key_value_heads, "0 with layer norms");
  expect(head_width_of(config) * config[key::heads] == config[key::width], key::head_width,
         "0 with layer norms");
  expect(!config[key::query_key_norm], key::query_key_norm, "false with layer norms");
}

void expect_llama(const Config& config, Architecture architecture) {
  const auto expect = [&](bool holds, const KeyInfo& key, const char* wanted) {
    expect_published(config, holds, key, wanted);
  };
  expect(config[key::positions] == Positions::rotary, key::positions,
         "\"rotary\" with RMS norms, or \"learned\" with model.norm_kind = \"layer\"");
  expect(config[key::gated], key::gated, "true with RMS norms");
  if (architecture == Architecture::llama) return;
  expect(!config[key::bias], key::bias,
         architecture == Architecture::qwen2
             ? "false where queries, keys and values alone have biases"
             : "false with norms of queries and keys; model.attention_bias = \"all\" gives "
               "attention its own");
  if (architecture == Architecture::qwen3)
    expect(attention_bias_of(config) != AttentionBias::inputs, key::attention_bias,
           "\"all\" or \"none\" with norms of queries and keys");
}

Ordered gpt2_config(const Config& config) {
  const std::int64_t feed_forward = config[key::feed_forward];
  return {{"activation_function", activation_name(config)},
          {"layer_norm_epsilon", config[key::norm_epsilon]},
          {"n_ctx", config[key::context]},
          {"n_embd", config[key::width]},
          {"n_head", config[key::heads]},
          {"n_inner", feed_forward > 0 ? Ordered(feed_forward) : Ordered()},
          {"n_layer", config[key::layers]},
          {"n_positions", config[key::context]},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", config[key::dropout]},
          {"resid_pdrop", config[key::dropout]}};
}

Ordered llama_config(const Config& config, Architecture architecture) {
  const std::int64_t feed_forward = config[key::feed_forward];
  Ordered json = {{"hidden_act", activation_name(config)},
                  {"hidden_size", config[key::width]},
                  {"intermediate_size", feed_forward > 0 ? feed_forward : 4 * config[key::width]},
                  {"max_position_embeddings", config[key::context]},
                  {"num_attention_heads", config[key::heads]},
                  {"num_hidden_layers", config[key::layers]},
                  {"num_key_value_heads", heads_of_keys(config)},
                  {"head_dim", head_width_of(config)},
                  {"rms_norm_eps", config[key::norm_epsilon]},
                  {"rope_theta", config[key::rotary_base]},
                  {"rope_scaling", nullptr},
                  {"attention_dropout", 0.0}};
  if (config[key::rotary_scaling] == RotaryScalingKind::llama3)
    json["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", config[key::rotary_factor]},
        {"low_freq_factor", config[key::rotary_low_frequency]},
        {"high_freq_factor", config[key::rotary_high_frequency]},
        {"original_max_position_embeddings", config[key::rotary_original_context]}};
  if (architecture != Architecture::qwen2)
    json["attention_bias"] = attention_bias_of(config) == AttentionBias::all;
  if (architecture == Architecture::llama) json["mlp_bias"] = config[key::bias];
  if (architecture != Architecture::llama) json["use_sliding_window"] = false;
  return json;
}

}  // namespace

HeadCounts head_counts(const Config& config) {
  return {.heads = config[key::heads],
          .key_value_heads = heads_of_keys(config),
          .head_width = head_width_of(config)};
}

bool turns_neighbours(const Config& config) {
  return config[key::positions] == Positions::rotary &&
         config[key::rotary_pairs] == RotaryPairs::neighbours;
}

std::string to_string(Architecture architecture) { return names_of(architecture).class_name; }

std::string model_type_of(Architecture architecture) { return names_of(architecture).model_type; }

std::optional<Architecture> architecture_of_type(std::string_view model_type) {
  const auto found = std::ranges::find(all_names, model_type, &Names::model_type);
  return found == std::end(all_names) ? std::nullopt : std::optional(found->architecture);
}

std::string model_types() {
  std::vector<std::string> types;
  for (const Names& names : all_names) types.emplace_back(names.model_type);
  return fmt::format("{}", fmt::join(types, ", "));
}

PublishedConfig read_published_config(const Json& json, const std::string& path) {
  Fields fields(json, path);
  PublishedConfig config{.architecture = read_architecture(fields, json)};
  config.vocabulary = fields.count("vocab_size");
  ignore_common(fields);
  if (config.architecture == Architecture::gpt2)
    read_gpt2(fields, config);
  else
    read_llama(fields, path, config);
  fields.expect_all_known();
  return config;
}

Architecture architecture_of(const Config& config) {
  const auto expect = [&](bool holds, const KeyInfo& key, const char* wanted) {
    expect_published(config, holds, key, wanted);
  };
  expect(config[key::norm] == NormPlacement::pre, key::norm, "\"pre\"");
  expect(config[key::attention] == AttentionKind::softmax, key::attention, "\"softmax\"");
  expect(config[key::window] == 0, key::window, "0");
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

Architecture gguf_architecture_of(const Config& config) {
  const Architecture architecture = architecture_of(config);
  const std::string type = model_type_of(architecture);
  const auto expect = [&](bool holds, const KeyInfo& key, const char* wanted) {
    config.expect(holds, key,
                  "llama.cpp computes a {} without this; expected {}; --format huggingface takes "
                  "the model as it is",
                  type, wanted);
  };
  if (architecture == Architecture::gpt2) {
    expect(config[key::activation] == Activation::gelu_tanh, key::activation, "\"gelu_tanh\"");
    return architecture;
  }
  expect(config[key::activation] == Activation::silu, key::activation, "\"silu\"");
  if (architecture == Architecture::llama) return architecture;
  expect(config[key::rotary_scaling] == RotaryScalingKind::none, key::rotary_scaling, "\"none\"");
  if (architecture == Architecture::qwen2)
    expect(head_width_of(config) * config[key::heads] == config[key::width], key::head_width, "0");
  else
    expect(attention_bias_of(config) == AttentionBias::none, key::attention_bias, "\"none\"");
  return architecture;
}

Ordered published_config(const Config& config, std::int64_t vocabulary) {
  const Architecture architecture = architecture_of(config);
  const Names& names = names_of(architecture);
  Ordered json = {{"architectures", {names.class_name}}, {"model_type", names.model_type}};
  json.update(architecture == Architecture::gpt2 ? gpt2_config(config)
                                                 : llama_config(config, architecture));
  json["tie_word_embeddings"] = config[key::tied_embeddings];
  json["vocab_size"] = vocabulary;
  json["torch_dtype"] = "float32";
  json["initializer_range"] = 0.02;
  json["use_cache"] = true;
  return json;
}

}  // namespace tapestry
