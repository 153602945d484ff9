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

constexpr const char* lists[] = {"messages", "conversations"};  // fields with messages

// A reader of the conversation of one line.
class ConversationReader {
 public:
  explicit ConversationReader(const FileLine& line) : line_(line) {}

  std::vector<Message> read() {
    const Json object = json_object_of(line_);
    const bool has_pair = object.contains("prompt") || object.contains("completion");
    line_.expect(std::ranges::count_if(lists, [&](auto list) { return object.contains(list); }) +
                         has_pair + object.contains("instruction") ==
                     1,
                 "found the fields {}; expected \"messages\", \"conversations\", \"prompt\" and "
                 "\"completion\", or \"instruction\" and \"output\"",
                 member_names(object));
    for (const char* list : lists)
      if (object.contains(list))
        add(object[list], list, Speaker::assistant, Learned::what_the_assistant_says);
    if (object.contains("instruction")) add_instruction(object);
    if (has_pair)
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

  // Adds an instruction with its input, if it has one, and the output.
  void add_instruction(const Json& object) {
    const auto text = [&](const char* field) {
      const Json given = object.value(field, Json());
      line_.expect(given.is_string(), "{}: found {}; expected a text", field, brief(given));
      return given.get<std::string>();
    };
    std::string task = text("instruction");
    if (!object.value("input", Json()).is_null() && !text("input").empty())
      task += "\n\n" + text("input");
    messages_ = {{.speaker = Speaker::user, .content = std::move(task)},
                 {.speaker = Speaker::assistant, .content = text("output"), .is_learned = true}};
  }

  // Adds a list of messages or, for a prompt or completion, a text of this speaker. Throws
  // InputError for anything else.
  void add(const Json& given, const std::string& field, Speaker speaker, Learned learned) {
    const bool teaches = learned == Learned::what_the_assistant_says;
    const bool is_list = std::ranges::find(lists, field) != std::end(lists);
    if (given.is_string() && !is_list) {
      messages_.push_back({.speaker = speaker,
                           .content = given.get<std::string>(),
                           .is_learned = teaches && speaker == Speaker::assistant});
      return;
    }
    line_.expect(given.is_array() && !given.empty(),
                 "{}: found {}; expected {}a list of at least one message", field, brief(given),
                 is_list ? "" : "a text, or ");
    for (std::size_t i = 0; i < given.size(); ++i)
      add_message(given[i], fmt::format("{}[{}]", field, i), teaches);
  }

  void add_message(const Json& given, const std::string& where, bool teaches) {
    line_.expect(given.is_object(), "{}: found {}; expected an object", where, brief(given));
    for (const char* call : {"tool_calls", "tool_call_id", "function_call"})
      line_.expect(!given.contains(call) || given[call].is_null() || given[call].empty(),
                   "{}.{}: tool calls are not supported; remove such conversations", where, call);
    // ShareGPT says "from" and "value".
    const char *said_by = given.contains("from") ? "from" : "role",
               *says = given.contains("from") ? "value" : "content";
    const Json role = given.value(said_by, Json());
    std::optional<Speaker> speaker;
    for (const Speaker each : {Speaker::system, Speaker::user, Speaker::assistant})
      if (role == to_string(each)) speaker = each;
    if (role == "human") speaker = Speaker::user;
    if (role == "gpt") speaker = Speaker::assistant;
    line_.expect(speaker.has_value(),
                 "{}.{}: found {}; expected \"system\", \"user\" or \"assistant\"", where, said_by,
                 brief(role));
    line_.expect(speaker != Speaker::system || messages_.empty(),
                 "{}: a system message must be the first; move or remove it", where);
    const Json content = given.value(says, Json());
    line_.expect(content.is_string(), "{}.{}: found {}; expected a text", where, says,
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

bool is_conversation(const JsonValue& object) {
  return std::ranges::any_of(lists, [&](auto list) { return object.contains(list); }) ||
         object.contains("prompt") || object.contains("instruction");
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
