#include "data/text/conversations.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"

namespace tapestry {
namespace {

using Json = JsonValue;

// A reader of the conversation of one line.
class ConversationReader {
 public:
  explicit ConversationReader(const FileLine& line) : line_(line) {}

  std::vector<Message> read() {
    const Json object = json_object_of(line_);
    const bool has_messages = object.contains("messages");
    const bool has_pair = object.contains("prompt") || object.contains("completion");
    line_.expect(has_messages != has_pair,
                 "found the fields {}; expected \"messages\", or \"prompt\" and \"completion\"",
                 member_names(object));
    if (has_messages)
      add(object["messages"], "messages", Speaker::assistant, Learned::what_the_assistant_says);
    else
      for (const auto& [field, speaker, learned] :
           {std::tuple("prompt", Speaker::user, Learned::nothing),
            std::tuple("completion", Speaker::assistant, Learned::what_the_assistant_says)}) {
        line_.expect(object.contains(field), "{} is missing; found only {}; add it", field,
                     member_names(object));
        add(object[field], field, speaker, learned);
      }
    const bool answers = std::ranges::any_of(
        messages_, [](const Message& message) { return message.speaker == Speaker::assistant; });
    line_.expect(answers,
                 "there is no message of the assistant; expected one whose role is \"assistant\"");
    return std::move(messages_);
  }

 private:
  enum class Learned { nothing, what_the_assistant_says };

  // Adds a list of messages or, in fields other than "messages", a text of this speaker. Throws
  // InputError for anything else.
  void add(const Json& given, const std::string& field, Speaker speaker, Learned learned) {
    const bool teaches = learned == Learned::what_the_assistant_says;
    if (given.is_string() && field != "messages") {
      messages_.push_back({.speaker = speaker,
                           .content = given.get<std::string>(),
                           .is_learned = teaches && speaker == Speaker::assistant});
      return;
    }
    line_.expect(given.is_array() && !given.empty(),
                 "{}: found {}; expected {}a list of at least one message", field, brief(given),
                 field == "messages" ? "" : "a text, or ");
    for (std::size_t i = 0; i < given.size(); ++i)
      add_message(given[i], fmt::format("{}[{}]", field, i), teaches);
  }

  void add_message(const Json& given, const std::string& where, bool teaches) {
    line_.expect(given.is_object(), "{}: found {}; expected an object", where, brief(given));
    for (const char* call : {"tool_calls", "tool_call_id", "function_call"})
      line_.expect(!given.contains(call) || given[call].is_null() || given[call].empty(),
                   "{}.{}: tool calls are not supported; remove such conversations", where, call);
    const Json role = given.value("role", Json());
    std::optional<Speaker> speaker;
    for (const Speaker each : {Speaker::system, Speaker::user, Speaker::assistant})
      if (role == to_string(each)) speaker = each;
    line_.expect(speaker.has_value(),
                 "{}.role: found {}; expected \"system\", \"user\" or \"assistant\"", where,
                 brief(role));
    line_.expect(speaker != Speaker::system || messages_.empty(),
                 "{}: a system message must be the first; move or remove it", where);
    const Json content = given.value("content", Json());
    line_.expect(content.is_string(), "{}.content: found {}; expected a text", where,
                 brief(content));
    messages_.push_back(
        {.speaker = *speaker,
         .content = content.get<std::string>(),
         .is_learned = teaches && *speaker == Speaker::assistant && weight_of(given, where)});
  }

  bool weight_of(const Json& given, const std::string& where) const {
    const Json weight = given.value("weight", Json(1));
    line_.expect(weight == 0 || weight == 1, "{}.weight: found {}; expected 0 or 1", where,
                 brief(weight));
    return weight == 1;
  }

  const FileLine& line_;
  std::vector<Message> messages_{};
};

}  // namespace

const char* to_string(Speaker speaker) {
  constexpr std::array names{"system", "user", "assistant"};
  return names[static_cast<std::size_t>(speaker)];
}

ConversationList load_conversations(const std::string& path) {
  ConversationList list{.path = path};
  for_each_line(path, [&](const FileLine& line) {
    if (trimmed(line.text).empty()) return;
    list.conversations.push_back(
        {.messages = ConversationReader(line).read(), .line = line.number});
  });
  expect_input(!list.conversations.empty(), "{}: has no conversation; expected one per line", path);
  return list;
}

}  // namespace tapestry
