#include <doctest/doctest.h>

#include "data/text/conversation_dataset.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/gzip.hpp"
#include "tests/support/process.hpp"

// Tests files of conversations, and the rows that they are packed into.
namespace tapestry {
namespace {

std::string said_of(const TemporaryFolder& folder, const std::string& lines) {
  const std::string path = folder.write("talks.jsonl", lines);
  const std::string message = message_of([&] { load_conversations(path); });
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

// Returns `count` tokens from `first` on, of which the last `learned` are learned.
EncodedConversation encoded(std::int32_t first, std::int64_t count, std::int64_t learned) {
  EncodedConversation made;
  for (std::int64_t i = 0; i < count; ++i) {
    made.tokens.push_back(first + static_cast<std::int32_t>(i));
    made.learned.push_back(i >= count - learned);
  }
  return made;
}

TEST_SUITE_BEGIN("conversations");

TEST_CASE_FIXTURE(TemporaryFolder,
                  "load_conversations: reads messages and completions, plain and gzip") {
  const std::string lines =
      R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"},)"
      R"( {"role": "assistant", "content": "4", "weight": 0}, {"role": "user", "content": "3+3?"},)"
      R"( {"role": "assistant", "content": "6", "tool_calls": null}], "source": "mine"})"
      "\r\n\n"
      R"({"prompt": "A colour?", "completion": "Blé."})"
      "\n"
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
      R"( {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": ""}]})";
  for (const std::string& content : {lines, gzip(lines)}) {
    const ConversationList list = load_conversations(write("talks", content));
    REQUIRE(list.conversations.size() == 3);
    const auto& [first, second, third] =
        std::tie(list.conversations[0], list.conversations[1], list.conversations[2]);
    CHECK(first.line == 1);
    CHECK(second.line == 3);
    REQUIRE(first.messages.size() == 5);
    CHECK(first.messages[0].speaker == Speaker::system);
    CHECK(first.messages[0].content == "Be brief.");
    CHECK(first.messages[1].speaker == Speaker::user);
    CHECK(!first.messages[1].is_learned);
    CHECK(first.messages[2].speaker == Speaker::assistant);
    CHECK(!first.messages[2].is_learned);  // of weight 0
    CHECK(first.messages[4].is_learned);
    REQUIRE(second.messages.size() == 2);
    CHECK(second.messages[0].speaker == Speaker::user);
    CHECK(second.messages[1].content == "Blé.");
    CHECK(second.messages[1].is_learned);
    REQUIRE(third.messages.size() == 4);
    CHECK(!third.messages[1].is_learned);  // the prompt before the completion
    CHECK(third.messages[3].is_learned);
  }
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: load_conversations: the forms of ShareGPT and Alpaca were refused") {
  const ConversationList list = load_conversations(write(
      "talks",
      R"({"conversations": [{"from": "system", "value": "Brief."}, {"from": "human", "value": "2+2?"},)"
      R"( {"from": "gpt", "value": "4"}]})"
      "\n"
      R"({"instruction": "Add.", "input": "1, 2", "output": "3"})"
      "\n"
      R"({"instruction": "Greet.", "input": null, "output": "Hello."})"));
  REQUIRE(list.conversations.size() == 3);
  const auto written = [](const Conversation& conversation) {
    std::string all;
    for (const Message& message : conversation.messages)
      all += fmt::format("{}{}: {}|", message.is_learned ? "learned " : "",
                         to_string(message.speaker), message.content);
    return all;
  };
  CHECK(written(list.conversations[0]) == "system: Brief.|user: 2+2?|learned assistant: 4|");
  CHECK(written(list.conversations[1]) == "user: Add.\n\n1, 2|learned assistant: 3|");
  CHECK(written(list.conversations[2]) == "user: Greet.|learned assistant: Hello.|");
}

TEST_CASE_FIXTURE(TemporaryFolder, "load_conversations: errors are one line with the field") {
  const auto said = [&](const std::string& lines) { return said_of(*this, lines); };
  const std::string fine = R"({"prompt": "a", "completion": "b"})"
                           "\n";
  CHECK(said("") == "has no conversation; expected one per line");
  CHECK(said("\n \n") == "has no conversation; expected one per line");
  CHECK(said(fine + "{\"prompt\"\n") ==
        "line 2: not JSON: {\"prompt\"; expected an object per line");
  CHECK(said("{\"messages\": 1e999}\n") ==
        "line 1: a number is too large for a double; correct the number");
  CHECK(said("[1]\n") == "line 1: found [1]; expected an object");
  CHECK(said(R"({"text": "a"})") ==
        R"(line 1: found the fields "text"; expected "messages", "conversations", "prompt" and )"
        R"("completion", or "instruction" and "output")");
  CHECK(said(R"({"messages": [], "prompt": "a"})") ==
        R"(line 1: found the fields "messages", "prompt"; expected "messages", "conversations", )"
        R"("prompt" and "completion", or "instruction" and "output")");
  CHECK(said(R"({"conversations": [{"from": "bing", "value": "x"}]})") ==
        R"(line 1: conversations[0].from: found "bing"; expected "system", "user" or "assistant")");
  CHECK(said(R"({"conversations": [{"from": "gpt", "text": "x"}]})") ==
        "line 1: conversations[0].value: found null; expected a text");
  CHECK(said(R"({"instruction": "a", "input": 3, "output": "b"})") ==
        "line 1: input: found 3; expected a text");
  CHECK(said(R"({"instruction": "a"})") == "line 1: output: found null; expected a text");
  CHECK(said(R"({"prompt": "a"})") ==
        R"(line 1: completion is missing; found only "prompt"; add it)");
  CHECK(said(R"({"prompt": 3, "completion": "b"})") ==
        "line 1: prompt: found 3; expected a text, or a list of at least one message");
  CHECK(said(R"({"messages": "a"})") ==
        R"(line 1: messages: found "a"; expected a list of at least one message)");
  CHECK(said(R"({"messages": [3]})") == "line 1: messages[0]: found 3; expected an object");
  CHECK(said(R"({"messages": [{"role": "tool", "content": "x"}]})") ==
        R"(line 1: messages[0].role: found "tool"; expected "system", "user" or "assistant")");
  CHECK(said(R"({"messages": [{"content": "x"}]})") ==
        R"(line 1: messages[0].role: found null; expected "system", "user" or "assistant")");
  CHECK(said(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})") ==
        R"(line 1: messages[0].content: found [{"type":"text"}]; expected a text)");
  CHECK(
      said(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}]})") ==
      "line 1: messages[0].tool_calls: tool calls are not supported; remove such conversations");
  CHECK(
      said(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]})") ==
      "line 1: messages[1]: a system message must be the first; move or remove it");
  CHECK(said(R"({"messages": [{"role": "user", "content": "a"}]})") ==
        R"(line 1: there is no message of the assistant; expected one whose role is "assistant")");
  CHECK(said(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})") ==
        "line 1: messages[0].weight: found 0.5; expected 0 or 1");
  CHECK(said("\xff\n").find("UTF-8") != std::string::npos);
  const std::string deep(40, '[');
  CHECK(said(deep) == "line 1: arrays and objects are nested more than 32 deep; remove the line");
  CHECK(said("\"" + std::string(17 << 20, 'x') + "\"") ==
        fmt::format("line 1: the line has {} bytes; expected at most 16777216; shorten it",
                    (17 << 20) + 2));
}

TEST_CASE("ConversationDataset: packs the longest first, each into the fullest row that holds it") {
  // They take 2, 5, 3, 1 and 4 places of 6.
  const ConversationDataset dataset({encoded(10, 3, 1), encoded(20, 6, 2), encoded(30, 4, 3),
                                     encoded(40, 2, 1), encoded(50, 5, 2)},
                                    {.context = 6});
  CHECK(dataset.size() == 3);
  const Batch batch = dataset.batch(std::vector<std::int64_t>{0, 1, 2});
  CHECK(ints_of(batch.inputs) ==
        Tokens{20, 21, 22, 23, 24, 40, 50, 51, 52, 53, 10, 11, 30, 31, 32, 0, 0, 0});
  CHECK(ints_of(batch.targets) ==
        Tokens{-1, -1, -1, 24, 25, 41, -1, -1, 53, 54, -1, 12, 31, 32, 33, -1, -1, -1});
  CHECK(ints_of(batch.part<DocumentStarts>().starts) ==
        Tokens{0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 4, 4, 0, 0, 0, 3, 3, 3});
  CHECK(batch.count == 9);
  CHECK(dataset.batch(std::vector<std::int64_t>{2}).inputs.shape() == Shape{1, 3});
  CHECK_THROWS_AS(dataset.batch(std::vector<std::int64_t>{3}), std::invalid_argument);
  CHECK_THROWS_AS(ConversationDataset({}, {}), std::invalid_argument);
  CHECK_THROWS_AS(ConversationDataset({encoded(1, 8, 1)}, {.context = 6}), std::invalid_argument);
}

TEST_CASE(
    "ConversationDataset: without packing, each row is one conversation, padded to the longest") {
  const ConversationDataset dataset({encoded(10, 3, 1), encoded(20, 6, 2)},
                                    {.context = 6, .packing = false});
  CHECK(dataset.size() == 2);
  const Batch batch = dataset.batch(std::vector<std::int64_t>{1, 0});
  CHECK(ints_of(batch.inputs) == Tokens{20, 21, 22, 23, 24, 10, 11, 0, 0, 0});
  CHECK(ints_of(batch.targets) == Tokens{-1, -1, -1, 24, 25, -1, 12, -1, -1, -1});
  CHECK(!batch.has_auxiliary());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
