#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/text/chat_template.hpp"
#include "train/tasks/language/language_model.hpp"

// The chat template of a model, which its checkpoint stores.
namespace tapestry {

// The metadata field of the template that a model was trained with, in the form of to_json.
inline constexpr const char* chat_template_name = "chat_template";

// Returns the template that the model was trained with, or else that of the published tokenizer
// whose files the model stores (chat_template.jinja, tokenizer_config.json), if there is one.
// Throws InputError as recognized_chat_template does, and as carried_jinja does.
std::optional<ChatTemplate> kept_chat_template(const std::map<std::string, std::string>& metadata);

// Returns the chat template of the published tokenizer whose files the model stores, in Jinja:
// chat_template.jinja, or the default one of tokenizer_config.json. Empty if there is none. Throws
// InputError for a list of templates without one named "default", and for invalid JSON.
std::string carried_jinja(const std::map<std::string, std::string>& metadata);

// Returns the template that the model was trained with, in Jinja; nothing if it was not trained on
// conversations, or if this is the template of the published tokenizer whose files the model
// stores.
std::optional<std::string> trained_jinja(const LanguageModel& task);

// Returns the template of the files beside a tokenizer.json, if there is one. Throws InputError as
// kept_chat_template does, and for a file that cannot be read.
std::optional<ChatTemplate> chat_template_beside(const std::string& tokenizer_path);

}  // namespace tapestry
