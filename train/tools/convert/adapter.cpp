#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "layers/adapters.hpp"
#include "train/config/keys.hpp"
#include "train/fine_tuning.hpp"
#include "train/run/new_folder.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/convert/fields.hpp"
#include "train/tools/convert/import.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";

// A linear map of a published model, "model.layers.0.self_attn.q_proj", and its rows in our
// parameter.
struct PublishedMap {
  std::string name;
  Linear* linear = nullptr;
  TensorPlace place{};

  std::string tensor(const char* matrix) const {  // takes "A" or "B"
    return fmt::format("base_model.model.{}.lora_{}.weight", name, matrix);
  }
  // Returns the place of the map's rows in a matrix that has only these.
  TensorPlace rows_alone() const {
    TensorPlace own = place;
    own.first_row = 0;
    own.transposed = false;
    return own;
  }
};

std::vector<PublishedMap> published_maps(Linear& linear, const Config& config) {
  const TransformerGiven given = transformer_settings.of(config);
  std::vector<PublishedMap> maps;
  for (const TensorPlace& place :
       places_of({TensorFormat::huggingface, architecture_of(given)}, given,
                 linear.path() + ".weight", linear.weight.tensor.shape()))
    maps.push_back({place.theirs.substr(0, place.theirs.rfind('.')), &linear, place});
  return maps;
}

// A linear map and the adapters, each of a (r, I) and b (R, r), that change some of its rows.
struct MapChange {
  PublishedMap map;
  std::vector<const Adapter*> adapters{};
  std::int64_t rank = 0;  // sum of the ranks of the adapters
};

std::vector<MapChange> changes_of(Module& model, const Config& config) {
  std::vector<MapChange> changes;
  for (Linear* linear : adapted_linears(model))
    for (const PublishedMap& map : published_maps(*linear, config)) {
      MapChange change{.map = map};
      for (const Adapter& adapter : linear->adapters) {
        if (!changes_rows(adapter, map.place.first_row, map.place.rows)) continue;
        change.adapters.push_back(&adapter);
        change.rank += adapter.a.tensor.dim(0);
      }
      if (!change.adapters.empty()) changes.push_back(std::move(change));
    }
  return changes;
}

// Returns the a of all adapters stacked, followed by rows of zeros: (rank, I).
Array stacked_a(const MapChange& change, std::int64_t rank) {
  Array all = Array::zeros({rank, change.map.linear->weight.tensor.dim(1)});
  auto to = all.mutable_values<float>().begin();
  for (const Adapter* adapter : change.adapters)
    to = std::ranges::copy(adapter->a.value().values<float>(), to).out;
  return all;
}

// Returns the b of all adapters side by side, each in its rows, in the published order: (R, rank).
Array joined_b(const MapChange& change, std::int64_t rank) {
  const TensorPlace& place = change.map.place;
  Array all = Array::zeros({place.rows, rank});
  const auto to = all.mutable_values<float>();
  std::int64_t first_rank = 0;
  for (const Adapter* adapter : change.adapters) {
    const Array b = adapter->b.value();
    const std::int64_t own = b.dim(1), shift = adapter->first_row - place.first_row;
    const std::int64_t first = std::max<std::int64_t>(0, shift),
                       end = std::min(place.rows, shift + b.dim(0));
    for (std::int64_t row = first; row < end; ++row)
      std::ranges::copy(b.values<float>().subspan((row - shift) * own, own),
                        to.begin() + row * rank + first_rank);
    first_rank += own;
  }
  return to_published(change.map.rows_alone(), all);
}

// Returns the end of a map's name by which peft identifies it. GPT-2 has two maps named c_proj.
std::string target_name(const std::string& map, Architecture architecture) {
  std::size_t dot = map.rfind('.');
  if (architecture == Architecture::gpt2) dot = map.rfind('.', dot - 1);
  return map.substr(dot + 1);
}

JsonValue adapter_config(const Config& config, const std::vector<MapChange>& changes,
                         std::int64_t rank) {
  const Architecture architecture = architecture_of(transformer_settings.of(config));
  std::set<std::string> targets;
  for (const MapChange& change : changes)
    targets.insert(target_name(change.map.name, architecture));
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", nullptr},
          {"inference_mode", true},
          {"r", rank},
          {"lora_alpha", changes.front().map.linear->adapter_scale * static_cast<double>(rank)},
          {"lora_dropout", config[key::adapter_dropout]},
          {"target_modules", targets},
          {"fan_in_fan_out", architecture == Architecture::gpt2},
          {"bias", "none"},
          {"modules_to_save", nullptr}};
}

// Returns the value of a field. Throws InputError if the value is outside of the limits of `key`.
template <class T>
T suited(const Fields& fields, const char* name, T value, const Key<T>& key) {
  if (!range_error(key, Value(value)).empty())
    fields.fail(name, fmt::format("a number from {} to {}", key.limits.low, key.limits.high));
  return value;
}

// Returns the targets whose tensors the file has; targets that are only a part of a published map
// have no tensors. Throws InputError if the file has no tensors, or if a tensor belongs to no
// target, such as one of the head or of the embedding table.
std::vector<std::string> targets_in(const PublishedWeights& weights, Module& model,
                                    const Config& config) {
  std::set<std::string> names, targets;
  for (const auto& [name, tensor] : weights.tensors) names.insert(name);
  for (const AdapterTarget& target : adapter_targets(model))
    for (const PublishedMap& map : published_maps(*target.linear, config)) {
      if (map.place.first_row != target.first_row || map.place.rows != target.rows) continue;
      const bool has_a = names.erase(map.tensor("A")) > 0, has_b = names.erase(map.tensor("B")) > 0;
      if (has_a || has_b) targets.insert(target.name);
    }
  for (const std::string& name : names)
    for (const char* ours : {"head.weight", "token_embedding.weight"}) {
      const std::string theirs = tensor_name(
          {TensorFormat::huggingface, architecture_of(transformer_settings.of(config))}, ours);
      const std::string module = theirs.substr(0, theirs.rfind('.'));
      expect_input(
          !name.starts_with("base_model.model." + module + "."),
          "{}: tensor {} changes {}, but adapters are supported for the projections of the "
          "transformer blocks alone; train an adapter without this target_module",
          weights.path, printable(name), module);
    }
  expect_input(
      names.empty(),
      "{}: tensor {} belongs to no projection of this model; use the adapter with the model "
      "that it was trained for",
      weights.path, names.empty() ? "" : printable(*names.begin()));
  expect_input(!targets.empty(),
               "{}: contains no tensors; give a folder of an adapter that peft saved",
               weights.path);
  return {targets.begin(), targets.end()};
}

void copy_adapters(const PublishedWeights& weights, Module& model, const Config& config) {
  const auto read = [&](const std::string& name, const Parameter& parameter) {
    return read_finite(weights.find(name, parameter.value().shape()));
  };
  for (Linear* linear : adapted_linears(model))
    for (const PublishedMap& map : published_maps(*linear, config))
      for (Adapter& adapter : linear->adapters) {
        if (adapter.first_row != map.place.first_row) continue;
        adapter.a.value().copy_from(read(map.tensor("A"), adapter.a));
        from_published(map.rows_alone(), read(map.tensor("B"), adapter.b), adapter.b.value());
      }
}

}  // namespace

void export_adapter(const TrainedModel& trained, const std::string& folder, StoredFloats stored) {
  const Config& config = trained.config;
  Module& model = trained.task->model();
  transformer_of(trained, "--format peft");
  expect_input(has_adapters(model),
               "--format peft: {} = 0: expected a run with adapters; --format huggingface writes "
               "the whole model",
               key::adapter_rank.name);
  config.expect(config[key::trainable].empty(), key::trainable,
                "this run also trained other parameters, which peft's files do not hold; --merge "
                "writes the whole model");
  const std::vector<MapChange> changes = changes_of(model, config);
  std::int64_t rank = 0;
  for (const MapChange& change : changes) rank = std::max(rank, change.rank);
  Safetensors weights{.tensors = {}, .metadata = {{"format", "pt"}}};
  for (const MapChange& change : changes) {
    weights.tensors.emplace_back(change.map.tensor("A"), stacked_a(change, rank));
    weights.tensors.emplace_back(change.map.tensor("B"), joined_b(change, rank));
  }
  NewFolder made(folder);
  made.write(config_name, {adapter_config(config, changes, rank).dump(2) + "\n"});
  write_safetensors([&](const auto& parts) { made.write(weights_name, parts); }, weights, stored);
  made.finish();
}

PublishedAdapter read_adapter_config(const JsonValue& json, const std::string& path,
                                     UnknownFields& unknown) {
  Fields fields(json, path);
  fields.expect("peft_type", {"LORA"});
  fields.expect("task_type", {"CAUSAL_LM", nullptr});
  fields.expect("bias", {"none"});
  fields.expect("init_lora_weights", {true, false, "gaussian", "orthogonal"});
  for (const char* name : {"use_dora", "use_qalora", "use_bdlora", "lora_bias"})
    fields.expect(name, {false, nullptr});
  for (const char* name : {"rank_pattern", "alpha_pattern"})
    fields.expect(name, {JsonValue::object(), nullptr});
  for (const char* name :
       {"modules_to_save", "layer_replication", "layers_to_transform", "trainable_token_indices",
        "target_parameters", "alora_invocation_tokens", "arrow_config", "kasa_config",
        "velora_config", "monteclora_config"})
    fields.expect(name, {nullptr, JsonValue::array()});
  fields.ignore({"auto_mapping", "base_model_name_or_path", "revision", "inference_mode",
                 "peft_version", "target_modules", "exclude_modules", "layers_pattern",
                 "fan_in_fan_out", "megatron_config", "megatron_core", "loftq_config", "eva_config",
                 "corda_config", "lora_ga_config", "qalora_group_size", "ensure_weight_tying",
                 "runtime_config"});
  PublishedAdapter adapter{
      .rank = suited(fields, "r", fields.count("r"), key::adapter_rank),
      .alpha = suited(fields, "lora_alpha", fields.number("lora_alpha", 8), key::adapter_alpha),
      .dropout =
          suited(fields, "lora_dropout", fields.number("lora_dropout", 0), key::adapter_dropout)};
  if (fields.flag("use_rslora", false)) adapter.alpha *= std::sqrt(adapter.rank);
  fields.expect_all_known(unknown);
  return adapter;
}

TrainedModel load_trained_with(const std::string& adapter, const std::string& run,
                               const std::vector<std::string>& overrides, bool needs_data,
                               bool whole_data, UnknownFields* unknown) {
  if (adapter.empty()) return load_trained(run, overrides, needs_data, whole_data);
  const auto in = [&](const char* name) { return (fs::path(adapter) / name).string(); };
  expect_input(is_there(in(config_name)) || !is_there(in("config.toml")),
               "{0}: is a run; write its adapters with tapestry export {0} --format peft --out "
               "FOLDER, and give that folder",
               printable(adapter));
  expect_input(is_there(in(config_name)) && is_there(in(weights_name)),
               "{}: lacks {} or {}; give a folder as peft saves an adapter", printable(adapter),
               config_name, weights_name);
  UnknownFields unnamed;
  const PublishedAdapter published =
      read_adapter_config(parse_json(read_file(in(config_name), max_kept_bytes), in(config_name)),
                          in(config_name), unknown ? *unknown : unnamed);
  PublishedWeights weights{.path = in(weights_name),
                           .request = "the base model and adapter_config.json ask for"};
  add_safetensors(weights.path, weights);

  TrainedModel base = load_trained(run, overrides, needs_data, whole_data);
  transformer_of(base, adapter, ", the only kind of model with adapters of peft; use another run");
  base.config.expect(
      base.config[key::adapter_rank] == 0, key::adapter_rank,
      "{} has adapters already; `tapestry export --merge` writes a model without adapters", run);
  Module& model = base.task->model();
  const auto setting = [](const KeyInfo& key, const Value& value) {
    return fmt::format("{}={}", key.name, to_toml(value));
  };
  base.config = resolved_config(
      base.config.toml(), run + " (its config)",
      {setting(key::trainable, std::vector<std::string>()),
       setting(key::adapter_rank, published.rank), setting(key::adapter_alpha, published.alpha),
       setting(key::adapter_dropout, published.dropout),
       setting(key::adapter_targets, targets_in(weights, model, base.config))});
  prepare_fine_tuning(model, base.config);
  copy_adapters(weights, model, base.config);
  return base;
}

}  // namespace tapestry
