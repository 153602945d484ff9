#include <array>

#include "data/text/conversation_dataset.hpp"
#include "data/text/text.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/language/decoder_attention.hpp"
#include "train/tasks/language/language_model.hpp"

namespace tapestry {
namespace {

// As a reader sees it: "·the", "↵".
std::string visible(std::string text) {
  if (text == "\n") return "↵";
  if (text.starts_with(' ')) text.replace(0, 1, "·");
  return printable(text);
}

// The beginning of an example and the token that follows it, without what pads it and what stands
// beside it in its row.
struct Beginning {
  std::vector<std::int32_t> tokens;
  std::int32_t next;
};

Beginning beginning(const Batch& batch, std::int64_t most) {
  const auto inputs = batch.inputs.values<std::int32_t>();
  const auto targets = batch.targets.values<std::int32_t>();
  const auto* documents = batch.find<DocumentStarts>();
  std::size_t last = 0;  // that has a target
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (targets[i] != ignored_target &&
        (!documents || documents->starts.values<std::int32_t>()[i] == 0))
      last = i;
  const std::size_t count = std::min<std::size_t>(last + 1, most);
  return {.tokens = {inputs.begin(), inputs.begin() + static_cast<std::int64_t>(count)},
          .next = count <= last ? inputs[count] : targets[last]};
}

// Texts that were held back, and how the model reads them.
ReportPanels panels(LanguageModel& task, const Options&) {
  const auto* network = std::get_if<Transformer>(&task.network());
  if (!network) return {};
  const Dataset& texts = task.validation_data();
  const std::int64_t count = std::min<std::int64_t>(task.writes_names() ? 8 : 3, texts.size());
  const auto label = [&](std::int32_t token) {
    return token < task.tokenizer().size() ? visible(task.tokenizer().decode(std::array{token}))
                                           : fmt::format("unused {}", token);
  };
  ReadExamples read;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t example = i * (texts.size() / count);
    const Batch batch = texts.batch(std::array{example});
    const auto [tokens, next] = beginning(batch, readable_tokens(*network, count));
    read.examples.push_back(read_by(*network, tokens, label));
    read.examples.back().expectations.back().actual = label(next);
    read.examples.back().title = fmt::format("validation text {}", example);
  }
  return {read};
}

const RegisterInspector shown("language-model", {}, &panels);

}  // namespace
}  // namespace tapestry
