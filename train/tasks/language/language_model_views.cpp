#include <array>

#include "train/decode/generate.hpp"
#include "train/tasks/language/decoder_attention.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/view_options.hpp"

namespace tapestry {
namespace {

const std::string line_end = "\n";  // stands before a name and after it

const Key<std::string> prompt = prompt_option("text to continue, or to read");
const Key<std::int64_t> count = count_option(0);
const Key<std::int64_t> tokens{"tokens", 0, "tokens to generate", {.low = 1, .high = 10000000}};
const Key<double> temperature = temperature_option("0: always the likeliest");
const Key<std::int64_t> top_k{
    "top-k", 0, "choose among the k likeliest tokens", {.low = 1, .high = 10000000}};
const Key<double> top_p{"top-p", 1, "among the likeliest that share p", {.low = 0, .high = 1}};
const Key<std::int64_t> seed = seed_option();

// Writes with a trained model.
class Writer {
 public:
  Writer(const LanguageModel& task, const Options& options)
      : task_(task),
        sampling_{
            .temperature = options[temperature], .top_k = options[top_k], .top_p = options[top_p]},
        prompt_(options[prompt]),
        tokens_(options[tokens]) {}

  // A text that begins with the prompt.
  std::string text(Random& random) const {
    const std::string first = prompt_.empty() ? task_.vocabulary().symbols().front() : prompt_;
    return prompt_ + continued(first, tokens_ > 0 ? tokens_ : 500, random);
  }

  // A name that begins with the prompt.
  std::string name(Random& random) const {
    const std::string rest =
        continued(line_end + prompt_, tokens_ > 0 ? tokens_ : task_.context(), random);
    return prompt_ + rest.substr(0, rest.find(line_end));
  }

 private:
  std::string continued(const std::string& begin, std::int64_t length, Random& random) const {
    const std::vector<std::int32_t> read = task_.vocabulary().encode(begin);
    return task_.vocabulary().decode(std::visit(
        [&](const auto& model) { return generate(model, read, length, sampling_, random); },
        task_.network()));
  }

  const LanguageModel& task_;
  SamplingOptions sampling_;
  std::string prompt_;
  std::int64_t tokens_;
};

// Texts of 500 characters, or names, a line each.
Sample sample(LanguageModel& task, const Options& options) {
  const Writer writer(task, options);
  const bool names = task.writes_names();
  const std::int64_t wanted = options[count] > 0 ? options[count] : names ? 20 : 1;
  std::string text;
  for (std::int64_t i = 0; i < wanted; ++i) {
    Random random(options[seed], Stream::sample, i);
    if (names)
      text += writer.name(random) + "\n";
    else
      text += (i > 0 ? "\n---\n" : "") + writer.text(random);
  }
  return {.text = names ? text : text + "\n"};
}

AttentionMaps attention(LanguageModel& task, const Options& options) {
  const auto* transformer = std::get_if<Transformer>(&task.network());
  expect_input(transformer, "a recurrent network has no attention to look at");
  const bool names = task.writes_names();
  const std::vector<std::int32_t> read =
      task.vocabulary().encode((names ? line_end : "") + options[prompt]);
  const std::int64_t length = std::ssize(read);
  expect_input(length >= 1 && length <= task.context(),
               "--prompt: {} characters; expected {} to {}", length - names, 1 - names,
               task.context() - names);
  std::vector<std::string> labels;
  for (const std::int32_t token : read)
    labels.push_back(printable(task.vocabulary().decode(std::array{token})));
  return attention_of(*transformer, read, labels);
}

const RegisterView samples("language-model",
                           {prompt, count, tokens, temperature, top_k, top_p, seed}, &sample);
const RegisterView attentions("language-model", {prompt}, &attention);

}  // namespace
}  // namespace tapestry
