#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/conversations.hpp"

namespace tapestry {

// The text before and after the content of a message.
struct ChatTurn {
  std::string before{}, after{};
  bool operator==(const ChatTurn&) const = default;
};

// The format in which a conversation is written as one text, which a model reads and continues.
struct ChatTemplate {
  std::string name{};               // "chatml", "llama3", or the text that describes the template
  std::string start{};              // precedes all messages
  std::array<ChatTurn, 3> turns{};  // indexed by Speaker
  std::string default_system{};     // system message of conversations without one; empty: none
  bool trims = false;               // remove white space around contents
  bool is_exchange = false;         // messages of the user and answers alternate
  bool takes_system = true;         // system messages are allowed
  bool begins_as_texts = false;     // begins with the tokens that the tokenizer adds before a text

  const ChatTurn& turn(Speaker speaker) const { return turns[static_cast<std::size_t>(speaker)]; }
};

// Returns the template "chatml" or "llama3", or the one that a text describes: one message as in
// "<|{role}|>\n{content}\n", or a message and its answer as in
// "### Instruction:\n{user}\n\n### Response:\n{assistant}\n\n". The latter may begin with {system}:
// the text up to it and the white space after it are written only if there is a system message.
// "{{" and "}}" are braces. Throws InputError for another text; `place` begins its message.
ChatTemplate read_chat_template(const std::string& text,
                                const std::string& place = "chat template");

// Names of tokens that a tokenizer adds to a conversation: before it, and after an answer if the
// template has no token that ends one.
struct TemplateTokens {
  std::string start{}, answer_end{};
};

// Return the template in Jinja, for other programs, and the template of such a text; nothing if
// `jinja` has another form.
std::string to_jinja(const ChatTemplate& chat_template, const TemplateTokens& tokens);
std::optional<ChatTemplate> chat_template_from_jinja(std::string_view jinja);

// Returns the template of a text in Jinja that to_jinja() wrote, or that is ChatML's or Llama 3's
// in a published tokenizer, with its default system message. The text may have tool calls, which
// conversations here do not have. `bos_token` is the text of the tokenizer's token, or empty.
// Throws InputError with the difference from both, or if the text is not UTF-8 or above 256 KiB.
ChatTemplate recognized_chat_template(std::string_view jinja, std::string_view bos_token = "");

// Return the parts of a text, and of a template, that look like names of special tokens, such as
// "<|im_end|>", each once.
std::vector<std::string> marks_of(std::string_view text);
std::vector<std::string> special_names(const ChatTemplate& chat_template);

// Return the template as a JSON object, and the template of such an object. Throws InputError with
// `place` for another text.
std::string to_json(const ChatTemplate& chat_template);
ChatTemplate chat_template_from_json(std::string_view json, const std::string& place);

// Returns the conversation as one text, without tokens that a tokenizer adds. Throws InputError if
// the messages do not fit the template.
std::string written(const ChatTemplate& chat_template, const std::vector<Message>& messages);

}  // namespace tapestry
