#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/conversations.hpp"

namespace tapestry {

// What stands before and after a message's content.
struct ChatTurn {
  std::string before{}, after{};
  bool operator==(const ChatTurn&) const = default;
};

// How a conversation is written as one text, which a model reads and goes on with.
struct ChatTemplate {
  std::string name{};               // "chatml", "llama3"; of another one, the text it was read from
  std::string start{};              // stands before all messages
  std::array<ChatTurn, 3> turns{};  // by Speaker
  std::string default_system{};     // where a conversation has no system message; empty: none
  bool trims = false;               // contents lose the white space around them
  bool is_exchange = false;         // a user's message and the answer in turn
  bool takes_system = true;         // a system message has a place
  bool begins_as_texts = false;     // the tokens that stand before the tokenizer's texts come first

  const ChatTurn& turn(Speaker speaker) const { return turns[static_cast<std::size_t>(speaker)]; }
};

// "chatml", "llama3", or a text. One message is written as in "<|{role}|>\n{content}\n", or a
// message and its answer as in "### Instruction:\n{user}\n\n### Response:\n{assistant}\n\n", which
// may begin with a system message: all up to {system} and the white space after it stands only
// where there is one. "{{" and "}}" are braces. InputError where that cannot be read.
ChatTemplate read_chat_template(const std::string& text);

// Names of tokens that a tokenizer adds to a conversation: before it, and after an answer where the
// template writes no token that ends one.
struct TemplateTokens {
  std::string start{}, answer_end{};
};

// The template in Jinja, for other programs, and the template of such a text; nothing where
// `jinja` has another form.
std::string to_jinja(const ChatTemplate& chat_template, const TemplateTokens& tokens);
std::optional<ChatTemplate> chat_template_from_jinja(std::string_view jinja);

// One that to_jinja wrote, ChatML or Llama 3's from a template in Jinja, as published tokenizers
// have it, with the system text that it puts where a conversation has none. Calls of tools, which
// conversations here do not have, may be in it. `bos_token` is the text of the tokenizer's, or
// empty. InputError says by what it differs from both.
ChatTemplate recognised_chat_template(std::string_view jinja, std::string_view bos_token = "");

// What a text has in the manner of a special token's name, "<|im_end|>", each once; and what the
// template writes of it.
std::vector<std::string> marks_of(std::string_view text);
std::vector<std::string> special_names(const ChatTemplate& chat_template);

// For keeping: a JSON object, and what it was made of. InputError, which names `place`, where it is
// no such object.
std::string to_json(const ChatTemplate& chat_template);
ChatTemplate chat_template_from_json(std::string_view json, const std::string& place);

// The conversation as one text; the messages alone, without an end that a tokenizer would add.
std::string written(const ChatTemplate& chat_template, const std::vector<Message>& messages);

}  // namespace tapestry
