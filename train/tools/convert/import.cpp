#include "train/tools/convert/import.hpp"

#include <filesystem>
#include <set>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/character_json.hpp"
#include "data/text/text.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/transformer_keys.hpp"
#include "train/tools/convert/architectures.hpp"
#include "train/tools/convert/imported_model.hpp"
#include "train/tools/convert/published_files.hpp"
#include "train/tools/convert/published_weights.hpp"
#include "train/tools/convert/tensor_names.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

using Json = JsonValue;

constexpr std::int64_t max_file_bytes = std::int64_t{1} << 20, max_tokenizer_bytes = 1 << 26;

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

std::string read_required(const std::string& folder, const std::string& name,
                          std::int64_t max_bytes) {
  expect_input(
      fs::is_directory(folder),
      "{}: no such folder; name one with config.json, model.safetensors and tokenizer.json",
      printable(folder));
  expect_input(!fs::exists(in(folder, "adapter_config.json")),
               "{}: holds an adapter; --base RUN names the model that it is for",
               printable(folder));
  expect_input(fs::exists(in(folder, name)),
               "{}: holds no {}; give a folder as Hugging Face's library saves a model", folder,
               name);
  return read_file(in(folder, name), max_bytes);
}

// A token's text, which tokenizer_config.json gives by itself or as an object's content.
std::string token_text(const Json& config, const std::string& name) {
  const auto found = config.find(name);
  if (found == config.end()) return "";
  const Json& token =
      found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  return token.is_string() ? token.get<std::string>() : "";
}

// The token that ends a text: tokenizer_config.json's eos_token, or else the first number of
// config.json's eos_token_id. Empty where neither says.
std::string end_of_text(const Json& config, const std::map<std::string, std::string>& metadata,
                        const std::string& folder, const BytePairTokenizer& tokenizer) {
  const auto kept = metadata.find(kept_file("tokenizer_config.json"));
  if (kept != metadata.end()) {
    const std::string path = in(folder, "tokenizer_config.json");
    const Json settings = parse_json(kept->second, path);
    expect_input(settings.is_object(), "{}: expected a JSON object", path);
    const std::string text = token_text(settings, "eos_token");
    expect_input(text.empty() || tokenizer.find(text) >= 0,
                 "{}: eos_token: {}: not a token of tokenizer.json", path, brief(text));
    if (!text.empty()) return text;
  }
  const auto id = config.find("eos_token_id");
  const Json first = id == config.end() ? Json() : id->is_array() && !id->empty() ? (*id)[0] : *id;
  if (!first.is_number_unsigned()) return "";
  const auto number = first.get<std::uint64_t>();
  expect_input(number < static_cast<std::uint64_t>(tokenizer.size()),
               "{}: eos_token_id: {}: tokenizer.json has {} tokens", in(folder, "config.json"),
               number, tokenizer.size());
  return tokenizer.model().tokens[number];
}

ImportedTokens read_tokens(const Json& config, const std::string& folder) {
  const std::string path = in(folder, "tokenizer.json");
  std::string json = read_required(folder, "tokenizer.json", max_tokenizer_bytes);
  ImportedTokens tokens;
  keep_files(folder, tokens.metadata);
  keep_special_tokens(config, folder, tokens.metadata);
  if (const auto characters = vocabulary_of_characters(json, path)) {
    tokens.metadata["vocabulary"] = Json(characters->symbols()).dump();
    tokens.size = characters->size();
    return tokens;
  }
  const auto tokenizer = BytePairTokenizer::from_json(json, path);
  tokens.metadata["tokenizer"] = std::move(json);
  tokens.size = tokenizer.size();
  tokens.settings = {
      {key::tokenizer.name, fs::absolute(path).string()},
      {key::end_of_text.name, end_of_text(config, tokens.metadata, folder, tokenizer)}};
  return tokens;
}

// Copies each tensor to its places in the model. All names and shapes are checked first.
class WeightImport final {
 public:
  WeightImport(PublishedWeights& weights, Architecture architecture, const Config& config,
               Module& model)
      : weights_(weights),
        architecture_(architecture),
        is_prefixed_(architecture != Architecture::gpt2 ||
                     weights.tensors().contains("transformer.wte.weight")) {
    for (Parameter* parameter : model.parameters())
      for (TensorPlace& place : places_of(architecture, parameter->name, parameter->value().shape(),
                                          head_counts(config), turns_neighbours(config)))
        add(std::move(place), *parameter);
    check_rest(config);
  }

  void copy() {
    for (auto& [place, parameter, tensor] : copies_) {
      const Array theirs = weights_.read(*tensor).to(DType::float32);
      expect_finite(theirs, weights_.path_of(*tensor), tensor->entry.name);
      from_published(place, theirs, parameter->value());
    }
    expect_tied();
  }

 private:
  struct Copy {
    TensorPlace place;
    Parameter* parameter;
    const PublishedWeights::Tensor* tensor;
  };

  // As it is in the file: GPT-2's own has its names without what stands before them elsewhere.
  std::string stored_name(const std::string& name) const {
    constexpr std::string_view prefix = "transformer.";
    return is_prefixed_ || !name.starts_with(prefix) ? name : name.substr(prefix.size());
  }

  const PublishedWeights::Tensor* find(const std::string& name) const {
    const auto found = weights_.tensors().find(stored_name(name));
    return found == weights_.tensors().end() ? nullptr : &found->second;
  }

  void add(TensorPlace place, Parameter& parameter) {
    const PublishedWeights::Tensor* tensor = find(place.theirs);
    const Shape expected = place.shape(parameter.value().shape());
    expect_input(tensor != nullptr, "{}: tensor {} {} is missing, which config.json asks for",
                 weights_.path(), stored_name(place.theirs), to_string(expected));
    expect_input(tensor->entry.shape == expected, "{}: tensor {} is {}, config.json asks for {}",
                 weights_.path_of(*tensor), tensor->entry.name, to_string(tensor->entry.shape),
                 to_string(expected));
    taken_.insert(tensor->entry.name);
    copies_.push_back({std::move(place), &parameter, tensor});
  }

  // What is left over changes nothing, or is refused.
  void check_rest(const Config& config) {
    for (const auto& [name, tensor] : weights_.tensors()) {
      if (taken_.contains(name)) continue;
      const std::string full = is_prefixed_ || name == head_ ? name : "transformer." + name;
      if (is_constant(architecture_, full)) continue;
      if (name == head_ && config[key::tied_embeddings]) {
        tied_head_ = &tensor;
        continue;
      }
      throw InputError(
          printable(fmt::format("{}: tensor {} {}: config.json asks for no such tensor",
                                weights_.path_of(tensor), name, to_string(tensor.entry.shape))));
    }
  }

  // Some files hold the head although it is the table of embeddings.
  void expect_tied() {
    if (!tied_head_) return;
    const std::string table = architecture_ == Architecture::gpt2 ? "transformer.wte.weight"
                                                                  : "model.embed_tokens.weight";
    const Array head = weights_.read(*tied_head_).to(DType::float32),
                embeddings = weights_.read(*find(table)).to(DType::float32);
    const bool same = head.shape() == embeddings.shape() &&
                      std::ranges::equal(head.values<float>(), embeddings.values<float>());
    expect_input(same, "{}: tensor {} is not {}, although config.json ties them",
                 weights_.path_of(*tied_head_), head_, table);
  }

  static constexpr const char* head_ = "lm_head.weight";
  PublishedWeights& weights_;
  Architecture architecture_;
  bool is_prefixed_;
  std::vector<Copy> copies_{};
  std::set<std::string> taken_{};
  const PublishedWeights::Tensor* tied_head_ = nullptr;
};

}  // namespace

ImportedModel import_published(const std::string& folder,
                               const std::vector<std::string>& overrides) {
  const std::string config_path = in(folder, "config.json");
  const Json json = parse_json(read_required(folder, "config.json", max_file_bytes), config_path);
  const PublishedConfig published = read_published_config(json, config_path);
  PublishedWeights weights(folder);
  const ImportedTokens tokens = read_tokens(json, folder);
  expect_input(tokens.size <= published.vocabulary,
               "{}: {} tokens, config.json has a vocabulary of {}: the tokenizer of another model",
               in(folder, "tokenizer.json"), tokens.size, published.vocabulary);
  ImportedModel model = model_to_fill(
      {.config_path = config_path,
       .weights_path = weights.path(),
       .numbers = weights.elements(),
       .name = (fs::absolute(folder) / "").lexically_normal().parent_path().filename().string()},
      published, tokens, overrides);
  WeightImport(weights, published.architecture, model.config, model.task->model()).copy();
  return model;
}

}  // namespace tapestry
