#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {

enum class Speaker { system, user, assistant };

const char* to_string(Speaker speaker);

struct Message {
  Speaker speaker;
  std::string content{};               // UTF-8
  bool is_learnt = false;              // of the assistant: a model learns to write it
  std::vector<std::int32_t> tokens{};  // of the content, where they are known already
};

struct Conversation {
  std::vector<Message> messages{};  // at least one
  std::int64_t line = 0;            // of the file
};

struct ConversationList {
  std::string path{};
  std::vector<Conversation> conversations{};  // at least one
};

// Reads JSONL, plain or gzip, a conversation a line; empty lines are passed over. A line is an
// object with
//   "messages": [{"role": "system" | "user" | "assistant", "content": text}, …], or
//   "prompt" and "completion": texts, of a user and the assistant, or lists of such messages, of
//   which the completion's alone are learnt.
// A message of "weight" 0 is not learnt. Other fields are passed over. InputError names file, line
// and field: not UTF-8, not JSON, a line above 16 MiB, another role, a call of a tool, content that
// is no text, a system message that is not the first, or no message of the assistant; also above
// 1 GiB.
ConversationList load_conversations(const std::string& path);

}  // namespace tapestry
