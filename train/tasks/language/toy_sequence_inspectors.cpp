#include <algorithm>

#include "train/generate/generate.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/inspector_options.hpp"
#include "train/tasks/language/decoder_attention.hpp"
#include "train/tasks/language/toy_sequence.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option("a sequence to answer");
const Key<std::int64_t> count = count_option(8, {prompt.is("")});

std::string question(const std::string& text) { return text.ends_with('>') ? text : text + '>'; }

// "31415926>11234569 right"
std::string answered(ToySequence& task, const std::string& text) {
  const ToySequences& data = task.validation_data();
  const std::string asked = question(text), right = data.answer(asked);
  Random unused(0, Stream::sample);
  const std::string given =
      data.vocabulary().decode(generate(task.model(), data.vocabulary().encode(asked),
                                        data.answer_length(), {.temperature = 0}, unused));
  return asked + given + (given == right ? "  right\n" : "  wrong, expected " + right + "\n");
}

Sample sample(ToySequence& task, const Options& options) {
  if (!options[prompt].empty()) return {.text = answered(task, options[prompt])};
  std::string text;
  for (std::int64_t i = 0; i < std::min(options[count], task.validation_data().size()); ++i)
    text += answered(task, task.validation_data().prompt(i));
  return {.text = text};
}

// Of the prompt with its right answer.
AttentionMaps attention(ToySequence& task, const Options& options) {
  const ToySequences& data = task.validation_data();
  std::string text = question(options[prompt].empty() ? data.prompt(0) : options[prompt]);
  text += data.answer(text);
  text.pop_back();  // nothing is asked of the last symbol
  std::vector<std::string> labels;
  for (const char c : text) labels.emplace_back(1, c);
  return attention_of(task.model(), data.vocabulary().encode(text), labels);
}

TokenReader reader(ToySequence& task, const Options&) {
  return {[&task](std::span<const std::int32_t> tokens) {
    return task.validation_data().vocabulary().decode(tokens);
  }};
}

const RegisterInspector readers("toy-sequence", {}, &reader);
const RegisterInspector samples("toy-sequence", {prompt, count}, &sample);
const RegisterInspector attentions("toy-sequence", {prompt}, &attention);

}  // namespace
}  // namespace tapestry
