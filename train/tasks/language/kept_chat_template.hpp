#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/text/chat_template.hpp"
#include "train/tasks/language/language_model.hpp"

// In which template the conversations of a model are written, by what its checkpoint keeps.
namespace tapestry {

// The metadata that hold the template by which a model was trained, as to_json gives it.
inline constexpr const char* chat_template_name = "chat_template";

// That by which the model was trained, or else that of the published tokenizer whose files it
// carries (chat_template.jinja, tokenizer_config.json); nothing where it has none.
// InputError as of recognized_chat_template.
std::optional<ChatTemplate> kept_chat_template(const std::map<std::string, std::string>& metadata);

// Returns the text in Jinja of the chat template of the published tokenizer whose files the model
// carries: chat_template.jinja, or the default one in tokenizer_config.json. Empty if it has none.
std::string carried_jinja(const std::map<std::string, std::string>& metadata);

// That by which the model was trained, in Jinja; nothing where it was not trained on conversations,
// or where this is the template of the published tokenizer whose files it carries.
std::optional<std::string> trained_jinja(const LanguageModel& task);

// The same as kept_chat_template of the files that lie beside a tokenizer.json.
std::optional<ChatTemplate> chat_template_beside(const std::string& tokenizer_path);

}  // namespace tapestry
