#include <algorithm>
#include <array>

#include "data/text/pairs.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/inspector_options.hpp"
#include "train/tasks/language/translation.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

const Key<std::string> prompt = prompt_option("a sentence to translate");
const Key<std::int64_t> count = count_option(8, {prompt.is("")});

Tokens prompt_tokens(const ParallelCorpus& corpus, const std::string& sentence) {
  const Tokens tokens = corpus.encode(sentence);
  const std::int64_t length = std::ssize(tokens);
  expect_input(length >= 1 && length <= corpus.context, "--prompt: {} tokens; expected 1 to {}",
               length, corpus.context);
  return tokens;
}

// The prompt, or the first sentence that was held back.
Tokens source_tokens(const ParallelCorpus& corpus, const Options& options) {
  if (!options[prompt].empty() || !corpus.validation) return prompt_tokens(corpus, options[prompt]);
  const Array tokens =
      corpus.validation->batch(std::array<std::int64_t, 1>{0}).part<SourceTokens>().tokens;
  const auto values = tokens.values<std::int32_t>();
  return {values.begin(), values.end()};
}

Tokens translated(Translation& task, const Tokens& source) {
  return translate(task.model(), one_row(source), {}, task.decoding()).front();
}

Sample sample(Translation& task, const Options& options) {
  const ParallelCorpus& corpus = task.corpus();
  if (!options[prompt].empty())
    return {.text = corpus.decode(translated(task, prompt_tokens(corpus, options[prompt]))) + "\n"};
  expect_input(corpus.validation != nullptr, "--prompt is required: a sentence to translate");
  std::string text;
  for (std::int64_t i = 0; i < std::min(options[count], corpus.validation->size()); ++i) {
    const Batch batch = corpus.validation->batch(std::array{i});
    const GeneratedTexts one = task.generated(batch);
    text += fmt::format("{}\n  {}\n  expected {}\n",
                        corpus.decode(batch.part<SourceTokens>().tokens.values<std::int32_t>()),
                        one.predictions.front(), one.references.front());
  }
  return {.text = text};
}

// While it reads the prompt and writes its translation.
AttentionMaps attention(Translation& task, const Options& options) {
  const ParallelCorpus& corpus = task.corpus();
  const Tokens source = source_tokens(corpus, options);
  Tokens target = translated(task, source);
  const std::vector<std::string> columns = corpus.decode_each(source);
  std::vector<std::string> rows = corpus.decode_each(target);
  rows.push_back("end");  // row i attends in order to write token i
  target.insert(target.begin(), bos_token);
  std::vector<std::string> seen = corpus.decode_each(target);
  seen.front() = "begin";
  AttentionRecorder recorder;
  task.model().decode(one_row(target), task.model().encode(one_row(source), {}));
  AttentionMaps maps;
  for (const auto& [path, weights] : recorder.entries) {
    const bool decodes = path.starts_with("decoder"), crosses = path.ends_with("cross_attention");
    maps.push_back({.path = path,
                    .weights = weights.reshaped({weights.dim(1), weights.dim(2), weights.dim(3)}),
                    .queries = decodes ? rows : columns,
                    .keys = decodes && !crosses ? seen : columns});
  }
  return maps;
}

const RegisterInspector samples("translation", {prompt, count}, &sample);
const RegisterInspector attentions("translation", {prompt}, &attention);

TokenReader reader(Translation& task, const Options&) {
  return {[&task](std::span<const std::int32_t> tokens) { return task.corpus().decode(tokens); }};
}

const RegisterInspector readers("translation", {}, &reader);

}  // namespace
}  // namespace tapestry
