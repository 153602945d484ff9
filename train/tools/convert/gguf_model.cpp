#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/json.hpp"
#include "train/config/keys.hpp"
#include "train/run/new_folder.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/convert/gguf_file.hpp"
#include "train/tools/convert/gguf_tokens.hpp"
#include "train/tools/convert/import.hpp"

// Models in GGUF files: their fields, import and export.
namespace tapestry {
namespace {

// --- Llama 3's scaling of rotary positions: a tensor of the resulting factors ---

// The parameters of the rotary factors. llama.cpp does not read these fields.
constexpr const char *factor_field = "tapestry.rotary_factor",
                     *low_field = "tapestry.rotary_low_frequency",
                     *high_field = "tapestry.rotary_high_frequency",
                     *context_field = "tapestry.rotary_original_context";

// Returns the factor by which the rotation of each pair of columns of a head of width D is reduced
// by the scaling: (D / 2).
Array rotary_factors(std::int64_t D, const RotaryForm& form) {
  RotaryForm unscaled = form;
  unscaled.scaling.reset();
  const std::vector<double> slowed = rotary_rates(D, form), plain = rotary_rates(D, unscaled);
  Array factors({D / 2});
  for (std::int64_t k = 0; k < D / 2; ++k)
    factors.mutable_values<float>()[k] = static_cast<float>(plain[k] / slowed[k]);
  return factors;
}

// Returns the scaling with these factors. A field that is missing has the number of Llama 3.1
// to 3.3; without one for the factor, as in files of other programs and of earlier versions, the
// largest of the factors is taken, which Llama's heads reach. Throws InputError if the factors are
// others.
RotaryScaling read_scaling(Fields& fields, const PublishedTensor& tensor, std::int64_t D,
                           const RotaryForm& unscaled) {
  const Array factors = read_finite(tensor);
  RotaryForm form = unscaled;
  RotaryScaling& scaling = form.scaling.emplace();
  scaling.factor = fields.number(factor_field, *std::ranges::max_element(factors.values<float>()));
  scaling.low_frequency = fields.number(low_field, scaling.low_frequency);
  scaling.high_frequency = fields.number(high_field, scaling.high_frequency);
  scaling.original_context =
      fields.optional_count(context_field).value_or(scaling.original_context);
  const bool in_order = 1 <= scaling.factor && scaling.factor <= 1e6 &&
                        0 <= scaling.low_frequency &&
                        scaling.low_frequency < scaling.high_frequency;
  const auto are_close = [](float x, float y) {  // other programs compute the factors in float32
    return std::fabs(x - y) <= 1e-4F * std::fabs(y);
  };
  expect_input(in_order && std::ranges::equal(factors.values<float>(),
                                              rotary_factors(D, form).values<float>(), are_close),
               "{}: tensor {}: expected the factors of Llama 3's scaling, as Llama 3.1 to 3.3 or "
               "the fields tapestry.rotary_* describe them, found others; use another file",
               tensor.path, tensor.name);
  return scaling;
}

// --- import ---

PublishedWeights weights_of(const std::shared_ptr<GgufReader>& reader) {
  PublishedWeights weights{.path = reader->path(), .request = "its fields ask for"};
  for (std::size_t i = 0; i < reader->tensors().size(); ++i) {
    const GgufTensor& tensor = reader->tensors()[i];
    weights.tensors[tensor.name] = {reader->path(), tensor.name, tensor.shape,
                                    [reader, i] { return reader->read(i); }};
  }
  return weights;
}

// Ignores fields that do not change what the model computes. Throws InputError if the file is not a
// model (general.type), or is one of several files (split.count).
void ignore_descriptions(Fields& fields) {
  fields.ignore_prefix("general.");
  fields.ignore_prefix("quantize.");
  fields.expect("general.type", {"model"});
  fields.expect("split.count", {1, 0});
  fields.ignore({"split.no", "split.tensors.count"});
}

// Returns whether the file has no head, or a head that equals the embedding table.
bool is_tied(const PublishedWeights& weights, const TensorNames& names) {
  const auto head = weights.tensors.find(tensor_name(names, "head.weight")),
             table = weights.tensors.find(tensor_name(names, "token_embedding.weight"));
  if (head == weights.tensors.end()) return true;
  return table != weights.tensors.end() && are_equal(head->second, table->second);
}

PublishedConfig read_config(Fields& fields, const PublishedWeights& weights) {
  constexpr const char* field = "general.architecture";
  PublishedConfig config{.architecture =
                             architecture_named(fields.text(field, ""),
                                                &ArchitectureNames::model_type, fields, field)};
  const std::string prefix = std::string(names_of(config.architecture).model_type) + ".";
  const auto named = [&](const char* name) { return prefix + name; };
  const auto has = [&](const char* tensor) { return weights.tensors.contains(tensor); };
  for (const NumberNames& names : number_names)
    config.*names.number = fields.count(named(names.gguf));
  config.feed_forward = fields.count(named("feed_forward_length"));
  config.tied_embeddings = is_tied(weights, {TensorFormat::gguf, config.architecture});
  fields.ignore({named("tensor_data_layout").c_str()});
  fields.expect(named("expert_count"), {0});
  fields.expect(named("expert_used_count"), {0});
  fields.expect(named("attention.causal"), {true});
  fields.expect(named("rope.scaling.type"), {"none"});
  fields.expect(named("rope.scale_linear"), {1.0});
  if (config.architecture == Architecture::gpt2) {
    fields.expect(named("attention.head_count_kv"), {config.heads});
    config.norm_epsilon = fields.number(named("attention.layer_norm_epsilon"));
    return config;
  }
  const bool is_llama = config.architecture == Architecture::llama;
  config.key_value_heads =
      fields.optional_count(named("attention.head_count_kv")).value_or(config.heads);
  config.head_width = fields.optional_count(named("attention.key_length"))
                          .value_or(std::max<std::int64_t>(1, config.width / config.heads));
  fields.expect(named("attention.value_length"), {config.head_width});
  fields.expect(named("rope.dimension_count"), {config.head_width});
  config.activation = Activation::silu;
  config.norm_epsilon = fields.number(named("attention.layer_norm_rms_epsilon"));
  config.feed_forward_bias = is_llama && has("blk.0.ffn_up.bias");
  config.attention_bias = has("blk.0.attn_output.bias") ? AttentionBias::all
                          : has("blk.0.attn_q.bias")    ? AttentionBias::inputs
                                                        : AttentionBias::none;
  config.rotary.base = fields.number(named("rope.freq_base"), 10000);
  if (is_llama && has(rotary_factors_name)) {
    const PublishedTensor& factors = weights.find(rotary_factors_name, {config.head_width / 2});
    config.rotary.scaling = read_scaling(fields, factors, config.head_width, config.rotary);
  }
  return config;
}

// --- export ---

std::vector<GgufField> model_fields(const PublishedConfig& config, const std::string& name,
                                    GgufType stored) {
  constexpr std::uint32_t quantization_version = 2;
  // The number of llama.cpp for the type of most tensors.
  const std::uint32_t file_type = stored == GgufType::f32 ? 0 : stored == GgufType::f16 ? 1 : 7;
  const std::string type = names_of(config.architecture).model_type;
  std::vector<GgufField> fields = {{"general.architecture", type},
                                   {"general.type", std::string("model")},
                                   {"general.name", name},
                                   {"general.file_type", file_type},
                                   {"general.quantization_version", quantization_version}};
  const auto number = [&](const char* field, std::int64_t value) {
    fields.push_back({type + "." + field, static_cast<std::uint32_t>(value)});
  };
  const auto real = [&](const char* field, double value) {
    fields.push_back({type + "." + field, static_cast<float>(value)});
  };
  for (const NumberNames& names : number_names) number(names.gguf, config.*names.number);
  number("vocab_size", config.vocabulary);
  number("feed_forward_length", config.feed_forward);
  if (config.architecture == Architecture::gpt2) {
    real("attention.layer_norm_epsilon", config.norm_epsilon);
    return fields;
  }
  number("attention.head_count_kv", config.key_value_heads);
  number("attention.key_length", config.head_width);
  number("attention.value_length", config.head_width);
  number("rope.dimension_count", config.head_width);
  real("attention.layer_norm_rms_epsilon", config.norm_epsilon);
  real("rope.freq_base", config.rotary.base);
  if (const auto& scaling = config.rotary.scaling) {
    fields.push_back({factor_field, static_cast<float>(scaling->factor)});
    fields.push_back({low_field, static_cast<float>(scaling->low_frequency)});
    fields.push_back({high_field, static_cast<float>(scaling->high_frequency)});
    fields.push_back({context_field, static_cast<std::uint32_t>(scaling->original_context)});
  }
  return fields;
}

// Returns the type with which llama.cpp's converter stores a tensor.
GgufType type_of(const std::string& name, const Shape& shape, GgufType stored) {
  if (shape.rank() == 1 || name == "position_embd.weight") return GgufType::f32;
  return stored == GgufType::q8_0 && shape[-1] % gguf_block != 0 ? GgufType::f16 : stored;
}

// The tensors of a file, with functions that compute them when they are written.
struct GgufContents {
  std::vector<GgufTensor> tensors{};
  std::vector<std::function<Array()>> makers{};
  std::vector<std::string> unquantized{};  // stored in float16 instead of q8_0
};

GgufContents contents_of(const TransformerGiven& given, const PublishedConfig& published,
                         Module& model, GgufType stored) {
  GgufContents contents;
  if (published.rotary.scaling) {
    const Array factors = rotary_factors(published.head_width, published.rotary);
    contents.tensors.push_back({rotary_factors_name, GgufType::f32, factors.shape()});
    contents.makers.emplace_back([factors] { return factors; });
  }
  for (const Parameter* parameter : model.parameters()) {
    const Shape ours = parameter->value().shape();
    for (const TensorPlace& place :
         places_of({TensorFormat::gguf, published.architecture}, given, parameter->name, ours)) {
      const Shape shape = place.shape(ours);
      const GgufType type = type_of(place.theirs, shape, stored);
      if (stored == GgufType::q8_0 && type == GgufType::f16)
        contents.unquantized.push_back(place.theirs);
      contents.tensors.push_back({place.theirs, type, shape});
      contents.makers.emplace_back(
          [place, parameter] { return to_published(place, parameter->value()); });
    }
  }
  return contents;
}

}  // namespace

ImportedModel import_gguf(const std::string& path, const std::vector<std::string>& overrides,
                          const std::vector<std::string>& to_ignore) {
  const auto reader = std::make_shared<GgufReader>(path);
  Fields fields(reader->fields(), path);
  PublishedModel model{.name = std::filesystem::path(path).stem().string(),
                       .config_path = path,
                       .format = TensorFormat::gguf,
                       .weights = weights_of(reader),
                       .unknown = {.to_ignore = to_ignore}};
  model.config = read_config(fields, model.weights);
  ignore_descriptions(fields);
  model.tokens = read_gguf_tokens(fields, path, model.config.vocabulary);
  fields.expect(std::string(names_of(model.config.architecture).model_type) + ".vocab_size",
                {model.config.vocabulary});
  fields.expect_all_known(model.unknown);
  return import_model(model, overrides);
}

ModelExport export_gguf(const TrainedModel& trained, const std::string& path, GgufType stored) {
  expect_new_file(path);
  const Config& config = trained.config;
  const LanguageModel& task = transformer_of(trained, "--format gguf");
  const TransformerGiven given = transformer_settings.of(config);
  expect_llama_cpp(given);
  const PublishedConfig published = published_config(given, task);
  GgufTokens tokens = gguf_tokens(task);
  std::vector<GgufField> fields = model_fields(published, config[key::name], stored);
  std::ranges::move(tokens.fields, std::back_inserter(fields));
  const GgufContents contents = contents_of(given, published, trained.task->model(), stored);
  write_gguf(path, fields, contents.tensors, [&](std::size_t i) { return contents.makers[i](); });
  ModelExport made{names_of(published.architecture).class_name, std::move(tokens.notes)};
  if (!contents.unquantized.empty())
    made.notes.push_back(
        fmt::format("in float16 instead, because the length of a row is not a multiple of {}: {}",
                    gguf_block, fmt::join(contents.unquantized, ", ")));
  return made;
}

}  // namespace tapestry
