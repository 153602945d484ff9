#include "train/tasks/language/kept_chat_template.hpp"

#include <filesystem>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/chat_encoder.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;
using Json = JsonValue;

constexpr const char *template_file = "chat_template.jinja",
                     *settings_file = "tokenizer_config.json";

// The files of a published tokenizer, as far as they exist.
struct TokenizerFiles {
  std::optional<std::string> chat_template{}, settings{};
};

// Returns the text of a field, or the `content` of an object.
std::string text_of(const Json& settings, const char* name) {
  const Json value = settings.value(name, Json());
  const Json text = value.is_object() ? value.value("content", Json()) : value;
  return text.is_string() ? text.get<std::string>() : "";
}

// Returns the template in tokenizer_config.json: a text, or the one of a list that is named
// "default"; empty if there is none. Throws InputError for a list without this name.
std::string template_in(const Json& settings) {
  const Json given = settings.value("chat_template", Json());
  if (given.is_string()) return given.get<std::string>();
  if (!given.is_array()) return "";
  for (const Json& each : given)
    if (each.is_object() && text_of(each, "name") == "default") return text_of(each, "template");
  throw InputError(
      fmt::format("{}: chat_template: expected a template named \"default\" in the list; add one",
                  settings_file));
}

Json settings_in(const TokenizerFiles& files) {
  const Json settings = files.settings ? parse_json(*files.settings, settings_file) : Json();
  return settings.is_object() ? settings : Json::object();
}

std::string jinja_in(const TokenizerFiles& files, const Json& settings) {
  return files.chat_template.value_or(template_in(settings));
}

std::optional<ChatTemplate> published_template(const TokenizerFiles& files) {
  const Json settings = settings_in(files);
  const std::string jinja = jinja_in(files, settings);
  if (jinja.empty()) return std::nullopt;
  try {
    return recognized_chat_template(jinja, text_of(settings, "bos_token"));
  } catch (const InputError& error) {
    throw InputError(
        fmt::format("the tokenizer's chat template is not recognized; expected one like ChatML: {}",
                    error.what()));
  }
}

// Returns the published files that a model stores.
TokenizerFiles carried_files(const std::map<std::string, std::string>& metadata) {
  const auto carried = [&](const char* name) -> std::optional<std::string> {
    const auto found = metadata.find(std::string(carried_prefix) + name);
    if (found == metadata.end()) return std::nullopt;
    return found->second;
  };
  return {carried(template_file), carried(settings_file)};
}

bool carries(const std::map<std::string, std::string>& metadata, const std::string& own) try {
  const std::optional<ChatTemplate> carried = published_template(carried_files(metadata));
  return carried && to_json(*carried) == own;
} catch (const InputError&) {  // the template is not recognized
  return false;
}

}  // namespace

std::optional<ChatTemplate> kept_chat_template(const std::map<std::string, std::string>& metadata) {
  if (const auto own = metadata.find(chat_template_name); own != metadata.end())
    return chat_template_from_json(own->second, "the checkpoint");
  return published_template(carried_files(metadata));
}

std::string carried_jinja(const std::map<std::string, std::string>& metadata) {
  const TokenizerFiles files = carried_files(metadata);
  return jinja_in(files, settings_in(files));
}

std::optional<std::string> trained_jinja(const LanguageModel& task) {
  const std::map<std::string, std::string> metadata = task.metadata();
  const auto own = metadata.find(chat_template_name);
  if (own == metadata.end() || carries(metadata, own->second)) return std::nullopt;
  return ChatEncoder(*task.tokenizer().byte_pairs(),
                     chat_template_from_json(own->second, "the checkpoint"), task.end_of_text())
      .jinja();
}

std::optional<ChatTemplate> chat_template_beside(const std::string& tokenizer_path) {
  if (tokenizer_path.empty()) return std::nullopt;
  const auto beside = [&](const char* name) -> std::optional<std::string> {
    constexpr std::int64_t max_bytes = std::int64_t{1} << 20;
    const std::string path = (fs::path(tokenizer_path).parent_path() / name).string();
    if (!fs::exists(path)) return std::nullopt;
    std::string content = read_file(path, max_bytes);
    require_utf8(content, path);
    return content;
  };
  return published_template({beside(template_file), beside(settings_file)});
}

}  // namespace tapestry
