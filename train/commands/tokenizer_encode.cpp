#include <fmt/ranges.h>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/chat_encoder.hpp"
#include "data/text/text_encoder.hpp"
#include "train/commands/command.hpp"
#include "train/commands/output.hpp"
#include "train/run/terminal.hpp"
#include "train/tasks/language/kept_chat_template.hpp"

namespace tapestry {
namespace {

// Returns the indices of the tokens that are trained on.
std::vector<std::size_t> learned_places(const EncodedConversation& conversation) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < conversation.learned.size(); ++i)
    if (conversation.learned[i]) places.push_back(i);
  return places;
}

class EncodeText final : public Command {
 public:
  void declare(Arguments& arguments) override {
    arguments.place("FILE", file_, "a file with one text per line, plain or gzip");
    arguments.option("--tokenizer", tokenizer_,
                     "a tokenizer.json of byte-level BPE (default: tokenizer.json)");
    arguments.flag("--json", json_, "each line of FILE is a JSON string");
    arguments.flag("--added", options_.added_tokens,
                   "parse names of special tokens in the text as special tokens");
    arguments.flag("--template", options_.with_template,
                   "add the tokenizer's special tokens at the beginning and the end");
    arguments.flag("--conversations", conversations_,
                   "FILE has conversations as JSONL; write the tokens of each, and the positions "
                   "of the tokens that are training targets");
    arguments.option(
        "--chat-template", chat_template_,
        "chat template: chatml, llama3 or a text (default: the one in the tokenizer's folder)");
    arguments.option("--out", out_, "file to write (default: standard output)");
  }

  int run() override {
    expect_not_of_a_run(out_);
    expect_not_an_input(out_, {file_, tokenizer_});
    const BytePairTokenizer tokenizer = BytePairTokenizer::load(tokenizer_);
    if (conversations_) return encode_all_conversations(tokenizer);
    expect_input(chat_template_.empty(),
                 "--chat-template: is used only with --conversations; add --conversations");
    write_each_line(file_, out_, [&](std::string_view line, int number) {
      const std::string text = json_ ? string_of(line, number) : std::string(line);
      return fmt::format("[{}]", fmt::join(tokenizer.encode(text, options_), ","));
    });
    return 0;
  }

 private:
  int encode_all_conversations(const BytePairTokenizer& tokenizer) const {
    expect_input(
        !json_ && !options_.added_tokens && !options_.with_template,
        "--conversations: cannot be combined with --json, --added and --template; leave these out");
    const ChatEncoder encoder(tokenizer, template_of_conversations(), end_of_text_of(tokenizer));
    std::string lines;
    const ConversationList list = load_conversations(file_);
    for (const Conversation& conversation : list.conversations) try {
        const EncodedConversation encoded = encoder.encode(conversation.messages);
        lines +=
            fmt::format("{{\"tokens\":[{}],\"learnt\":[{}]}}\n", fmt::join(encoded.tokens, ","),
                        fmt::join(learned_places(encoded), ","));
      } catch (const InputError& error) {
        throw InputError(fmt::format("{}: line {}: {}", file_, conversation.line, error.what()));
      }
    if (out_.empty())
      say("{}", lines);
    else
      write_bytes(out_, lines);
    return 0;
  }

  ChatTemplate template_of_conversations() const {
    if (!chat_template_.empty()) return read_chat_template(chat_template_, "--chat-template");
    const std::optional<ChatTemplate> own = chat_template_beside(tokenizer_);
    expect_input(own.has_value(),
                 "{}: the folder of this file has no chat template; give --chat-template",
                 tokenizer_);
    return *own;
  }

  std::string string_of(std::string_view line, int number) const {
    const bool may_be = trimmed(line).starts_with('"');
    const auto value = may_be ? JsonValue::parse_or_null(line) : JsonValue();
    expect_input(value.is_string(), "{}: line {}: expected a JSON string; correct the line", file_,
                 number);
    return value.get<std::string>();
  }

  std::string file_, tokenizer_ = "tokenizer.json", out_;
  std::string chat_template_;
  bool json_ = false, conversations_ = false;
  EncodeOptions options_;
};

const RegisterCommand<EncodeText> tokenizer_encode_command(
    "tokenizer encode", "encode each line of a text as a JSON list of tokens");

}  // namespace
}  // namespace tapestry
