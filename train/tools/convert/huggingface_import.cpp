#include <filesystem>
#include <set>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tools/convert/import.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;
using Json = JsonValue;

constexpr const char *index_name = "model.safetensors.index.json",
                     *config_request = "config.json asks for";
constexpr std::int64_t max_index_bytes = 1 << 25, max_tokenizer_bytes = 1 << 26;

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

std::string read_required(const std::string& folder, const std::string& name,
                          std::int64_t max_bytes = max_kept_bytes) {
  expect_input(
      is_folder(folder),
      "{}: no such folder; name one with config.json, model.safetensors and tokenizer.json",
      printable(folder));
  expect_input(!is_there(in(folder, "adapter_config.json")),
               "{}: contains an adapter; add --base RUN, the run with its base model",
               printable(folder));
  expect_input(is_there(in(folder, name)) || !is_there(in(folder, "config.toml")),
               "{}: is a run, which needs no import; give the command this folder as RUN",
               printable(folder));
  expect_input(is_there(in(folder, name)),
               "{}: has no {}; expected a folder that save_pretrained of transformers wrote",
               printable(folder), name);
  return read_file(in(folder, name), max_bytes);
}

// --- weights ---

// Returns the file name of each tensor, from the index's weight_map. Throws InputError if there is
// no weight_map, or if a name has a folder.
std::map<std::string, std::string> read_index(const std::string& path) {
  const Json index = parse_json(read_file(path, max_index_bytes), path);
  const Json map = index.is_object() ? index.value("weight_map", Json()) : Json();
  expect_input(map.is_object() && !map.empty(),
               "{}: weight_map: expected an object of tensors and the files that hold them; copy "
               "the file again",
               path);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    expect_input(!name.empty() && name != ".." && fs::path(name).filename() == name,
                 "{}: weight_map: {}: expected the name of a file in this folder, found {}; copy "
                 "the file again",
                 path, printable(tensor), brief(file));
    files[tensor] = name;
  }
  return files;
}

PublishedWeights read_sharded_weights(const std::string& folder) {
  PublishedWeights weights{.path = in(folder, index_name), .request = config_request};
  const std::map<std::string, std::string> files = read_index(weights.path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  for (const std::string& name : names) {
    expect_input(is_there(in(folder, name)),
                 "{}: {}, which {} names, is missing; copy this file as well", folder,
                 printable(name), index_name);
    add_safetensors(in(folder, name), weights);
  }
  for (const auto& [tensor, file] : files) {
    const auto found = weights.tensors.find(tensor);
    expect_input(found != weights.tensors.end() && found->second.path == in(folder, file),
                 "{}: weight_map: tensor {} is not in {}; copy the files of one model",
                 weights.path, printable(tensor), printable(file));
  }
  return weights;
}

// Adds the prefix of the tensors' names that GPT-2's own file lacks.
void add_gpt2_prefix(PublishedWeights& weights) {
  const std::string prefix = "transformer.";
  std::map<std::string, PublishedTensor> prefixed;
  for (const auto& [name, tensor] : weights.tensors) {
    if (name.starts_with(prefix)) return;
    prefixed[name == "lm_head.weight" ? name : prefix + name] = tensor;
  }
  weights.tensors = std::move(prefixed);
}

// --- tokens ---

// Returns a stored file as an object, which is empty if the folder has no such file. Throws
// InputError for any other JSON.
Json kept_object(const Metadata& metadata, const std::string& folder, const char* name) {
  const auto kept = metadata.find(kept_file(name));
  if (kept == metadata.end()) return Json::object();
  Json object = parse_json(kept->second, in(folder, name));
  expect_input(object.is_object(), "{}: expected a JSON object; copy the file again",
               in(folder, name));
  return object;
}

// Returns the token that ends a text: eos_token of tokenizer_config.json, a string or an object's
// content, or else the first id of config.json's eos_token_id; empty if there is neither. Throws
// InputError if the tokenizer has no such token.
std::string end_of_text(const Json& config, const Metadata& metadata, const std::string& folder,
                        const BytePairTokenizer& tokenizer) {
  const Json token =
      kept_object(metadata, folder, "tokenizer_config.json").value("eos_token", Json());
  const Json text = token.is_object() ? token.value("content", Json()) : token;
  if (text.is_string() && text != "") {
    expect_input(
        tokenizer.find(text.get<std::string>()) >= 0,
        "{}: eos_token: {}: expected a token of tokenizer.json; copy the files of one model",
        in(folder, "tokenizer_config.json"), brief(text));
    return text.get<std::string>();
  }
  const Json id = config.value("eos_token_id", Json());
  const Json first = id.is_array() && !id.empty() ? id[0] : id;
  if (!first.is_number_unsigned()) return "";
  const auto number = first.get<std::uint64_t>();
  expect_input(number < static_cast<std::uint64_t>(tokenizer.size()),
               "{}: eos_token_id: {}: expected a token below {}, the size of tokenizer.json; copy "
               "the files of one model",
               in(folder, "config.json"), number, tokenizer.size());
  return tokenizer.model().tokens[number];
}

// Returns the files of the folder that export writes again, and the ids of special tokens. The
// tokens that end a text are eos_token_id of generation_config.json, or else of config.json.
Metadata kept_from(const std::string& folder, const Json& config) {
  Metadata metadata;
  for (const char* name : kept_file_names) {
    if (!is_there(in(folder, name))) continue;
    std::string content = read_file(in(folder, name), max_kept_bytes);
    require_utf8(content, in(folder, name));
    metadata[kept_file(name)] = std::move(content);
  }
  const Json generation = kept_object(metadata, folder, "generation_config.json");
  const bool has_ends = generation.contains("eos_token_id");
  keep_special_tokens(config,
                      {in(folder, has_ends ? "generation_config.json" : "config.json"),
                       (has_ends ? generation : config).value("eos_token_id", Json())},
                      metadata);
  return metadata;
}

ImportedTokens read_tokens(const Json& config, const std::string& folder, std::int64_t vocabulary) {
  const std::string path = in(folder, "tokenizer.json");
  std::string json = read_required(folder, "tokenizer.json", max_tokenizer_bytes);
  ImportedTokens tokens{.metadata = kept_from(folder, config)};
  const auto expect_fitting = [&](std::int64_t size) {
    expect_input(size <= vocabulary,
                 "{}: {} tokens, but config.json has a vocabulary of {}; give the model's own "
                 "tokenizer",
                 path, size, vocabulary);
  };
  if (const auto characters = vocabulary_of_characters(json, path)) {
    expect_fitting(characters->size());
    tokens.metadata["vocabulary"] = Json(characters->symbols()).dump();
    return tokens;
  }
  const auto tokenizer = BytePairTokenizer::from_json(json, path);
  expect_fitting(tokenizer.size());
  tokens.metadata["tokenizer"] = std::move(json);
  tokens.settings = {{"data.tokenizer", fs::absolute(path).string()},
                     {"data.end_of_text", end_of_text(config, tokens.metadata, folder, tokenizer)}};
  return tokens;
}

}  // namespace

PublishedWeights read_published_weights(const std::string& folder) {
  const std::string single = in(folder, "model.safetensors");
  if (is_there(single)) {
    PublishedWeights weights{.path = single, .request = config_request};
    add_safetensors(single, weights);
    return weights;
  }
  expect_input(is_there(in(folder, index_name)),
               "{}: holds neither model.safetensors nor {}; give a folder with weights as "
               "safetensors",
               folder, index_name);
  return read_sharded_weights(folder);
}

ImportedModel import_published(const std::string& folder, const std::vector<std::string>& overrides,
                               const std::vector<std::string>& to_ignore) {
  const std::string path = in(folder, "config.json");
  const Json json = parse_json(read_required(folder, "config.json"), path);
  UnknownFields unknown{.to_ignore = to_ignore};
  PublishedModel model{
      .name = (fs::absolute(folder) / "").lexically_normal().parent_path().filename().string(),
      .config_path = path,
      .config = read_published_config(json, path, unknown),
      .format = TensorFormat::huggingface,
      .weights = read_published_weights(folder)};
  if (model.config.architecture == Architecture::gpt2) add_gpt2_prefix(model.weights);
  model.unknown = std::move(unknown);
  model.tokens = read_tokens(json, folder, model.config.vocabulary);
  return import_model(model, overrides);
}

}  // namespace tapestry
