#pragma once

#include <map>
#include <optional>
#include <string>

#include "data/text/chat_template.hpp"

// In which template the conversations of a model are written, by what its checkpoint keeps.
namespace tapestry {

// The metadata that hold the template by which a model was trained, as to_json gives it.
inline constexpr const char* chat_template_name = "chat_template";

// That by which the model was trained, or else that of the published tokenizer whose files it
// carries (chat_template.jinja, tokenizer_config.json); nothing where it has none.
// InputError as of recognised_chat_template.
std::optional<ChatTemplate> kept_chat_template(const std::map<std::string, std::string>& metadata);

// The same of the files that lie beside a tokenizer.json.
std::optional<ChatTemplate> chat_template_beside(const std::string& tokenizer_path);

}  // namespace tapestry
