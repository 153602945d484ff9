#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/byte_pair.hpp"
#include "data/text/chat_template.hpp"

namespace tapestry {

// A part of a conversation's text, from the template or from a message.
struct ChatPiece {
  enum class Kind { of_template, content, answer, answer_end };
  Kind kind;
  std::string text;
  const Message* message = nullptr;  // of content, answer and answer_end; null: default_system
};

// Returns the pieces of a conversation in order, including the default system message. The pieces
// point to `messages`. Throws InputError if there are no messages, or they do not fit the template.
std::vector<ChatPiece> pieces_of(const ChatTemplate& chat_template,
                                 const std::vector<Message>& messages);

struct EncodedConversation {
  std::vector<std::int32_t> tokens{};
  std::vector<bool> learned{};  // per token: it is a target
};

// An encoder of conversations by a template. The name of a special token is that token in the
// template, and text in a message. Answers are encoded separately from the text before them, as
// when a model generates one, and end with the first special token of the template after them, or
// with the end-of-text token if there is none.
class ChatEncoder final {
 public:
  // The tokenizer must outlive the encoder. Throws InputError if the tokenizer lacks a token of the
  // template, or if no token ends an answer: the template has none, nor is `end_of_text` given.
  ChatEncoder(const BytePairTokenizer& tokenizer, ChatTemplate chat_template,
              std::optional<std::int32_t> end_of_text);

  // Returns the tokens. The answers of messages with is_learned, and the tokens that end these
  // answers, are learned. Throws InputError as pieces_of() does.
  EncodedConversation encode(const std::vector<Message>& messages) const;

  // Returns the tokens of the messages and of the template before the next answer. Throws
  // InputError as pieces_of() does.
  std::vector<std::int32_t> encode_question(const std::vector<Message>& messages) const;

  const ChatTemplate& chat_template() const { return template_; }
  std::int32_t end_of_answer() const { return end_of_answer_; }
  std::string jinja() const;  // returns the Jinja template, with the tokens that the tokenizer adds

 private:
  class Writer;
  const BytePairTokenizer& tokenizer_;
  ChatTemplate template_;
  NameFinder special_{};
  std::int32_t end_of_answer_ = -1;
  bool adds_end_ = false;  // the template has no end token of its own
};

}  // namespace tapestry
