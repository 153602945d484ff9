#include <algorithm>
#include <array>

#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/input_file.hpp"
#include "data/text/pairs.hpp"
#include "layers/multi_head_attention.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/language/translation.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t most_translated = 128;
constexpr std::ptrdiff_t most_in_group = 8;

std::u32string characters(std::string_view text) {
  std::u32string all;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    all += next.value;
    at += std::max(1, next.bytes);
  }
  return all;
}

// The fewest letters to put in, leave out or change (Levenshtein 1966), as a share of the longer
// text, from 1: 1 of equal texts, 0 of texts that have nothing in common.
double similarity(const std::u32string& one, const std::u32string& other) {
  std::vector<std::size_t> above(other.size() + 1), row(other.size() + 1);
  for (std::size_t j = 0; j <= other.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j)
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (one[i - 1] != other[j - 1])});
  }
  const auto longer = static_cast<double>(std::max(one.size(), other.size()));
  return longer == 0 ? 1 : 1 - static_cast<double>(row.back()) / longer;
}

// (L, T, S): what each layer of the decoder looked at in the source before it wrote each token.
Array alignments_of(const EncoderDecoder& model, const Array& source, Tokens predictions) {
  predictions.insert(predictions.begin(), bos_token);
  AttentionRecorder recorder;
  model.decode(one_row(predictions), model.encode(source, {}));
  std::vector<Tensor> layers;
  for (const auto& [path, weights] : recorder.entries)
    if (path.ends_with("cross_attention")) layers.push_back(mean(weights, {1}));  // (1, T, S)
  return concat(layers, 0).value();
}

TranslatedPair translated(Translation& task, const Dataset& pairs, std::int64_t index) {
  const ParallelCorpus& corpus = task.corpus();
  const Batch batch = pairs.batch(std::array{index});
  const Array source = batch.part<SourceTokens>().tokens;
  const Tokens predictions = translate(task.model(), source, {}, task.decoding()).front();
  TranslatedPair pair{.source = corpus.decode_each(source.values<std::int32_t>()),
                      .prediction = corpus.decode_each(predictions),
                      .source_text = corpus.decode(source.values<std::int32_t>()),
                      .prediction_text = corpus.decode(predictions),
                      .reference = batch.part<SourceTokens>().references.front().line,
                      .alignments = alignments_of(task.model(), source, predictions)};
  pair.prediction.emplace_back("end");
  pair.score = similarity(characters(pair.prediction_text), characters(pair.reference));
  return pair;
}

// Of the first pairs of the test split, or of the validation split where there is none.
ReportPanels panels(Translation& task, const Options&) {
  const ParallelCorpus& corpus = task.corpus();
  const Dataset& pairs = corpus.test ? *corpus.test : *corpus.validation;
  std::vector<TranslatedPair> all;
  for (std::int64_t i = 0; i < std::min(pairs.size(), most_translated); ++i)
    all.push_back(translated(task, pairs, i));
  std::ranges::stable_sort(all, std::greater(), &TranslatedPair::score);
  const std::ptrdiff_t half = std::min(most_in_group, std::ssize(all) / 2);
  Translations shown{.split = corpus.test ? "test" : "validation",
                     .score_name = "letters in common, 1 − edits / length",
                     .of = std::ssize(all)};
  std::move(all.end() - half, all.end(), std::back_inserter(shown.worst));
  std::move(all.begin(), all.begin() + std::max<std::ptrdiff_t>(half, 1),
            std::back_inserter(shown.best));
  return {shown};
}

const RegisterInspector shown_pairs("translation", {}, &panels);

}  // namespace
}  // namespace tapestry
