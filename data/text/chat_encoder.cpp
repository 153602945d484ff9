#include "data/text/chat_encoder.hpp"

#include "autograd/check.hpp"
#include "data/input_file.hpp"

namespace tapestry {
namespace {

using Kind = ChatPiece::Kind;

void check_order(const ChatTemplate& chat_template, const std::vector<Message>& messages) {
  const bool begins_with_system = messages.front().speaker == Speaker::system;
  expect_input(chat_template.takes_system || !begins_with_system,
               "the chat template has no {{system}} for the system message; leave the message out");
  if (!chat_template.is_exchange) return;
  for (std::size_t i = begins_with_system; i < messages.size(); ++i) {
    const Speaker wanted = (i - begins_with_system) % 2 == 0 ? Speaker::user : Speaker::assistant;
    expect_input(messages[i].speaker == wanted,
                 "message {} has the role {}, expected {}: with {{user}} and {{assistant}} in the "
                 "chat template, the roles "
                 "must alternate",
                 i + 1, to_string(messages[i].speaker), to_string(wanted));
  }
}

}  // namespace

std::vector<ChatPiece> pieces_of(const ChatTemplate& chat_template,
                                 const std::vector<Message>& messages) {
  expect_input(!messages.empty(), "the conversation has no messages; expected at least one");
  check_order(chat_template, messages);
  std::vector<ChatPiece> pieces = {{Kind::of_template, chat_template.start}};
  const auto write = [&](Speaker speaker, std::string content, const Message* message) {
    const ChatTurn& turn = chat_template.turn(speaker);
    const bool answers = speaker == Speaker::assistant;
    if (chat_template.trims) content = trimmed(content);
    pieces.push_back({Kind::of_template, turn.before});
    pieces.push_back({answers ? Kind::answer : Kind::content, std::move(content), message});
    pieces.push_back({answers ? Kind::answer_end : Kind::of_template, turn.after, message});
  };
  if (!chat_template.default_system.empty() && messages.front().speaker != Speaker::system)
    write(Speaker::system, chat_template.default_system, nullptr);
  for (const Message& message : messages) write(message.speaker, message.content, &message);
  return pieces;
}

// A buffer that collects text until a token or another kind of text follows, and then encodes it as
// a whole.
class ChatEncoder::Writer {
 public:
  explicit Writer(const ChatEncoder& by) : by_(by) {
    if (by_.template_.begins_as_texts)
      for (const std::int32_t token : by_.tokenizer_.before_text()) add(token);
  }

  void write(const ChatPiece& piece) {
    switch (piece.kind) {
      case Kind::of_template:
        return write_template(piece.text);
      case Kind::content:
        text_ += piece.text;
        return;
      case Kind::answer:
        return write_answer(piece);
      case Kind::answer_end:
        return end_answer(piece);
    }
    throw_unhandled("a piece of a conversation");
  }

  EncodedConversation finish() {
    flush();
    return std::move(made_);
  }

 private:
  // Adds special tokens and the text between them. The first of these tokens ends what is learned.
  void write_template(std::string_view text) {
    std::size_t from = 0;
    while (const auto match = by_.special_.find(text, from)) {
      text_ += text.substr(from, match->begin - from);
      flush();
      add(match->token);
      learns_ = false;
      from = match->end;
    }
    text_ += text.substr(from);
  }

  void write_answer(const ChatPiece& piece) {
    flush();
    learns_ = piece.message->is_learned;
    if (piece.message->tokens.empty())
      text_ = piece.text;
    else
      for (const std::int32_t token : piece.message->tokens) add(token);
  }

  void end_answer(const ChatPiece& piece) {
    if (by_.adds_end_) {
      flush();
      add(by_.end_of_answer_);
      learns_ = false;
    }
    write_template(piece.text);
  }

  void add(std::int32_t token) {
    made_.tokens.push_back(token);
    made_.learned.push_back(learns_);
  }

  void flush() {
    if (text_.empty()) return;
    for (const std::int32_t token : by_.tokenizer_.encode(text_)) add(token);
    text_.clear();
  }

  const ChatEncoder& by_;
  EncodedConversation made_{};
  std::string text_{};  // not encoded yet
  bool learns_ = false;
};

ChatEncoder::ChatEncoder(const BytePairTokenizer& tokenizer, ChatTemplate chat_template,
                         std::optional<std::int32_t> end_of_text)
    : tokenizer_(tokenizer), template_(std::move(chat_template)) {
  const BytePairModel& model = tokenizer_.model();
  for (const auto& [token, normalized] : model.added)
    if (model.special[token]) special_.add(model.tokens[token], token);
  for (const std::string& name : special_names(template_)) {
    const auto match = special_.find(name, 0);
    expect_input(match && match->begin == 0 && match->end == name.size(),
                 "the tokenizer has no special token {}, which the chat template writes; use "
                 "another template or tokenizer",
                 name);
  }
  const auto end = special_.find(template_.turn(Speaker::assistant).after, 0);
  expect_input(end || end_of_text,
               "the chat template writes no special token after an answer, and the tokenizer has "
               "no end-of-text token; use another template or tokenizer");
  adds_end_ = !end;
  end_of_answer_ = end ? end->token : *end_of_text;
}

std::string ChatEncoder::jinja() const {
  const std::vector<std::string>& names = tokenizer_.model().tokens;
  TemplateTokens added;
  if (template_.begins_as_texts)
    for (const std::int32_t token : tokenizer_.before_text()) added.start += names[token];
  if (adds_end_) added.answer_end = names[end_of_answer_];
  return to_jinja(template_, added);
}

EncodedConversation ChatEncoder::encode(const std::vector<Message>& messages) const {
  Writer writer(*this);
  for (const ChatPiece& piece : pieces_of(template_, messages)) writer.write(piece);
  return writer.finish();
}

std::vector<std::int32_t> ChatEncoder::encode_question(const std::vector<Message>& messages) const {
  Writer writer(*this);
  for (const ChatPiece& piece : pieces_of(template_, messages)) writer.write(piece);
  writer.write({Kind::of_template, template_.turn(Speaker::assistant).before});
  return writer.finish().tokens;
}

}  // namespace tapestry
