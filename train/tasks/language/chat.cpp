#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/input_file.hpp"
#include "data/text/chat_encoder.hpp"
#include "train/generate/token_text.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/language/text_generator.hpp"

namespace tapestry {
namespace {

const BytePairTokenizer& byte_pairs_of(const LanguageModel& task) {
  const auto* tokenizer = task.tokenizer().byte_pairs();
  expect_input(tokenizer,
               "this run's model is character-level and has no chat template; give a model with "
               "byte pairs");
  return *tokenizer;
}

constexpr std::int64_t tokens_without_context = 1000;
const Key<std::int64_t> answer_tokens{"tokens",
                                      0,
                                      "maximum number of tokens of an answer; default: as many as "
                                      "fit the context, or 1000 with a recurrent network",
                                      {.low = 1, .high = 10000000}};
const Key<std::string> system_message{"system", "", "system message"};
const Key<std::string> typed_template{
    "template", "",
    "chat template: \"chatml\", \"llama3\", or a text with {role} and {content}, or {user} and "
    "{assistant}; default: the model's own"};
const Key<std::int64_t> chat_seed = seed_option();

ChatTemplate template_of(const LanguageModel& task, const Options& options) {
  if (const std::string& text = options[typed_template]; !text.empty())
    return read_chat_template(text, fmt::format("--{}", typed_template.name));
  constexpr const char* advice = "give --template chatml, llama3 or a text";
  std::optional<ChatTemplate> own;
  try {
    own = kept_chat_template(task.metadata());
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}; {}", error.what(), advice));
  }
  expect_input(own.has_value(), "this run's model has no chat template; {}", advice);
  return *own;
}

struct ChatOptions {
  SamplingOptions sampling{};
  std::string system{};     // system message; empty: the default of the template
  std::int64_t tokens = 0;  // maximum number of tokens of an answer; 0: the default
  std::uint64_t seed = 1;
};

// A chat session with a trained model: its messages and its decoding state.
class Chat final {
 public:
  // Throws InputError for a character-level model, for a template that does not fit the tokenizer,
  // and for a system message if the template has none. The task must outlive the session.
  Chat(const LanguageModel& task, const ChatTemplate& chat_template, ChatOptions options);

  // Generates the answer and passes its text to `sink`, for as long as `continues` returns true. If
  // the context is full, the oldest exchanges are removed; if the current exchange alone fills the
  // context, the answer ends. Throws InputError if the message is not UTF-8, or does not fit the
  // context with the chat template and the system message; the session is then unchanged.
  Answer answer(const std::string& message, const TextSink& sink,
                const std::function<bool()>& continues);

 private:
  struct Exchange {
    std::string question;
    std::vector<std::int32_t> answer{};
  };

  // Returns the tokens of all messages and of the current answer.
  std::vector<std::int32_t> tokens() const;
  std::vector<std::int32_t> make_room(Answer& answer);
  void ask(const std::string& message, Answer& answer);
  Array read(const std::vector<std::int32_t>& tokens);

  const LanguageModel& task_;
  ChatOptions options_;
  ChatEncoder encoder_;
  std::int64_t context_;  // maximum number of tokens; unlimited for a recurrent network
  std::vector<Exchange> exchanges_{};     // those that are still in the context
  std::uint64_t said_ = 0;                // number of answers
  std::optional<DecodingState> state_{};  // null before the first answer
  std::vector<std::int32_t> read_{};      // tokens that `state_` has read
};

Chat::Chat(const LanguageModel& task, const ChatTemplate& chat_template, ChatOptions options)
    : task_(task),
      options_(std::move(options)),
      encoder_(byte_pairs_of(task), chat_template, task.end_of_text()) {
  const bool has_context = std::holds_alternative<Transformer>(task.network());
  context_ = has_context ? task.context() : std::numeric_limits<std::int64_t>::max();
  if (options_.tokens == 0) options_.tokens = has_context ? context_ : tokens_without_context;
  expect_input(options_.system.empty() || chat_template.takes_system,
               "the chat template has no {{system}} for the system message; leave out --system");
}

std::vector<std::int32_t> Chat::tokens() const {
  std::vector<Message> messages;
  if (!options_.system.empty()) messages.push_back({Speaker::system, options_.system});
  for (const Exchange& exchange : exchanges_) {
    messages.push_back({Speaker::user, exchange.question});
    if (&exchange != &exchanges_.back())
      messages.push_back({.speaker = Speaker::assistant, .tokens = exchange.answer});
  }
  std::vector<std::int32_t> all = encoder_.encode_question(messages);
  const std::vector<std::int32_t>& begun = exchanges_.back().answer;
  all.insert(all.end(), begun.begin(), begun.end());
  return all;
}

// Removes the oldest exchanges until the tokens fit the context, and returns the tokens.
std::vector<std::int32_t> Chat::make_room(Answer& answer) {
  std::vector<std::int32_t> all = tokens();
  while (std::ssize(all) > context_ && exchanges_.size() > 1) {
    exchanges_.erase(exchanges_.begin());
    ++answer.forgotten;
    all = tokens();
  }
  return all;
}

void Chat::ask(const std::string& message, Answer& answer) {
  require_utf8(message, "the message");
  const std::vector<Exchange> before = exchanges_;
  exchanges_.push_back({message});
  try {
    const std::int64_t count = std::ssize(make_room(answer));
    expect_input(
        count <= context_,
        "the message has {} tokens with {}; expected at most {}, the context of the model", count,
        options_.system.empty() ? "the chat template" : "the chat template and the system message",
        context_);
  } catch (...) {
    exchanges_ = before;
    throw;
  }
}

// Returns the logits (V) of the next token. Reads only the tokens after those read before.
Array Chat::read(const std::vector<std::int32_t>& all) {
  const std::vector<std::int32_t> before = std::exchange(read_, all);
  const bool continues =
      state_ && before.size() < all.size() && std::equal(before.begin(), before.end(), all.begin());
  if (continues)
    return state_->read(one_row({all.begin() + std::ssize(before), all.end()})).front();
  state_.emplace(begin_decoding(task_));
  return state_->begin({all}).front();
}

Answer Chat::answer(const std::string& message, const TextSink& sink,
                    const std::function<bool()>& continues) {
  Answer answer;
  ask(message, answer);
  Random random(options_.seed, Stream::sample, said_++);
  TokenText text(task_.tokenizer(), {}, sink);
  std::vector<std::int32_t> all = tokens();
  TokenChooser chooser(options_.sampling);
  chooser.read(all);
  const auto is_wanted = [&](std::int64_t written) {
    return continues() && written < options_.tokens;
  };
  for (std::int64_t written = 0; is_wanted(written); ++written) {
    const std::int32_t token = chooser.choose(read(all), random);
    if (token == encoder_.end_of_answer() || task_.ends_text(token)) break;
    exchanges_.back().answer.push_back(token);
    text.add(token);
    all.push_back(token);
    if (std::ssize(all) <= context_) continue;
    all = make_room(answer);
    answer.is_cut = std::ssize(all) > context_;
    if (answer.is_cut) break;
  }
  text.finish();
  return answer;
}

ChatSession talk(LanguageModel& task, const Options& options) {
  sampling::convert_weights(options, task);
  const auto chat =
      std::make_shared<Chat>(task, template_of(task, options),
                             ChatOptions{.sampling = sampling::chosen(options, task),
                                         .system = options[system_message],
                                         .tokens = options[answer_tokens],
                                         .seed = static_cast<std::uint64_t>(options[chat_seed])});
  return [chat](const std::string& message, const TextSink& sink,
                const std::function<bool()>& continues) {
    return chat->answer(message, sink, continues);
  };
}

}  // namespace

Inspector<ChatSession> language_model_chat() {
  return {
      {answer_tokens, system_message, typed_template, sampling::temperature, sampling::top_k,
       sampling::top_p, sampling::min_p, sampling::repetition_penalty, sampling::dtype, chat_seed},
      &talk};
}

}  // namespace tapestry
