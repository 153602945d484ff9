#include <algorithm>
#include <optional>

#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/text.hpp"
#include "data/text/word_vectors.hpp"
#include "train/config/keys.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/new_folder.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/language/word_vectors.hpp"
#include "train/tasks/transformer_settings.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/export.hpp"
#include "train/tools/convert/import.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {

// Metadata that other programs require: "pt", the library for which the tensors are stored.
const std::map<std::string, std::string> weights_metadata = {{"format", "pt"}};

Safetensors published_weights(const TransformerGiven& given, Module& model,
                              Architecture architecture) {
  Safetensors file{.tensors = {}, .metadata = weights_metadata};
  for (const Parameter* parameter : model.parameters()) {
    const Array ours = parameter->value();
    for (const TensorPlace& place :
         places_of({TensorFormat::huggingface, architecture}, given, parameter->name, ours.shape()))
      file.tensors.emplace_back(place.theirs, to_published(place, ours));
  }
  return file;
}

// Returns the text of the token that ends a text or, after a training on conversations, an answer;
// empty if there is none.
std::string end_text(const LanguageModel& task) {
  const auto end = task.end_of_answer() ? task.end_of_answer() : task.end_of_text();
  return end ? task.tokenizer().byte_pairs()->model().tokens[*end] : "";
}

JsonValue tokenizer_config(const LanguageModel& task) {
  JsonValue json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"model_max_length", task.source_context()},
                    {"clean_up_tokenization_spaces", false}};
  if (const std::string end = end_text(task); !end.empty()) json["eos_token"] = end;
  return json;
}

// Returns the ids of special tokens: those that import stored, and the end of a text. After a
// training on conversations, its end of an answer replaces the stored one.
JsonValue special_ids(const LanguageModel& task, const Metadata& metadata) {
  JsonValue ids = kept_special_tokens(metadata);
  if (task.end_of_answer()) {
    const std::vector<std::int32_t> ends = end_tokens(task);
    ids["eos_token_id"] = ends.size() == 1 ? JsonValue(ends.front()) : JsonValue(ends);
  }
  if (!ids.contains("eos_token_id"))
    ids["eos_token_id"] = task.end_of_text() ? JsonValue(*task.end_of_text()) : JsonValue();
  if (!ids.contains("bos_token_id")) ids["bos_token_id"] = nullptr;
  return ids;
}

std::string text_of(const JsonValue& json) { return json.dump(2) + "\n"; }

using Files = std::map<std::string, std::string>;

// Sets fields of the JSON object in one of the files. Throws InputError if the file holds none.
void set_fields(Files& files, const std::string& name, const JsonValue& fields) {
  JsonValue json = JsonValue::parse_or_null(files.at(name));
  expect_input(json.is_object(), "{}: expected a JSON object; import the model again", name);
  json.update(fields);
  files[name] = text_of(json);
}

// Adds the chat template of the training and the token that ends its answers to the files.
void set_conversations(Files& files, const LanguageModel& task, const JsonValue& ids) {
  if (!task.end_of_answer()) return;
  JsonValue settings = {{"eos_token", end_text(task)}};
  if (const std::optional<std::string> jinja = trained_jinja(task)) {
    settings["chat_template"] = *jinja;
    files.erase("chat_template.jinja");
  }
  set_fields(files, "tokenizer_config.json", settings);
  set_fields(files, "generation_config.json", {{"eos_token_id", ids.at("eos_token_id")}});
}

}  // namespace

std::vector<std::int32_t> end_tokens(const LanguageModel& task) {
  std::vector<std::int32_t> ends;
  const auto add = [&](std::int32_t token) {
    if (std::ranges::find(ends, token) == ends.end() && token >= 0 && token < task.vocabulary())
      ends.push_back(token);
  };
  for (const auto& end : {task.end_of_answer(), task.end_of_text()})
    if (end) add(*end);
  const Metadata metadata = task.metadata();
  if (const auto kept = metadata.find(stop_tokens_name); kept != metadata.end())
    for (const auto token : JsonValue::parse(kept->second).get<std::vector<std::int32_t>>())
      add(token);
  return ends;
}

const LanguageModel& transformer_of(const TrainedModel& trained, const std::string& where,
                                    const char* advice) {
  const LanguageModel* task = task_as<const LanguageModel>(*trained.task);
  expect_input(task != nullptr, "{}: {} = \"{}\": expected \"language-model\"{}", where,
               key::task.name, trained.config[key::task], advice);
  expect_input(std::holds_alternative<Transformer>(task->network()),
               "{}: model.kind = \"{}\": expected \"transformer\"{}", where, task->network_kind(),
               advice);
  return *task;
}

ModelExport export_published(const TrainedModel& trained, const std::string& folder,
                             StoredFloats stored) {
  const Config& config = trained.config;
  const LanguageModel& task = transformer_of(trained, "--format huggingface");
  const TransformerGiven given = transformer_settings.of(config);
  const PublishedConfig published = published_config(given, task);
  const Metadata metadata = task.metadata();
  const JsonValue ids = special_ids(task, metadata);

  JsonValue model_config = published_json(published);
  model_config.update(ids);
  model_config["torch_dtype"] = stored == StoredFloats::bfloat16 ? "bfloat16" : "float32";
  JsonValue generation_config = {{"_from_model_config", true}};
  generation_config.update(ids);
  Files files = {{"generation_config.json", text_of(generation_config)},
                 {"tokenizer_config.json", text_of(tokenizer_config(task))}};
  for (const char* name : kept_file_names)
    if (const auto kept = metadata.find(kept_file(name)); kept != metadata.end())
      files[name] = kept->second;
  set_conversations(files, task, ids);
  const JsonValue kept = JsonValue::parse_or_null(files.at("tokenizer_config.json"));
  if (task.tokenizer().before_text().empty() && kept.is_object() && kept.contains("add_bos_token"))
    set_fields(files, "tokenizer_config.json", {{"add_bos_token", false}});
  files["config.json"] = text_of(model_config);
  const CharVocabulary* characters = task.tokenizer().characters();
  files["tokenizer.json"] =
      characters ? character_tokenizer_json(*characters) : metadata.at("tokenizer");

  const Safetensors weights =
      published_weights(given, trained.task->model(), published.architecture);
  NewFolder made(folder);
  for (const auto& [name, content] : files) made.write(name, {content});
  write_safetensors([&](const auto& parts) { made.write("model.safetensors", parts); }, weights,
                    stored);
  made.finish();
  ModelExport written{names_of(published.architecture).class_name};
  if (published.architecture == Architecture::llama && published.width % published.heads != 0)
    written.notes.push_back(fmt::format(
        "{} = {} is not a multiple of {} = {}: transformers refuses this of a {}; "
        "--format gguf writes the model for llama.cpp",
        "model.width", published.width, "model.heads", published.heads, written.architecture));
  return written;
}

void export_weights(const TrainedModel& trained, const std::string& path, StoredFloats stored) {
  expect_new_file(path);
  Safetensors file{.tensors = {}, .metadata = weights_metadata};
  for (const Parameter* parameter : trained.task->model().parameters())
    file.tensors.emplace_back(parameter->name, parameter->value());
  write_safetensors(path, file, stored);
}

std::int64_t export_word_vectors(const TrainedModel& trained, const std::string& out) {
  auto* task = task_as<WordVectorTask>(*trained.task);
  expect_input(task != nullptr,
               "--format word2vec: expected a run of word-vectors, found one of {}; --format "
               "safetensors writes the weights of any model",
               trained.config[key::task]);
  expect_new_file(out);
  write_file_atomically(out, {word_vectors_text({task->words(), task->vectors()})});
  return std::ssize(task->words());
}

}  // namespace tapestry
