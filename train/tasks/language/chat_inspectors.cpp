#include "train/tasks/language/chat.hpp"
#include "train/tasks/language/kept_chat_template.hpp"
#include "train/tasks/language/sampling_options.hpp"

namespace tapestry {
namespace {

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

ChatSession talk(LanguageModel& task, const Options& options) {
  const auto chat =
      std::make_shared<Chat>(task, template_of(task, options),
                             ChatOptions{.sampling = sampling::chosen(options, task),
                                         .system = options[system_message],
                                         .tokens = options[answer_tokens],
                                         .seed = static_cast<std::uint64_t>(options[chat_seed])});
  return {[chat](const std::string& message, const TextSink& sink,
                 const std::function<bool()>& continues) {
    return chat->answer(message, sink, continues);
  }};
}

const RegisterInspector talks("language-model",
                              {answer_tokens, system_message, typed_template, sampling::temperature,
                               sampling::top_k, sampling::top_p, sampling::min_p,
                               sampling::repetition_penalty, chat_seed},
                              &talk);

}  // namespace
}  // namespace tapestry
