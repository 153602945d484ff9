#include "data/text/conversations.hpp"

#include <stdexcept>

#include "data/text/chat_template.hpp"
#include "tests/fuzz/target.hpp"

namespace tapestry {
namespace {

// Checks that conversations that were read can be written as ChatML, which accepts every order.
const RegisterFuzzTarget conversations("conversations", [](std::string_view bytes) {
  const ConversationList list = load_conversations(written_file("conversations.jsonl", bytes));
  const ChatTemplate chatml = read_chat_template("chatml");
  for (const Conversation& conversation : list.conversations) {
    const std::string text = written(chatml, conversation.messages);
    for (const Message& message : conversation.messages)
      if (text.find(message.content) == std::string::npos)
        throw std::logic_error("conversations: a message was lost");
  }
});

// A template of Tapestry and, after the first zero byte, one in Jinja.
const RegisterFuzzTarget chat_template("chat-template", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  if (parts.size() > 1) {
    const ChatTemplate known = recognized_chat_template(parts[1], "<|begin_of_text|>");
    if (to_json(chat_template_from_json(to_json(known), "kept")) != to_json(known))
      throw std::logic_error("chat-template: another template came back");
    return;
  }
  const ChatTemplate read = read_chat_template(std::string(parts.front()));
  written(read, {{Speaker::user, "a"}, {Speaker::assistant, "b"}});
  special_names(read);
});

}  // namespace
}  // namespace tapestry
