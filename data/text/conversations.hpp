#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/json.hpp"

namespace tapestry {

enum class Speaker { system, user, assistant };

const char* to_string(Speaker speaker);

struct Message {
  Speaker speaker;
  std::string content{};               // UTF-8
  bool is_learned = false;             // a message of the assistant whose tokens are targets
  std::vector<std::int32_t> tokens{};  // tokens of the content, if they are known already
};

struct Conversation {
  std::vector<Message> messages{};  // at least one
  std::int64_t line = 0;            // line of the file
};

struct ConversationList {
  std::string path{};
  std::vector<Conversation> conversations{};  // at least one
};

// Reads JSONL, plain or gzip, with one conversation per line; ignores empty lines. A line is an
// object with
//   "messages": [{"role": "system" | "user" | "assistant", "content": text}, …], or
//   "conversations": [{"from": "system" | "human" | "gpt", "value": text}, …] (ShareGPT), or
//   "prompt" and "completion": texts of a user and of the assistant, or lists of such messages, of
//   which only those of the completion are learned; or
//   "instruction", "input", which may be left out or empty, and "output": texts (Alpaca).
// A message of "weight" 0 is not learned. Other fields are ignored. Throws InputError with file,
// line and field for text that is not UTF-8 or not JSON, a line above 16 MiB, another role or
// weight, a tool call, content that is not a text, a system message that is not the first, no
// message of the assistant, a file above 1 GiB, and a file without conversations.
ConversationList load_conversations(const std::string& path);

// Returns whether an object has a field with which those of conversations begin.
bool is_conversation(const JsonValue& object);

}  // namespace tapestry
