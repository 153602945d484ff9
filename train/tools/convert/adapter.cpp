#include "train/tools/convert/adapter.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "autograd/kernels/broadcast.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/text.hpp"
#include "layers/adapters.hpp"
#include "train/config/keys.hpp"
#include "train/fine_tuning.hpp"
#include "train/run/new_folder.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/fields.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;
using Ordered = JsonValue;

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";

// A map of a published model, "model.layers.0.self_attn.q_proj", and the rows that it is of ours.
struct PublishedMap {
  std::string name;
  Linear* linear = nullptr;
  TensorPlace place{};

  std::string tensor(const char* matrix) const {  // "A" or "B"
    return fmt::format("base_model.model.{}.lora_{}.weight", name, matrix);
  }
  // Where its rows are in a matrix that has no others.
  TensorPlace rows_alone() const {
    TensorPlace own = place;
    own.first_row = 0;
    own.transposed = false;
    return own;
  }
};

std::vector<PublishedMap> published_maps(Linear& linear, const Config& config) {
  const std::string weight = linear.path() + ".weight";
  std::vector<PublishedMap> maps;
  for (TensorPlace& place : places_of(architecture_of(config), weight, linear.weight.tensor.shape(),
                                      head_counts(config), turns_neighbours(config)))
    maps.push_back({place.theirs.substr(0, place.theirs.rfind('.')), &linear, place});
  return maps;
}

void expect_published_model(const TrainedModel& trained, const std::string& what) {
  const auto* task = language_model_of(*trained.task);
  expect_input(task && std::holds_alternative<Transformer>(task->network()),
               "{}: {} = \"{}\": only a language-model that is a transformer has adapters which "
               "peft knows",
               what, key::task.name, trained.config[key::task]);
  architecture_of(trained.config);
}

// --- export ---

// The change of one map: a (r, I) and b (R, r), of the adapters that change some of its rows.
struct MapChange {
  PublishedMap map;
  std::vector<const Adapter*> adapters{};

  std::int64_t rank() const {
    std::int64_t sum = 0;
    for (const Adapter* adapter : adapters) sum += adapter->a.tensor.dim(0);
    return sum;
  }
};

std::vector<MapChange> changes_of(Module& model, const Config& config) {
  std::vector<MapChange> changes;
  for (Linear* linear : adapted_linears(model))
    for (const PublishedMap& map : published_maps(*linear, config)) {
      MapChange change{.map = map};
      for (const Adapter& adapter : linear->adapters)
        if (changes_rows(adapter, map.place.first_row, map.place.rows))
          change.adapters.push_back(&adapter);
      if (!change.adapters.empty()) changes.push_back(std::move(change));
    }
  return changes;
}

// Every a below one another, then zeros: (rank, I).
Array stacked_a(const MapChange& change, std::int64_t rank) {
  Array all = Array::zeros({rank, change.map.linear->weight.tensor.dim(1)});
  auto to = all.mutable_values<float>().begin();
  for (const Adapter* adapter : change.adapters)
    to = std::ranges::copy(adapter->a.value().values<float>(), to).out;
  return all;
}

// Every b side by side, at its rows of the map, which stand in the published order: (R, rank).
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

// What peft finds a map by: as little of its name as tells it from others. GPT-2 has two c_proj.
std::string target_name(const std::string& map, Architecture architecture) {
  std::size_t dot = map.rfind('.');
  if (architecture == Architecture::gpt2) dot = map.rfind('.', dot - 1);
  return map.substr(dot + 1);
}

Ordered adapter_config(const Config& config, const std::vector<MapChange>& changes,
                       std::int64_t rank) {
  const Architecture architecture = architecture_of(config);
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

}  // namespace

void export_adapter(const TrainedModel& trained, const std::string& folder, StoredFloats stored) {
  const Config& config = trained.config;
  Module& model = trained.task->model();
  expect_input(has_adapters(model),
               "--format peft: {} = 0: this run has no adapters; --format huggingface writes the "
               "whole model",
               key::adapter_rank.name);
  expect_published_model(trained, "--format peft");
  config.expect(config[key::trainable].empty(), key::trainable,
                "other parameters than the adapters were trained, which peft's files would not "
                "hold; --merge writes the whole model");
  const std::vector<MapChange> changes = changes_of(model, config);
  std::int64_t rank = 0;
  for (const MapChange& change : changes) rank = std::max(rank, change.rank());
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

// --- import ---

namespace {

// A field that has to suit the key that it becomes.
template <class T>
T suited(const Fields& fields, const char* name, T value, const Key<T>& key) {
  if (!range_error(key, Value(value)).empty())
    fields.fail(name, fmt::format("a number from {} to {}", key.limits.low, key.limits.high));
  return value;
}

}  // namespace

PublishedAdapter read_adapter_config(const JsonValue& json, const std::string& path) {
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
  fields.expect_all_known();
  return adapter;
}

namespace {

// A target of a block, "query", and the map that it is there.
struct TargetMap {
  std::string target;
  PublishedMap map;
};

std::vector<TargetMap> target_maps(Module& model, const Config& config) {
  std::vector<TargetMap> all;
  for (const AdapterTarget& target : adapter_targets(model))
    for (const PublishedMap& map : published_maps(*target.linear, config))
      if (map.place.first_row == target.first_row && map.place.rows == target.rows)
        all.push_back({target.name, map});
  return all;
}

// The targets of which the file has tensors. Those of a target that only some blocks have are
// missed when they are read.
std::vector<std::string> targets_in(const SafetensorsReader& file,
                                    const std::vector<TargetMap>& maps) {
  std::set<std::string> names, targets;
  for (const SafetensorsEntry& entry : file.entries()) names.insert(entry.name);
  for (const TargetMap& each : maps)
    for (const char* matrix : {"A", "B"})
      if (names.erase(each.map.tensor(matrix)) > 0) targets.insert(each.target);
  expect_input(
      names.empty(),
      "{}: tensor {}: not of a map of this model's blocks: the adapter of another model, or of "
      "maps that have none here",
      file.path(), names.empty() ? "" : printable(*names.begin()));
  expect_input(!targets.empty(), "{}: holds no tensors", file.path());
  return {targets.begin(), targets.end()};
}

Array read_tensor(SafetensorsReader& file, const std::string& name, const Shape& shape) {
  const auto found = std::ranges::find(file.entries(), name, &SafetensorsEntry::name);
  expect_input(found != file.entries().end(), "{}: tensor {} {} is missing", file.path(), name,
               to_string(shape));
  expect_input(found->shape == shape,
               "{}: tensor {} is {}, expected {}: the adapter of another model", file.path(), name,
               to_string(found->shape), to_string(shape));
  expect_input(file.dtype_of(*found) != DType::int32, "{}: tensor {} holds integers", file.path(),
               name);
  const Array values = file.read(*found).to(DType::float32);
  expect_input(std::isfinite(sum_of_squares(values)),
               "{}: tensor {} holds numbers that are not finite: this adapter cannot be used",
               file.path(), name);
  return values;
}

void copy_adapters(SafetensorsReader& file, Module& model, const Config& config) {
  for (Linear* linear : adapted_linears(model))
    for (const PublishedMap& map : published_maps(*linear, config))
      for (Adapter& adapter : linear->adapters) {
        if (adapter.first_row != map.place.first_row) continue;
        adapter.a.value().copy_from(read_tensor(file, map.tensor("A"), adapter.a.value().shape()));
        from_published(map.rows_alone(),
                       read_tensor(file, map.tensor("B"), adapter.b.value().shape()),
                       adapter.b.value());
      }
}

}  // namespace

TrainedModel load_trained_with(const std::string& adapter, const std::string& run,
                               const std::vector<std::string>& overrides, bool needs_data) {
  if (adapter.empty()) return load_trained(run, overrides, needs_data);
  constexpr std::int64_t max_config_bytes = std::int64_t{1} << 20;
  std::error_code unseen;
  const auto in = [&](const char* name) { return (fs::path(adapter) / name).string(); };
  expect_input(fs::exists(in(config_name), unseen) && fs::exists(in(weights_name), unseen),
               "{}: holds no {} and {}; give a folder as peft saves an adapter", printable(adapter),
               config_name, weights_name);
  const PublishedAdapter published = read_adapter_config(
      parse_json(read_file(in(config_name), max_config_bytes), in(config_name)), in(config_name));
  SafetensorsReader file(in(weights_name));

  TrainedModel base = load_trained(run, overrides, needs_data);
  expect_published_model(base, adapter);
  base.config.expect(base.config[key::adapter_rank] == 0, key::adapter_rank,
                     "{} has adapters of its own; `tapestry export --merge` makes a model without",
                     run);
  Module& model = base.task->model();
  const auto setting = [](const KeyInfo& key, const Value& value) {
    return fmt::format("{}={}", key.name, to_toml(value));
  };
  base.config = resolved_config(
      base.config.toml(), run + " (its config)",
      {setting(key::trainable, std::vector<std::string>()),
       setting(key::adapter_rank, published.rank), setting(key::adapter_alpha, published.alpha),
       setting(key::adapter_dropout, published.dropout),
       setting(key::adapter_targets, targets_in(file, target_maps(model, base.config)))});
  prepare_fine_tuning(model, base.config);
  copy_adapters(file, model, base.config);
  return base;
}

}  // namespace tapestry
