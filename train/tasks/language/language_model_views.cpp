#include <array>
#include <nlohmann/json.hpp>

#include "data/file.hpp"
#include "data/text/text.hpp"
#include "train/decode/batch.hpp"
#include "train/decode/token_text.hpp"
#include "train/tasks/language/decoder_attention.hpp"
#include "train/tasks/language/language_model.hpp"
#include "train/tasks/language/sampling_options.hpp"
#include "train/view.hpp"

namespace tapestry {
namespace {

const std::string line_end = "\n";  // stands before a name and after it

const Key<std::string> prompt = prompt_option("text to continue, or to read");
const Key<std::string> prompt_file{
    "prompt-file",
    "",
    "a file with the text to continue, without its last end of line; "
    "-: the standard input",
    {.used_if = {prompt.is("")}}};
const Key<std::string> prompts{
    "prompts",
    "",
    "a file with a prompt a line, to be continued together; a line of JSON comes of each",
    {.used_if = {prompt.is(""), prompt_file.is("")}}};
const Key<std::int64_t> count = count_option(0);
const Key<std::int64_t> tokens{
    "tokens", 0, "tokens to generate, at most", {.low = 1, .high = 10000000}};
const Key<std::string> stop{"stop",
                            "",
                            "write no further than to where this text comes; may be repeated",
                            {.repeated = true}};
const Key<std::int64_t> seed = seed_option();

std::string prompt_of(const Options& options) {
  constexpr std::int64_t most_bytes = 1 << 24;
  const std::string& file = options[prompt_file];
  if (file.empty()) return options[prompt];
  std::string text = file == "-" ? read_standard_input(most_bytes) : read_file(file, most_bytes);
  require_utf8(text, file == "-" ? "the standard input" : file);
  for (const char end : {'\n', '\r'})
    if (text.ends_with(end)) text.pop_back();
  return text;
}

// Writes with a trained model.
class Writer {
 public:
  Writer(const LanguageModel& task, const Options& options)
      : task_(task),
        sampling_(sampling::chosen(options, task)),
        seed_(options[seed]),
        tokens_(options[tokens] > 0 ? options[tokens] : usual_tokens()) {
    if (task.writes_names()) stops_.push_back(line_end);
    for (const std::string& text : options.texts(stop))
      if (!text.empty()) stops_.push_back(text);
  }

  // A text or name that begins with the prompt: the i-th of them.
  void write(const std::string& begin, std::int64_t i, const TextSink& sink) const {
    const std::vector<std::int32_t> first = first_tokens(begin);
    sink(begin);
    Random random(seed_, Stream::sample, i);
    TokenText text(task_.tokenizer(), stops_, sink);
    bool goes_on = true;
    const auto take = [&](std::int32_t token) { return goes_on = add(token, text); };
    std::visit(
        [&](const auto& model) {
          generate(*make_reader(model), first, tokens_, sampling_, random, take);
        },
        task_.network());
    text.finish();
  }

  // What follows each of the prompts, `each` times, all together: as write() would give it alone.
  std::vector<std::string> continued(const std::vector<std::string>& begins,
                                     std::int64_t each) const {
    std::vector<std::string> continuations(begins.size() * each);
    std::vector<Request> requests;
    std::vector<TokenText> texts;
    for (const std::string& begin : begins)
      for (std::int64_t i = 0; i < each; ++i) {
        std::string& continuation = continuations[requests.size()];
        texts.emplace_back(task_.tokenizer(), stops_,
                           [&continuation](std::string_view more) { continuation += more; });
        requests.push_back({.prompt = first_tokens(begin),
                            .tokens = tokens_,
                            .random = Random(seed_, Stream::sample, i)});
      }
    const auto goes_on = [&](std::size_t request, std::int32_t token) {
      return add(token, texts[request]);
    };
    std::visit([&](const auto& model) { generate(model, std::move(requests), sampling_, goes_on); },
               task_.network());
    for (TokenText& text : texts) text.finish();
    return continuations;
  }

 private:
  // Whether the text goes on after the token.
  bool add(std::int32_t token, TokenText& text) const {
    return !task_.ends_text(token) && text.add(token);
  }

  // Of a name its line's beginning comes first. Without a prompt a text begins as a document does,
  // where its ends are tokens, and else with the first of the characters.
  std::vector<std::int32_t> first_tokens(const std::string& begin) const {
    const auto before = task_.tokenizer().before_text();
    std::vector<std::int32_t> first(before.begin(), before.end());
    const std::vector<std::int32_t> read =
        task_.tokenizer().encode(task_.writes_names() ? line_end + begin : begin);
    first.insert(first.end(), read.begin(), read.end());
    if (first.empty()) first = {task_.end_of_text().value_or(0)};
    return first;
  }
  std::int64_t usual_tokens() const { return task_.writes_names() ? task_.context() : 500; }

  const LanguageModel& task_;
  SamplingOptions sampling_;
  std::int64_t seed_;
  std::int64_t tokens_;
  std::vector<std::string> stops_;
};

std::vector<std::string> read_prompts(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<std::string> lines;
  std::string_view rest = text;
  while (const auto line = next_line(rest)) {
    lines.emplace_back(*line);
    expect_input(!line->empty(), "--prompts {}: line {} is empty; expected a prompt a line", path,
                 lines.size());
  }
  expect_input(!lines.empty(), "--prompts {}: holds no line; expected a prompt a line", path);
  return lines;
}

// A line of JSON for each prompt, or several where several are counted.
Sample sample_together(const Writer& writer, const std::string& path, std::int64_t each) {
  const std::vector<std::string> begins = read_prompts(path);
  const std::vector<std::string> texts = writer.continued(begins, each);
  Sample sample;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const nlohmann::ordered_json line = {{"prompt", begins[i / each]}, {"text", texts[i]}};
    sample.text += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return sample;
}

// Texts of 500 tokens, or names, a line each.
Sample sample(LanguageModel& task, const Options& options) {
  const Writer writer(task, options);
  const bool names = task.writes_names();
  const std::string& together = options[prompts];
  const std::int64_t usual = names && together.empty() ? 20 : 1;
  const std::int64_t wanted = options[count] > 0 ? options[count] : usual;
  if (!together.empty()) return sample_together(writer, together, wanted);
  return {.stream = [=, begin = prompt_of(options)](const TextSink& sink) {
    for (std::int64_t i = 0; i < wanted; ++i) {
      if (i > 0 && !names) sink("\n---\n");
      writer.write(begin, i, sink);
      if (names) sink(line_end);
    }
    if (!names) sink("\n");
  }};
}

// What the attention is drawn of where no prompt is given: the beginning of a text by
// the model.
std::vector<std::int32_t> own_text(const LanguageModel& task, const Transformer& network) {
  constexpr std::int64_t most = 24;
  std::vector<std::int32_t> text = {task.end_of_text().value_or(0)};
  Random random(1, Stream::sample);
  const std::vector<std::int32_t> more =
      generate(*make_reader(network), text, std::min(most, task.context()) - 1,
               {.tokens = task.tokenizer().size()}, random);
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

AttentionMaps attention(LanguageModel& task, const Options& options) {
  const auto* transformer = std::get_if<Transformer>(&task.network());
  expect_input(transformer, "a recurrent network has no attention to look at");
  const bool names = task.writes_names();
  const std::vector<std::int32_t> read =
      options[prompt].empty() && !names
          ? own_text(task, *transformer)
          : task.tokenizer().encode((names ? line_end : "") + options[prompt]);
  const std::int64_t length = std::ssize(read);
  expect_input(length >= 1 && length <= task.context(), "--prompt: {} tokens; expected {} to {}",
               length - names, 1 - names, task.context() - names);
  std::vector<std::string> labels;
  for (const std::int32_t token : read)
    labels.push_back(printable(task.tokenizer().decode(std::array{token})));
  return attention_of(*transformer, read, labels);
}

const RegisterView samples("language-model",
                           {prompt, prompt_file, prompts, count, tokens, stop,
                            sampling::temperature, sampling::top_k, sampling::top_p,
                            sampling::min_p, sampling::repetition_penalty, seed},
                           &sample);
const RegisterView attentions("language-model", {prompt}, &attention);

}  // namespace
}  // namespace tapestry
