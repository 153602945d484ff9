#include "train/tools/convert/export.hpp"

#include <filesystem>
#include <optional>

#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/character_json.hpp"
#include "data/text/text.hpp"
#include "train/config/keys.hpp"
#include "train/run/new_folder.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/transformer_keys.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/published_files.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {
using Ordered = JsonValue;

// Other programs ask for it: the library that the tensors are for.
const std::map<std::string, std::string> weights_metadata = {{"format", "pt"}};

Safetensors published_weights(const Config& config, Module& model, Architecture architecture) {
  Safetensors file{.tensors = {}, .metadata = weights_metadata};
  for (const Parameter* parameter : model.parameters()) {
    const std::vector<TensorPlace> places =
        places_of(architecture, parameter->name, parameter->value().shape(), head_counts(config),
                  turns_neighbours(config));
    require(!places.empty(), "export: {} has no parameter {}", to_string(architecture),
            parameter->name);
    for (const TensorPlace& place : places)
      file.tensors.emplace_back(place.theirs, to_published(place, parameter->value()));
  }
  return file;
}

// What a language model's tokens are to others.
struct Tokens {
  std::string json;  // tokenizer.json
  std::optional<std::int32_t> end{};
  std::string end_text{};
};

Tokens tokens_of(const LanguageModel& task, const Metadata& metadata) {
  if (const CharVocabulary* characters = task.tokenizer().characters())
    return {.json = character_tokenizer_json(*characters)};
  const BytePairTokenizer& pairs = *task.tokenizer().byte_pairs();
  Tokens tokens{.json = metadata.at("tokenizer"), .end = task.end_of_text()};
  if (task.end_of_answer()) tokens.end = task.end_of_answer();
  if (tokens.end) tokens.end_text = pairs.model().tokens[*tokens.end];
  return tokens;
}

Ordered tokenizer_config(const Config& config, const Tokens& tokens) {
  Ordered json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                  {"model_max_length", config[key::context]},
                  {"clean_up_tokenization_spaces", false}};
  if (tokens.end) json["eos_token"] = tokens.end_text;
  return json;
}

// One number, or a list of several.
Ordered number_or_list(const std::vector<std::int32_t>& numbers) {
  return numbers.size() == 1 ? Ordered(numbers.front()) : Ordered(numbers);
}

// The numbers of special tokens: those that the model came with, and the end of a text. A training
// on conversations decides where an answer ends.
Ordered special_ids(const LanguageModel& task, const Metadata& metadata, const Tokens& tokens) {
  Ordered ids = Ordered::object();
  const JsonValue kept = kept_special_tokens(metadata);
  for (const auto& [name, id] : kept.items()) ids[name] = id;
  if (task.end_of_answer()) ids["eos_token_id"] = number_or_list(end_tokens(task));
  if (!ids.contains("eos_token_id"))
    ids["eos_token_id"] = tokens.end ? Ordered(*tokens.end) : Ordered();
  if (!ids.contains("bos_token_id")) ids["bos_token_id"] = nullptr;
  return ids;
}

std::string text_of(const Ordered& json) { return json.dump(2) + "\n"; }

using Files = std::map<std::string, std::string>;

// With fields of an object that stands in one of the files.
void set_fields(Files& files, const std::string& name, const Ordered& fields) {
  Ordered json = Ordered::parse_or_null(files.at(name));
  expect_input(json.is_object(), "{}: expected a JSON object", name);
  json.update(fields);
  files[name] = text_of(json);
}

// Makes the files say how conversations are written and where answers end, as in the training.
void set_conversations(Files& files, const LanguageModel& task, const Tokens& tokens,
                       const Ordered& ids) {
  if (!task.end_of_answer()) return;
  Ordered settings = {{"eos_token", tokens.end_text}};
  if (const std::optional<std::string> jinja = trained_jinja(task)) {
    settings["chat_template"] = *jinja;
    files.erase("chat_template.jinja");
  }
  set_fields(files, "tokenizer_config.json", settings);
  set_fields(files, "generation_config.json", {{"eos_token_id", ids.at("eos_token_id")}});
}

}  // namespace

std::string export_published(const TrainedModel& trained, const std::string& folder,
                             StoredFloats stored) {
  const Config& config = trained.config;
  const auto* task = language_model_of(*trained.task);
  expect_input(task != nullptr,
               "--format huggingface: {} = \"{}\": only a language-model has an architecture "
               "there; --format safetensors takes the weights out of any model",
               key::task.name, config[key::task]);
  expect_input(
      std::holds_alternative<Transformer>(task->network()),
      "--format huggingface: model.kind = \"recurrent\": expected \"transformer\"; --format "
      "safetensors takes the weights out of any model");
  const Architecture architecture = architecture_of(config);
  const Metadata metadata = task->metadata();
  const Tokens tokens = tokens_of(*task, metadata);
  const Ordered ids = special_ids(*task, metadata, tokens);

  Ordered model_config = published_config(config, task->vocabulary());
  model_config.update(ids);
  model_config["torch_dtype"] = stored == StoredFloats::bfloat16 ? "bfloat16" : "float32";
  Ordered generation_config = {{"_from_model_config", true}};
  generation_config.update(ids);
  Files files = {{"generation_config.json", text_of(generation_config)},
                 {"tokenizer_config.json", text_of(tokenizer_config(config, tokens))}};
  for (const char* name :
       {"tokenizer_config.json", "generation_config.json", "chat_template.jinja"})
    if (const auto kept = metadata.find(kept_file(name)); kept != metadata.end())
      files[name] = kept->second;
  set_conversations(files, *task, tokens, ids);
  files["config.json"] = text_of(model_config);
  files["tokenizer.json"] = tokens.json;

  const Safetensors weights = published_weights(config, trained.task->model(), architecture);
  NewFolder made(folder);
  for (const auto& [name, content] : files) made.write(name, {content});
  write_safetensors([&](const auto& parts) { made.write("model.safetensors", parts); }, weights,
                    stored);
  made.finish();
  return to_string(architecture);
}

void export_weights(const TrainedModel& trained, const std::string& path, StoredFloats stored) {
  expect_new_file(path);
  Safetensors file{.tensors = {}, .metadata = weights_metadata};
  for (const Parameter* parameter : trained.task->model().parameters())
    file.tensors.emplace_back(parameter->name, parameter->value());
  write_safetensors(path, file, stored);
}

}  // namespace tapestry
