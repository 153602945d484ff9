#include "train/tasks/language/chat.hpp"

#include <algorithm>
#include <limits>

#include "data/input_file.hpp"
#include "train/generate/token_text.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/language/sampling_options.hpp"

namespace tapestry {
namespace {

const BytePairTokenizer& byte_pairs_of(const LanguageModel& task) {
  const auto* tokenizer = task.tokenizer().byte_pairs();
  expect_input(tokenizer, "this run's model reads characters, which have no chat template");
  return *tokenizer;
}

const Key<std::int64_t> answer_tokens{
    "tokens", 0, "of an answer, at most", {.low = 1, .high = 10000000}};
const Key<std::string> system_message{"system", "", "said to the model before all messages"};
const Key<std::string> typed_template{
    "template", "",
    "\"chatml\", \"llama3\", or a text with {role} and {content}, or {user} and {assistant}; by "
    "default the model's own"};
const Key<std::int64_t> chat_seed = seed_option();

ChatTemplate template_of(const LanguageModel& task, const Options& options) {
  if (const std::string& text = options[typed_template]; !text.empty())
    return read_chat_template(text);
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

}  // namespace

Chat::Chat(const LanguageModel& task, const ChatTemplate& chat_template, ChatOptions options)
    : task_(task),
      options_(std::move(options)),
      encoder_(byte_pairs_of(task), chat_template, task.end_of_text()) {
  expect_input(options_.system.empty() || chat_template.takes_system,
               "the chat template has no {{system}} for a system message");
}

// A recurrent network reads on for ever.
std::int64_t Chat::context() const {
  return std::holds_alternative<Transformer>(task_.network())
             ? task_.context()
             : std::numeric_limits<std::int64_t>::max();
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

// Forgets the oldest exchanges until one more token has a place.
std::vector<std::int32_t> Chat::make_room(Answer& answer) {
  std::vector<std::int32_t> all = tokens();
  while (std::ssize(all) > context() && exchanges_.size() > 1) {
    exchanges_.erase(exchanges_.begin());
    ++answer.forgotten;
    all = tokens();
  }
  return all;
}

void Chat::ask(const std::string& message, Answer& answer) {
  require_utf8(message, "the message");
  exchanges_.push_back({message});
  try {
    const std::vector<Exchange> before = exchanges_;
    const std::int64_t count = std::ssize(make_room(answer));
    if (count <= context()) return;
    exchanges_ = before;
    throw InputError(
        fmt::format("a message that takes {} tokens with what stands around it; the "
                    "model sees {}",
                    count, context()));
  } catch (...) {
    exchanges_.pop_back();
    throw;
  }
}

// The logits of what follows. What the reader has read already is not read again.
Array Chat::read(const std::vector<std::int32_t>& all) {
  const bool continues =
      reader_ && read_.size() < all.size() && std::equal(read_.begin(), read_.end(), all.begin());
  if (!continues) {
    reader_ = std::visit([](const auto& model) { return begin_decoding(model); }, task_.network());
    read_.clear();
  }
  const std::vector<std::int32_t> unread(all.begin() + std::ssize(read_), all.end());
  read_ = all;
  return reader_->read(unread);
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
    return continues() && (options_.tokens == 0 || written < options_.tokens);
  };
  for (std::int64_t written = 0; is_wanted(written); ++written) {
    const std::int32_t token = chooser.choose(read(all), random);
    if (token == encoder_.end_of_answer() || task_.ends_text(token)) break;
    exchanges_.back().answer.push_back(token);
    text.add(token);
    all.push_back(token);
    if (std::ssize(all) <= context()) continue;
    all = make_room(answer);
    answer.is_cut = std::ssize(all) > context();
    if (answer.is_cut) break;
  }
  text.finish();
  return answer;
}

namespace {

ChatSession talk(LanguageModel& task, const Options& options) {
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
  return {{answer_tokens, system_message, typed_template, sampling::temperature, sampling::top_k,
           sampling::top_p, sampling::min_p, sampling::repetition_penalty, chat_seed},
          &talk};
}

}  // namespace tapestry
