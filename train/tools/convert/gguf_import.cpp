#include "train/tools/convert/gguf_import.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "data/json.hpp"
#include "data/text/text.hpp"
#include "train/tasks/transformer_keys.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/fields.hpp"
#include "train/tools/convert/gguf_file.hpp"
#include "train/tools/convert/gguf_rotary.hpp"
#include "train/tools/convert/gguf_tokens.hpp"
#include "train/tools/convert/imported_model.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

constexpr const char* head_name = "output.weight";
constexpr const char* table_name = "token_embd.weight";

// A file's tensors by name.
class GgufWeights final {
 public:
  explicit GgufWeights(GgufReader& reader) : reader_(reader) {
    for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
      places_[reader.tensors()[i].name] = i;
      numbers_ += reader.tensors()[i].shape.elements();
    }
  }

  const std::map<std::string, std::size_t>& places() const { return places_; }
  bool has(const std::string& name) const { return places_.contains(name); }
  std::int64_t numbers() const { return numbers_; }
  const Shape& shape(const std::string& name) const {
    return reader_.tensors()[places_.at(name)].shape;
  }
  Array read(const std::string& name) { return reader_.read(places_.at(name)); }

 private:
  GgufReader& reader_;
  std::map<std::string, std::size_t> places_{};
  std::int64_t numbers_ = 0;
};

// What a file may hold that changes nothing of what its model computes.
void ignore_descriptions(Fields& fields, const Json& object) {
  for (const auto& [name, value] : object.items())
    if (name.starts_with("general.") || name.starts_with("quantize."))
      fields.ignore({name.c_str()});
  fields.expect("general.type", {"model"});
  fields.expect("split.count", {1, 0});
  fields.ignore({"split.no", "split.tensors.count"});
}

Architecture read_gguf_architecture(Fields& fields) {
  constexpr const char* field = "general.architecture";
  const auto found = architecture_of_type(fields.text(field, ""));
  if (!found) fields.fail(field, "one of " + model_types());
  return *found;
}

// Some files hold the head although it is the table of embeddings.
bool is_tied(GgufWeights& weights) {
  if (!weights.has(head_name)) return true;
  if (!weights.has(table_name) || weights.shape(head_name) != weights.shape(table_name))
    return false;
  const Array head = weights.read(head_name), table = weights.read(table_name);
  return std::ranges::equal(head.values<float>(), table.values<float>());
}

// What projections have a bias, by those that the first block has.
AttentionBias attention_bias_of(const GgufWeights& weights) {
  if (weights.has("blk.0.attn_output.bias")) return AttentionBias::all;
  return weights.has("blk.0.attn_q.bias") ? AttentionBias::inputs : AttentionBias::none;
}

using Settings = std::vector<std::pair<std::string, Value>>;

class ModelFields final {
 public:
  ModelFields(Fields& fields, GgufWeights& weights, Architecture architecture,
              const std::string& path)
      : fields_(fields),
        weights_(weights),
        architecture_(architecture),
        path_(path),
        prefix_(model_type_of(architecture) + ".") {}

  Settings read() {
    width_ = count("embedding_length");
    heads_ = count("attention.head_count");
    settings_ = {{key::layers.name, count("block_count")},
                 {key::heads.name, heads_},
                 {key::width.name, width_},
                 {key::feed_forward.name, count("feed_forward_length")},
                 {key::context.name, count("context_length")},
                 {key::tied_embeddings.name, is_tied(weights_)}};
    fields_.ignore({named("vocab_size").c_str(), named("tensor_data_layout").c_str()});
    fields_.expect(named("expert_count"), {0});
    fields_.expect(named("expert_used_count"), {0});
    fields_.expect(named("attention.causal"), {true});
    fields_.expect(named("rope.scaling.type"), {"none"});
    fields_.expect(named("rope.scale_linear"), {1.0});
    if (architecture_ == Architecture::gpt2)
      read_gpt2();
    else
      read_llama();
    return std::move(settings_);
  }

 private:
  std::string named(const char* name) const { return prefix_ + name; }
  std::int64_t count(const char* name) { return fields_.count(named(name)); }
  void add(const Settings& more) { settings_.insert(settings_.end(), more.begin(), more.end()); }

  void read_gpt2() {
    fields_.expect(named("attention.head_count_kv"), {heads_});
    add({{key::activation.name, key::activation.name_of(Activation::gelu_tanh)},
         {key::norm_epsilon.name, fields_.number(named("attention.layer_norm_epsilon"))}});
  }

  // Columns of a head, which must be those of its keys, its values and what positions turn.
  std::int64_t read_head_width() {
    const std::int64_t otherwise = std::max<std::int64_t>(1, width_ / heads_),
                       width = fields_.optional_count(named("attention.key_length"))
                                   .value_or(otherwise);
    fields_.expect(named("attention.value_length"), {width});
    fields_.expect(named("rope.dimension_count"), {width});
    return width;
  }

  void read_llama() {
    const bool is_llama = architecture_ == Architecture::llama;
    const std::int64_t D = read_head_width();
    add({{key::key_value_heads.name,
          fields_.optional_count(named("attention.head_count_kv")).value_or(heads_)},
         {key::head_width.name, D},
         {key::activation.name, key::activation.name_of(Activation::silu)},
         {key::gated.name, true},
         {key::norm_kind.name, key::norm_kind.name_of(NormKind::rms)},
         {key::norm_epsilon.name, fields_.number(named("attention.layer_norm_rms_epsilon"))},
         {key::positions.name, key::positions.name_of(Positions::rotary)},
         {key::rotary_pairs.name, key::rotary_pairs.name_of(RotaryPairs::halves)},
         {key::query_key_norm.name, architecture_ == Architecture::qwen3},
         {key::bias.name, is_llama && weights_.has("blk.0.ffn_up.bias")},
         {key::attention_bias.name, key::attention_bias.name_of(attention_bias_of(weights_))}});
    read_positions(D);
  }

  void read_positions(std::int64_t D) {
    const RotaryForm form{.base = fields_.number(named("rope.freq_base"), 10000)};
    add({{key::rotary_base.name, form.base}});
    if (architecture_ != Architecture::llama || !weights_.has(rotary_factors_name)) return;
    const Shape expected{D / 2};
    expect_input(weights_.shape(rotary_factors_name) == expected,
                 "{}: tensor {} is {}, expected {}, half of a head's width", path_,
                 rotary_factors_name, to_string(weights_.shape(rotary_factors_name)),
                 to_string(expected));
    const auto scaling = read_rotary_scaling(fields_, weights_.read(rotary_factors_name), form);
    expect_input(scaling.has_value(),
                 "{}: tensor {}: expected the factors of Llama 3's scaling, as Llama 3.1 to 3.3 or "
                 "the fields tapestry.rotary_* have it; found others",
                 path_, rotary_factors_name);
    add({{key::rotary_scaling.name, key::rotary_scaling.name_of(RotaryScalingKind::llama3)},
         {key::rotary_factor.name, scaling->factor},
         {key::rotary_low_frequency.name, scaling->low_frequency},
         {key::rotary_high_frequency.name, scaling->high_frequency},
         {key::rotary_original_context.name, scaling->original_context}});
  }

  Fields& fields_;
  GgufWeights& weights_;
  Architecture architecture_;
  const std::string& path_;
  std::string prefix_;
  std::int64_t width_ = 0, heads_ = 0;
  Settings settings_{};
};

// Copies each tensor to its places in the model. All names and shapes are checked first.
void fill(const ImportedModel& model, Architecture architecture, GgufWeights& weights,
          const std::string& path) {
  std::set<std::string> taken;
  const auto places = [&](const Parameter& parameter) {
    return gguf_places_of(architecture, parameter.name, parameter.value().shape(),
                          head_counts(model.config), turns_neighbours(model.config));
  };
  const std::vector<Parameter*> parameters = model.task->model().parameters();
  for (const Parameter* parameter : parameters)
    for (const TensorPlace& place : places(*parameter)) {
      const Shape expected = place.shape(parameter->value().shape());
      expect_input(weights.has(place.theirs),
                   "{}: tensor {} {} is missing, which the fields ask for", path, place.theirs,
                   to_string(expected));
      expect_input(weights.shape(place.theirs) == expected,
                   "{}: tensor {} is {}, the fields ask for {}", path, place.theirs,
                   to_string(weights.shape(place.theirs)), to_string(expected));
      taken.insert(place.theirs);
    }
  if (model.config[key::tied_embeddings]) taken.insert(head_name);
  if (model.config[key::rotary_scaling] != RotaryScalingKind::none)
    taken.insert(rotary_factors_name);
  for (const auto& [name, place] : weights.places())
    expect_input(taken.contains(name), "{}: tensor {} {}: the fields ask for no such tensor", path,
                 printable(name), to_string(weights.shape(name)));
  for (Parameter* parameter : parameters)
    for (const TensorPlace& place : places(*parameter)) {
      const Array theirs = weights.read(place.theirs);
      expect_finite(theirs, path, place.theirs);
      from_published(place, theirs, parameter->value());
    }
}

}  // namespace

ImportedModel import_gguf(const std::string& path, const std::vector<std::string>& overrides) {
  GgufReader reader(path);
  GgufWeights weights(reader);
  Fields fields(reader.fields(), path);
  PublishedConfig published{.architecture = read_gguf_architecture(fields)};
  ignore_descriptions(fields, reader.fields());
  published.settings = ModelFields(fields, weights, published.architecture, path).read();
  const ImportedTokens tokens = read_gguf_tokens(fields, path, published.vocabulary);
  fields.expect_all_known();
  ImportedModel model = model_to_fill({.config_path = path,
                                       .weights_path = path,
                                       .numbers = weights.numbers(),
                                       .name = std::filesystem::path(path).stem().string()},
                                      published, tokens, overrides);
  fill(model, published.architecture, weights, path);
  return model;
}

}  // namespace tapestry
