#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/text/byte_pair.hpp"
#include "data/text/chat_template.hpp"

namespace tapestry {

// A part of a conversation's text: of the template, or the content of a message.
struct ChatPiece {
  enum class Kind { of_template, content, answer, answer_end };
  Kind kind;
  std::string text;
  const Message* message = nullptr;  // of content and answer, and of an answer's end
};

// The pieces of a conversation, in their order, the default system message among them. They refer
// to the messages. InputError where these do not suit the template.
std::vector<ChatPiece> pieces_of(const ChatTemplate& chat_template,
                                 const std::vector<Message>& messages);

struct EncodedConversation {
  std::vector<std::int32_t> tokens{};
  std::vector<bool> learnt{};  // of each token
};

// Turns conversations into tokens by a template. Names of special tokens are such tokens where the
// template writes them, and text where a message does. Answers begin a piece of text of their own,
// as they do when a model is asked for one, and end with a special token, the first that the
// template writes after them; or where it writes none, with the end-of-text token.
class ChatEncoder final {
 public:
  // The tokenizer outlives it. InputError: it lacks a token that the template needs.
  ChatEncoder(const BytePairTokenizer& tokenizer, ChatTemplate chat_template,
              std::optional<std::int32_t> end_of_text);

  // Learnt are the answers that the messages say so of, and the tokens with which these end.
  // InputError where the messages do not suit the template.
  EncodedConversation encode(const std::vector<Message>& messages) const;

  // The same as far as an answer that would follow.
  std::vector<std::int32_t> encode_question(const std::vector<Message>& messages) const;

  const ChatTemplate& chat_template() const { return template_; }
  std::int32_t end_of_answer() const { return end_of_answer_; }
  std::string jinja() const;  // the template in Jinja, with the tokens that the tokenizer adds

 private:
  class Writer;
  const BytePairTokenizer& tokenizer_;
  ChatTemplate template_;
  NameFinder special_{};
  std::int32_t end_of_answer_ = -1;
  bool adds_end_ = false;  // which the template does not write
};

}  // namespace tapestry
