#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/text/chat_encoder.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {

struct ChatOptions {
  SamplingOptions sampling{};
  std::string system{};     // said before all; empty: what the template has for that
  std::int64_t tokens = 0;  // of an answer, at most; 0: as many as the context has room for
  std::uint64_t seed = 1;
};

// A conversation with a trained model, which keeps what was said and the keys of what was read.
class Chat final {
 public:
  // The task outlives it. InputError where the template does not suit its tokenizer.
  Chat(const LanguageModel& task, const ChatTemplate& chat_template, ChatOptions options);

  // Gives the model's answer on as it comes, while `continues` holds. Where the context is full the
  // oldest exchange is forgotten. InputError where the message alone is too long, or not UTF-8: it
  // is as if it had not been said.
  Answer answer(const std::string& message, const TextSink& sink,
                const std::function<bool()>& continues);

 private:
  struct Exchange {
    std::string question;
    std::vector<std::int32_t> answer{};
  };

  std::vector<std::int32_t> tokens() const;  // all that was said, as far as the answer has come
  std::vector<std::int32_t> make_room(Answer& answer);
  void ask(const std::string& message, Answer& answer);
  Array read(const std::vector<std::int32_t>& tokens);
  std::int64_t context() const;

  const LanguageModel& task_;
  ChatOptions options_;
  ChatEncoder encoder_;
  std::vector<Exchange> exchanges_{};  // that are remembered
  std::uint64_t said_ = 0;
  std::unique_ptr<DecodingState> reader_{};
  std::vector<std::int32_t> read_{};  // by the reader
};

}  // namespace tapestry
