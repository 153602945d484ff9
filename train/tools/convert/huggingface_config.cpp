#include <fmt/format.h>

#include <algorithm>

#include "train/tools/convert/architectures.hpp"

namespace tapestry {
namespace {

// The names of activations in Hugging Face's transformers and here. Export uses the first name of
// each.
constexpr std::pair<const char*, Activation> activation_names[] = {
    {"silu", Activation::silu},          {"swish", Activation::silu},
    {"gelu", Activation::gelu},          {"gelu_new", Activation::gelu_tanh},
    {"relu", Activation::relu},          {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh}};

Activation read_activation(Fields& fields, const std::string& field, const char* otherwise) {
  const std::string name = fields.text(field, otherwise);
  for (const auto& [theirs, ours] : activation_names)
    if (name == theirs) return ours;
  fields.fail(field, "silu, swish, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh or relu");
}

const char* activation_name(Activation activation) {
  return std::ranges::find(activation_names, activation,
                           &std::pair<const char*, Activation>::second)
      ->first;
}

// Marks fields of any config.json that do not change what the model computes as read: those of
// PretrainedConfig and GenerationConfig of transformers 2 to 5, and those of other programs. Throws
// InputError for unsupported values of fields that do.
void ignore_common(Fields& fields) {
  // These describe storage and use of the model.
  fields.ignore({"architectures", "transformers_version", "torch_dtype", "dtype", "use_cache",
                 "name_or_path", "model_name", "tokenizer_class", "prefix", "attn_implementation",
                 "transformers.js_config"});
  fields.ignore({"torchscript", "use_bfloat16", "tf_legacy_loss", "xla_device", "return_dict",
                 "output_attentions", "output_hidden_states", "output_past",
                 "chunk_size_feed_forward"});
  fields.ignore_prefix("_");
  fields.ignore_prefix("unsloth");
  fields.expect("is_causal", {true});  // false: each token reads those after it too
  // These describe training of the model, and special tokens.
  fields.ignore({"initializer_range", "attention_dropout", "attn_pdrop", "embd_pdrop",
                 "resid_pdrop", "gradient_checkpointing", "finetuning_task", "task_specific_params",
                 "id2label", "label2id", "num_labels", "problem_type"});
  fields.ignore({"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id",
                 "cls_token_id", "mask_token_id", "decoder_start_token_id"});
  // These describe the generation of texts: length, beams, sampling, tokens, outputs, speed.
  fields.ignore({"max_length", "max_new_tokens", "min_length", "min_new_tokens", "max_time",
                 "stop_strings", "early_stopping", "num_beams", "num_beam_groups",
                 "diversity_penalty", "penalty_alpha", "length_penalty",
                 "exponential_decay_length_penalty", "num_return_sequences"});
  fields.ignore({"do_sample", "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p",
                 "epsilon_cutoff", "eta_cutoff", "repetition_penalty", "encoder_repetition_penalty",
                 "dola_layers", "guidance_scale", "token_healing", "renormalize_logits",
                 "remove_invalid_values", "watermarking_config"});
  fields.ignore({"no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
                 "force_words_ids", "constraints", "suppress_tokens", "begin_suppress_tokens",
                 "forced_bos_token_id", "forced_eos_token_id", "forced_decoder_ids",
                 "sequence_bias"});
  fields.ignore({"output_scores", "output_logits", "return_dict_in_generate", "generation_kwargs",
                 "low_memory", "cache_implementation", "cache_config", "max_cache_len",
                 "return_legacy_cache", "prefill_chunk_size", "compile_config", "disable_compile",
                 "continuous_batching_config"});
  fields.ignore({"is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule",
                 "assistant_confidence_threshold", "assistant_early_exit",
                 "assistant_ensemble_weight", "assistant_lookbehind", "target_lookbehind",
                 "prompt_lookup_num_tokens", "max_matching_ngram_size", "speculation_type",
                 "use_mtp"});
  // A model without cross-attention does not use these.
  fields.ignore({"cross_attention_hidden_size", "tie_encoder_decoder"});
  fields.expect("add_cross_attention", {false});
  fields.expect("is_encoder_decoder", {false});
  fields.expect("is_decoder", {true, false});
  fields.expect("pruned_heads", {JsonValue::object(), nullptr});
}

void read_gpt2(Fields& fields, PublishedConfig& config) {
  fields.ignore({"n_ctx", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj", "reorder_and_upcast_attn",
                 "predict_special_tokens"});
  fields.expect("scale_attn_weights", {true});
  fields.expect("scale_attn_by_inverse_layer_idx", {false});
  config.feed_forward = fields.optional_count("n_inner").value_or(4 * config.width);
  config.activation = read_activation(fields, "activation_function", "gelu_new");
  config.norm_epsilon = fields.number("layer_norm_epsilon", 1e-5);
  config.tied_embeddings = fields.flag("tie_word_embeddings", true);
}

std::optional<RotaryScaling> read_rotary_scaling(Fields& fields) {
  std::string kind = fields.text("rope_type", "");
  if (kind.empty()) kind = fields.text("type", "default");
  fields.ignore({"type", "rope_theta"});
  fields.expect("partial_rotary_factor", {1.0, 1, nullptr});
  if (kind == "default") return std::nullopt;
  if (kind != "llama3") fields.fail("rope_type", "default or llama3");
  return RotaryScaling{.factor = fields.number("factor"),
                       .low_frequency = fields.number("low_freq_factor"),
                       .high_frequency = fields.number("high_freq_factor"),
                       .original_context = fields.count("original_max_position_embeddings")};
}

RotaryForm read_rotary(Fields& fields, const std::string& path, UnknownFields& unknown) {
  RotaryForm rotary{.base = fields.number("rope_theta", 10000.0)};
  for (const char* name : {"rope_scaling", "rope_parameters"})  // the second one since version 5
    if (const JsonValue* object = fields.object(name)) {
      Fields inner(*object, path, std::string(name) + ".");
      rotary.base = inner.number("rope_theta", rotary.base);
      if (const auto scaling = read_rotary_scaling(inner)) rotary.scaling = scaling;
      inner.expect_all_known(unknown);
    }
  return rotary;
}

void read_llama(Fields& fields, const std::string& path, PublishedConfig& config,
                UnknownFields& unknown) {
  const bool is_llama = config.architecture == Architecture::llama,
             is_qwen2 = config.architecture == Architecture::qwen2;
  fields.expect("rope_interleaved", {false});
  fields.expect("partial_rotary_factor", {1.0, 1, nullptr});
  if (is_llama) {
    fields.expect("pretraining_tp", {1, nullptr});
    fields.ignore({"is_llama_config", "max_sequence_length"});
  } else {
    fields.expect("use_sliding_window", {false});
    fields.expect("use_mrope", {false});
    fields.ignore({"sliding_window", "max_window_layers"});
    if (const JsonValue* types = fields.optional_list("layer_types"))
      for (const JsonValue& type : *types)
        if (type != "full_attention")
          fields.fail("layer_types", "only \"full_attention\", not " + brief(type));
  }
  config.key_value_heads = fields.optional_count("num_key_value_heads").value_or(config.heads);
  config.head_width = fields.optional_count("head_dim").value_or(0);
  config.feed_forward = fields.count("intermediate_size");
  config.activation = read_activation(fields, "hidden_act", "silu");
  config.norm_epsilon = fields.number("rms_norm_eps", 1e-6);
  config.feed_forward_bias = is_llama && fields.flag("mlp_bias", false);
  config.attention_bias = is_qwen2                               ? AttentionBias::inputs
                          : fields.flag("attention_bias", false) ? AttentionBias::all
                                                                 : AttentionBias::none;
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  config.rotary = read_rotary(fields, path, unknown);
}

Architecture read_architecture(Fields& fields, const JsonValue& json) {
  const JsonValue classes = json.value("architectures", JsonValue());
  const bool is_one = classes.is_array() && classes.size() == 1 && classes[0].is_string();
  const Architecture architecture =
      architecture_named(is_one ? classes[0].get<std::string>() : "",
                         &ArchitectureNames::class_name, fields, "architectures");
  fields.expect("model_type", {names_of(architecture).model_type});
  return architecture;
}

void write_gpt2(const PublishedConfig& config, JsonValue& json) {
  json.update({{"activation_function", activation_name(config.activation)},
               {"layer_norm_epsilon", config.norm_epsilon},
               {"n_ctx", config.context},
               {"n_inner", config.feed_forward},
               {"attn_pdrop", 0.0},
               {"embd_pdrop", config.dropout},
               {"resid_pdrop", config.dropout}});
}

void write_llama(const PublishedConfig& config, JsonValue& json) {
  const bool is_llama = config.architecture == Architecture::llama;
  json.update({{"hidden_act", activation_name(config.activation)},
               {"intermediate_size", config.feed_forward},
               {"num_key_value_heads", config.key_value_heads},
               {"head_dim", config.head_width},
               {"rms_norm_eps", config.norm_epsilon},
               {"rope_theta", config.rotary.base},
               {"rope_scaling", nullptr},
               {"attention_dropout", 0.0}});
  if (const auto& scaling = config.rotary.scaling)
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", scaling->factor},
                            {"low_freq_factor", scaling->low_frequency},
                            {"high_freq_factor", scaling->high_frequency},
                            {"original_max_position_embeddings", scaling->original_context}};
  if (config.architecture != Architecture::qwen2)
    json["attention_bias"] = config.attention_bias == AttentionBias::all;
  if (is_llama) json["mlp_bias"] = config.feed_forward_bias;
  if (!is_llama) json["use_sliding_window"] = false;
}

}  // namespace

PublishedConfig read_published_config(const JsonValue& json, const std::string& path,
                                      UnknownFields& unknown) {
  Fields fields(json, path);
  PublishedConfig config{.architecture = read_architecture(fields, json)};
  const bool is_gpt2 = config.architecture == Architecture::gpt2;
  ignore_common(fields);
  config.vocabulary = fields.count("vocab_size");
  for (const NumberNames& names : number_names)
    config.*names.number = fields.count(is_gpt2 ? names.gpt2 : names.llama);
  if (is_gpt2)
    read_gpt2(fields, config);
  else
    read_llama(fields, path, config, unknown);
  fields.expect_all_known(unknown);
  return config;
}

JsonValue published_json(const PublishedConfig& config) {
  const ArchitectureNames& names = names_of(config.architecture);
  const bool is_gpt2 = config.architecture == Architecture::gpt2;
  JsonValue json = {{"architectures", {names.class_name}}, {"model_type", names.model_type}};
  for (const NumberNames& number : number_names)
    json[is_gpt2 ? number.gpt2 : number.llama] = config.*number.number;
  is_gpt2 ? write_gpt2(config, json) : write_llama(config, json);
  json.update({{"tie_word_embeddings", config.tied_embeddings},
               {"vocab_size", config.vocabulary},
               {"initializer_range", 0.02},
               {"use_cache", true}});
  return json;
}

}  // namespace tapestry
