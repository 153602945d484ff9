#include "train/tools/convert/published_files.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;
using Json = JsonValue;

constexpr std::int64_t max_bytes = std::int64_t{1} << 20;
const std::string special_tokens_key = std::string(carried_prefix) + "special_tokens";

}  // namespace

std::string kept_file(const std::string& name) { return std::string(carried_prefix) + name; }

void keep_files(const std::string& folder, Metadata& metadata) {
  for (const char* name :
       {"tokenizer_config.json", "generation_config.json", "chat_template.jinja"}) {
    const std::string path = (fs::path(folder) / name).string();
    if (!fs::exists(path)) continue;
    std::string content = read_file(path, max_bytes);
    require_utf8(content, path);
    metadata[kept_file(name)] = std::move(content);
  }
}

namespace {

// One number, or a list of them, or null: a list. Models have rows that their tokenizers do not
// name, and say nothing wrong with such a number.
Json numbers_of(const Json& ids, const std::string& path) {
  Json numbers = ids.is_array() ? ids : ids.is_null() ? Json::array() : Json::array({ids});
  for (const Json& id : numbers)
    expect_input(id.is_number_unsigned() && id <= std::numeric_limits<std::int32_t>::max(),
                 "{}: eos_token_id: expected the number of a token, or a list of them, found {}",
                 path, brief(ids));
  return numbers;
}

}  // namespace

void keep_special_tokens(const Json& config, const std::string& folder, Metadata& metadata) {
  Json kept = Json::object();
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (const auto found = config.find(name); found != config.end()) kept[name] = *found;
  metadata[special_tokens_key] = kept.dump();

  std::string path = (fs::path(folder) / "config.json").string();
  Json ends = kept.value("eos_token_id", Json());
  if (const auto file = metadata.find(kept_file("generation_config.json"));
      file != metadata.end()) {
    const std::string generation = (fs::path(folder) / "generation_config.json").string();
    const Json settings = parse_json(file->second, generation);
    if (const auto found = settings.find("eos_token_id"); found != settings.end()) {
      ends = *found;
      path = generation;
    }
  }
  metadata[stop_tokens_name] = numbers_of(ends, path).dump();
}

Json kept_special_tokens(const Metadata& metadata) {
  const auto found = metadata.find(special_tokens_key);
  if (found == metadata.end()) return Json::object();
  Json kept = parse_json(found->second, special_tokens_key);
  expect_input(kept.is_object(), "{}: expected a JSON object", special_tokens_key);
  return kept;
}

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
    for (const auto token : Json::parse(kept->second).get<std::vector<std::int32_t>>()) add(token);
  return ends;
}

}  // namespace tapestry
