#include <algorithm>
#include <numeric>
#include <ranges>

#include "autograd/argmax.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/inspector_options.hpp"
#include "train/tasks/memory/recall.hpp"

namespace tapestry {
namespace {

const Key<std::string> prompt = prompt_option("items and a question: \". c7 . a12 a?\"");
const Key<std::int64_t> count = count_option(4, {prompt.is("")});

Array one_row(const Recall::Symbols& symbols) {
  return Array::of(symbols, {1, std::ssize(symbols) / 2, 2});
}

// "a12 0.98  c7 0.01  . 0.00": the items that weigh most.
std::string heaviest(const std::vector<std::string>& words, std::span<const float> weights) {
  std::vector<std::size_t> order(words.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return weights[i]; });
  std::string text;
  for (const std::size_t i : order | std::views::take(3))
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : "  ", words[i], weights[i]);
  return text;
}

// ". c7 . a12 a?  12 right", and under it what an attention looked at.
std::string answered(RecallTask& task, const Recall::Symbols& symbols) {
  const Recall& data = task.validation_data();
  const Array inputs = one_row(symbols);
  const Array logits = task.model().forward(inputs).value();
  const std::int64_t given = argmax(logits.values<float>()), right = data.answer(symbols);
  std::string text =
      fmt::format("{}  {} {}\n", data.text(symbols), given,
                  given == right ? "right" : fmt::format("wrong, expected {}", right));
  const Array weights = task.model().weights(inputs);  // (1, H, T)
  const std::vector<std::string> words = data.words(symbols);
  const std::int64_t T = std::ssize(words);
  for (std::int64_t row = 0; row < weights.size() / T; ++row)
    text += "    " + heaviest(words, weights.values<float>().subspan(row * T, T)) + "\n";
  return text;
}

Sample sample(RecallTask& task, const Options& options) {
  const Recall& data = task.validation_data();
  if (!options[prompt].empty()) return {.text = answered(task, data.encode(options[prompt]))};
  std::string text;
  for (std::int64_t i = 0; i < std::min(options[count], data.size()); ++i)
    text += answered(task, data.symbols(i));
  return {.text = text};
}

AttentionMaps attention(RecallTask& task, const Options& options) {
  const Recall& data = task.validation_data();
  const Recall::Symbols symbols =
      options[prompt].empty() ? data.symbols(0) : data.encode(options[prompt]);
  const std::vector<std::string> words = data.words(symbols);
  const Array weights = task.model().weights(one_row(symbols));  // (1, H, T)
  expect_input(!weights.empty(), "this run's memory has no attention to draw");
  return {{.path = "memory",
           .weights = weights.reshaped({weights.dim(1), 1, weights.dim(2)}),
           .queries = {words.back()},
           .keys = words}};
}

const RegisterInspector samples("recall", {prompt, count}, &sample);
const RegisterInspector attentions("recall", {prompt}, &attention);

}  // namespace
}  // namespace tapestry
