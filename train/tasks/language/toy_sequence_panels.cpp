#include <array>

#include "train/generate/generate.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/language/decoder_attention.hpp"
#include "train/tasks/language/toy_sequence.hpp"

namespace tapestry {
namespace {

// Held-back sequences with the model's own answers.
ReportPanels panels(ToySequence& task, const Options&) {
  const ToySequences& data = task.validation_data();
  const std::int64_t count = std::min<std::int64_t>(6, data.size());
  const auto label = [&](std::int32_t token) { return data.vocabulary().symbols()[token]; };
  ReadExamples read;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string asked = data.prompt(i), right = data.answer(asked);
    std::vector<std::int32_t> tokens = data.vocabulary().encode(asked);
    Random unused(0, Stream::sample);
    const std::vector<std::int32_t> answer =
        generate(task.model(), tokens, data.answer_length(), {.temperature = 0}, unused);
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    tokens.pop_back();  // nothing is asked of the last symbol
    const std::string given = data.vocabulary().decode(answer);
    read.examples.push_back(read_by(task.model(), tokens, label));
    read.examples.back().expectations.back().actual = label(answer.back());
    read.examples.back().title =
        asked + given + (given == right ? "  right" : "  wrong, expected " + right);
  }
  return {read};
}

const RegisterInspector shown("toy-sequence", {}, &panels);

}  // namespace
}  // namespace tapestry
