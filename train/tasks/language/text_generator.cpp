#include "train/tasks/language/text_generator.hpp"

#include "autograd/q8_0.hpp"
#include "train/generate/token_text.hpp"

namespace tapestry {
namespace {

constexpr const char* line_end = "\n";  // precedes and follows a name

}  // namespace

SamplingOptions sampling::chosen(const Options& options, const LanguageModel& task) {
  return {.temperature = options[temperature],
          .top_k = options[top_k],
          .top_p = options[top_p],
          .min_p = options[min_p],
          .repetition_penalty = options[repetition_penalty],
          .tokens = task.tokenizer().size()};
}

void sampling::convert_weights(const Options& options, LanguageModel& task) {
  if (options[dtype] != "q8_0") return;
  auto* transformer = dynamic_cast<Transformer*>(&task.model());
  expect_input(transformer,
               "--dtype q8_0: model.kind is \"{}\"; expected a transformer, or float32",
               task.network_kind());
  expect_input(quantize_weights(*transformer) > 0,
               "--dtype q8_0: model.width is not a multiple of {}; use float32", Q8Block::size);
}

DecodingState begin_decoding(const LanguageModel& task) {
  return std::visit([](const auto& model) { return DecodingState(model); }, task.network());
}

TextGenerator::TextGenerator(const LanguageModel& task, WritingOptions options)
    : task_(task), options_(std::move(options)) {
  options_.sampling.tokens = task.tokenizer().size();
  if (options_.tokens == 0) options_.tokens = task.writes_names() ? task.context() : 500;
  std::erase(options_.stops, "");
  if (task.writes_names()) options_.stops.emplace_back(line_end);
}

void TextGenerator::write(const std::vector<std::int32_t>& first, std::int64_t i,
                          const TakeText& take) const {
  bool wanted = true;
  TokenText text(task_.tokenizer(), options_.stops,
                 [&](std::string_view piece) { wanted = wanted && take(piece); });
  write_tokens(first, i, [&](std::int32_t token) { return text.add(token) && wanted; });
  if (wanted) text.finish();
}

void TextGenerator::write_tokens(const std::vector<std::int32_t>& first, std::int64_t i,
                                 const TakeToken& take) const {
  generate(begin_decoding(task_), {request(first, i)}, options_.sampling,
           [&](std::size_t, std::int32_t token) { return !task_.ends_text(token) && take(token); });
}

Request TextGenerator::request(const std::vector<std::int32_t>& first, std::int64_t i) const {
  return {.prompt = first,
          .tokens = options_.tokens,
          .random = Random(options_.seed, Stream::sample, i)};
}

std::vector<std::string> TextGenerator::continued(const std::vector<std::string>& begins,
                                                  std::int64_t each) const {
  std::vector<std::string> continuations(begins.size() * each);
  std::vector<Request> requests;
  std::vector<TokenText> texts;
  for (const std::string& begin : begins)
    for (std::int64_t i = 0; i < each; ++i) {
      std::string& continuation = continuations[requests.size()];
      texts.emplace_back(task_.tokenizer(), options_.stops,
                         [&continuation](std::string_view more) { continuation += more; });
      requests.push_back(request(first_tokens(begin), i));
    }
  const auto continues = [&](std::size_t request, std::int32_t token) {
    return !task_.ends_text(token) && texts[request].add(token);
  };
  generate(begin_decoding(task_), std::move(requests), options_.sampling, continues);
  for (TokenText& text : texts) text.finish();
  return continuations;
}

// A name begins with a line end. If there are no tokens, the text begins with the end-of-text token
// or, if there is none, with token 0.
std::vector<std::int32_t> TextGenerator::first_tokens(const std::string& begin) const {
  const auto before = task_.tokenizer().before_text();
  std::vector<std::int32_t> first(before.begin(), before.end());
  const std::vector<std::int32_t> read =
      task_.tokenizer().encode(task_.writes_names() ? line_end + begin : begin);
  first.insert(first.end(), read.begin(), read.end());
  if (first.empty()) first = {task_.end_of_text().value_or(0)};
  return first;
}

}  // namespace tapestry
