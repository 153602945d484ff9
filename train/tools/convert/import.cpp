#include "train/tools/convert/import.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "data/text/printable.hpp"
#include "layers/module.hpp"
#include "train/config/keys.hpp"
#include "train/run/safetensors.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {
namespace {

const std::string special_tokens_key = std::string(carried_prefix) + "special_tokens";

Config config_of(const PublishedModel& published, const std::vector<std::string>& overrides) {
  std::string text = "task = \"language-model\"\n";
  const auto set = [&](const std::string& name, const Value& value) {
    text += fmt::format("{} = {}\n", name, to_toml(value));
  };
  for (const auto& [name, value] : settings_of(published.config)) set(name, value);
  for (const auto& [name, value] : published.tokens.settings) set(name, value);
  set(key::name.name, published.name);
  return parse_config(text, published.config_path + " (as a config of Tapestry)", overrides);
}

// Throws InputError if the context differs from the number of learned positions.
void expect_context(const PublishedModel& published, const Config& config) {
  const Given<CorpusSettings> given = corpus_settings.of(config);
  given.expect(transformer_settings.of(config).block.attention.positions != Positions::learned ||
                   given.context == published.config.context,
               "context", "expected {}, the number of learned positions of {}; leave out --set",
               published.config.context, published.config_path);
}

// Returns the metadata of the model. They keep the context of the file if --set lowers it.
Metadata metadata_of(const PublishedModel& published, const Config& config) {
  Metadata metadata = published.tokens.metadata;
  if (published.config.context > corpus_settings.of(config).context)
    metadata[source_context_name()] = std::to_string(published.config.context);
  return metadata;
}

std::unique_ptr<Task> build_task(const PublishedModel& published, const Config& config) {
  constexpr std::int64_t slack = 64 << 20;
  std::int64_t numbers = 0;
  for (const auto& [name, tensor] : published.weights.tensors) numbers += tensor.shape.elements();
  const InitialValuesLimit limit(numbers * static_cast<std::int64_t>(sizeof(float)) + slack);
  try {
    return make_task({config, metadata_of(published, config), false});
  } catch (const InitialValuesTooLarge&) {
    throw InputError(fmt::format(
        "{}: describes a model with more weights than the {} of {}; check the files and --set",
        published.config_path, numbers, published.weights.path));
  }
}

// Throws InputError for a tensor that no parameter uses, unless it has no effect: constants, and
// the head if it equals the embedding table to which the config ties it. The config of a GGUF file
// ties head and table only if both are equal.
void check_unused(const PublishedTensor& tensor, const std::string& name,
                  const PublishedModel& published, const Config& config) {
  const TensorNames names = {published.format, published.config.architecture};
  const TransformerGiven model = transformer_settings.of(config);
  if (is_constant(names, model, name)) return;
  const bool is_tied = model.tied_embeddings && name == tensor_name(names, "head.weight");
  expect_input(is_tied, "{}: unexpected tensor {} {}: {} no such tensor; check the files and --set",
               tensor.path, printable(tensor.name), to_string(tensor.shape),
               published.weights.request);
  if (published.format == TensorFormat::gguf && published.config.tied_embeddings) return;
  const std::string table = tensor_name(names, "token_embedding.weight");
  expect_input(are_equal(tensor, published.weights.tensors.at(table)),
               "{}: tensor {} differs from {}; expected the same numbers, because the model ties "
               "them; use another copy",
               tensor.path, tensor.name, table);
}

// Copies the tensors into the model. All names and shapes are checked first. Throws InputError for
// a tensor that is missing, superfluous, of another shape or not finite.
void fill(const PublishedModel& published, const ImportedModel& model) {
  struct Copy {
    Parameter* parameter;
    TensorPlace place;
    const PublishedTensor* tensor;
  };
  const TransformerGiven given = transformer_settings.of(model.config);
  const TensorNames names = {published.format, published.config.architecture};
  const std::string table = tensor_name(names, "token_embedding.weight"),
                    head = tensor_name(names, "head.weight");
  const auto& tensors = published.weights.tensors;
  const bool only_head =
      given.tied_embeddings && !tensors.contains(table) && tensors.contains(head);
  std::vector<Copy> copies;
  std::set<std::string> taken;
  for (Parameter* parameter : model.task->model().parameters()) {
    const Shape shape = parameter->value().shape();
    if (parameter->name.find(".lora.") != std::string::npos) continue;  // added by --set
    for (const TensorPlace& place : places_of(names, given, parameter->name, shape)) {
      const std::string& name = only_head && place.theirs == table ? head : place.theirs;
      copies.push_back({parameter, place, &published.weights.find(name, place.shape(shape))});
      taken.insert(name);
    }
  }
  for (const auto& [name, tensor] : tensors)
    if (!taken.contains(name)) check_unused(tensor, name, published, model.config);
  for (const auto& [parameter, place, tensor] : copies)
    from_published(place, read_finite(*tensor), parameter->value());
}

}  // namespace

std::string kept_file(const std::string& name) { return std::string(carried_prefix) + name; }

void keep_special_tokens(const JsonValue& config, const EndTokens& ends, Metadata& metadata) {
  JsonValue kept = JsonValue::object();
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto found = config.find(name); found != config.end()) kept[name] = *found;
  metadata[special_tokens_key] = kept.dump();

  const JsonValue numbers = ends.ids.is_array()  ? ends.ids
                            : ends.ids.is_null() ? JsonValue::array()
                                                 : JsonValue::array({ends.ids});
  for (const JsonValue& id : numbers)  // a model may have rows without a token
    expect_input(
        id.is_number_unsigned() && id <= std::numeric_limits<std::int32_t>::max(),
        "{}: eos_token_id: expected the number of a token, or a list of numbers, found {}; use "
        "another file",
        ends.path, brief(ends.ids));
  metadata[stop_tokens_name] = numbers.dump();
}

JsonValue kept_special_tokens(const Metadata& metadata) {
  const auto found = metadata.find(special_tokens_key);
  if (found == metadata.end()) return JsonValue::object();
  JsonValue kept = parse_json(found->second, special_tokens_key);
  expect_input(kept.is_object(),
               "the checkpoint: metadata {}: found {}, expected a JSON object; import the model "
               "again",
               special_tokens_key, brief(kept));
  return kept;
}

const PublishedTensor& PublishedWeights::find(const std::string& name, const Shape& shape) const {
  const auto found = tensors.find(name);
  expect_input(found != tensors.end(),
               "{}: tensor {} {} is missing, but {} this tensor; check the files and --set", path,
               name, to_string(shape), request);
  const PublishedTensor& tensor = found->second;
  expect_input(tensor.shape == shape,
               "{}: tensor {} has shape {}, but {} {}; check the files and --set", tensor.path,
               tensor.name, to_string(tensor.shape), request, to_string(shape));
  return tensor;
}

void add_safetensors(const std::string& path, PublishedWeights& weights) {
  const auto file = std::make_shared<SafetensorsReader>(path);
  for (const SafetensorsEntry& entry : file->entries()) {
    const auto read = [file, entry] {
      expect_input(
          file->dtype_of(entry) != DType::int32,
          "{}: tensor {} holds integers; expected floating-point numbers; convert the file",
          file->path(), printable(entry.name));
      return file->read(entry).to(DType::float32);
    };
    const bool is_new =
        weights.tensors.emplace(entry.name, PublishedTensor{path, entry.name, entry.shape, read})
            .second;
    expect_input(is_new,
                 "{}: tensor {} is in another file of the index too; expected one file; copy the "
                 "files again",
                 path, printable(entry.name));
  }
}

Array read_finite(const PublishedTensor& tensor) {
  Array numbers = tensor.read();
  expect_input(
      std::ranges::all_of(numbers.values<float>(),
                          [](float number) { return std::isfinite(number); }),
      "{}: tensor {} holds numbers that are not finite; use an undamaged copy of the model",
      tensor.path, tensor.name);
  return numbers;
}

bool are_equal(const PublishedTensor& a, const PublishedTensor& b) {
  return a.shape == b.shape &&
         std::ranges::equal(a.read().values<float>(), b.read().values<float>());
}

ImportedModel import_model(const PublishedModel& published,
                           const std::vector<std::string>& overrides) {
  Config config = config_of(published, overrides);
  expect_context(published, config);
  std::unique_ptr<Task> task = build_task(published, config);
  ImportedModel model{names_of(published.config.architecture).class_name, std::move(config),
                      std::move(task), published.unknown.ignored};
  fill(published, model);
  return model;
}

}  // namespace tapestry
