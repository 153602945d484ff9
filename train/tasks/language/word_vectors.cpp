#include "train/tasks/language/word_vectors.hpp"

#include "autograd/checksum.hpp"
#include "autograd/counted.hpp"
#include "autograd/dry_run.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {
namespace {

const SettingsOf<WordVectorSettings> word_vector_settings = [] {
  using S = WordVectorSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row(key::data_path, &S::path, "give a text with more words"),
      Row(key::data_source, &S::source),
      Row("data.validation_fraction", &S::validation_fraction,
          "fraction of the lines for validation: the end of the text", {.low = 0, .high = 0.9}),
      Row("data.minimum_count", &S::minimum_count,
          "how often a word occurs in the training lines at least; others are left out",
          {.low = 1, .high = 1e9, .advice = "lower this value, or give a longer text"}),
      Row("data.vocabulary", &S::vocabulary, "most words of the vocabulary, the most frequent ones",
          {.low = 2, .high = 1e7}),
      Row("data.across_lines", &S::across_lines,
          "windows extend across line ends, as in books whose lines are wrapped"),
      Row("model.width", &S::width, "numbers of a vector", {.low = 2, .high = 65536}),
      Row("model.window", &S::window,
          "most words on each side that are a word's context; each time from 1 to this number",
          {.low = 1, .high = 1000}),
      Row("model.negatives", &S::negatives, "negative words per word, drawn by frequency^0.75",
          {.low = 1, .high = 1000}),
      Row("model.subsample", &S::subsample,
          "share of the text above which occurrences of a word are left out at random; 0: never",
          {.low = 0, .high = 1})};
}();

TaskSpec word_vector_spec() {
  return {.name = "word-vectors",
          .help = "vectors of words by skip-grams with negative sampling, as word2vec",
          .keys = word_vector_settings.keys(),
          .make = make_task_of<WordVectorTask>,
          .metrics = {{.name = "loss",
                       .unit = "nats per pair",
                       .better = MetricInfo::Better::lower,
                       .meaning = "the loss of negative sampling per pair of words",
                       .settings = {"data.minimum_count", "data.vocabulary", "model.window",
                                    "model.negatives", "model.subsample"}}},
          .samples = word_vector_samples(),
          .panels = word_vector_panels};
}

const RegisterTask registered_word_vectors(word_vector_spec);

// Returns the texts of data.path before and after the cut between the splits.
CutTexts cut_texts_of(const Given<WordVectorSettings>& given) {
  std::vector<Text> texts;
  double bytes = 0;
  for (const std::string& file : text_files(text_path(given))) {
    texts.push_back(load_text(file));
    bytes += static_cast<double>(texts.back().content.size());
  }
  return cut_texts(std::move(texts),
                   static_cast<std::int64_t>(bytes * (1 - given.validation_fraction)));
}

// Returns the lines of texts; with across_lines, the texts.
std::vector<std::string> lines_of(const std::vector<std::string>& texts,
                                  const WordVectorSettings& settings) {
  if (settings.across_lines) return texts;
  std::vector<std::string> lines;
  for (std::string_view rest : texts)
    while (const auto line = next_line(rest)) lines.emplace_back(*line);
  return lines;
}

// Returns a generator for each example, by its words, so that draws do not depend on its batch, and
// by the noise of a step.
std::vector<Random> generators(const Batch& batch, Random* noise) {
  std::vector<Random> all;
  const std::uint64_t step = noise ? noise->bits() : 0;
  const std::int64_t R = batch.inputs.dim(1);
  for (std::int64_t b = 0; b < batch.targets.dim(0); ++b) {
    Checksum words;
    if (!is_dry_run()) words.add(batch.inputs.part(b * R, (b + 1) * R));
    all.emplace_back(words.value(), Stream::dropout, step);
  }
  return all;
}

}  // namespace

WordVectorTask::WordVectorTask(const TaskSetup& setup) {
  const Given<WordVectorSettings> given = word_vector_settings.of(setup.config);
  if (!setup.metadata.empty()) {
    vocabulary_.words =
        JsonValue::parse(kept_value(setup.metadata, "words")).get<std::vector<std::string>>();
    vocabulary_.counts = JsonValue::parse(kept_value(setup.metadata, "word_counts"))
                             .get<std::vector<std::int64_t>>();
    require(vocabulary_.words.size() == vocabulary_.counts.size(),
            "word-vectors: {} counts of {} words in the checkpoint; expected one each",
            vocabulary_.counts.size(), vocabulary_.words.size());
  }
  if (setup.needs_data || vocabulary_.words.empty())
    read_text(given, setup.config[key::micro_batches]);
  sampler_.emplace(vocabulary_.counts, given);
  model_.emplace(initialized(setup.config, [&](Random& init) {
    return SkipGram(std::ssize(vocabulary_.words), given.width, init);
  }));
}

void WordVectorTask::read_text(const Given<WordVectorSettings>& given, std::int64_t parts) {
  const CutTexts cut = cut_texts_of(given);
  const auto training = lines_of(cut.before, given), validation = lines_of(cut.after, given);
  constexpr std::int64_t reach_of_window = 3;  // because subsampling leaves words out
  const std::int64_t reach = reach_of_window * given.window;
  given.checked([&] {
    if (vocabulary_.words.empty()) vocabulary_ = WordVocabulary::of(training, given);
    training_.emplace(training, vocabulary_, reach, parts);
  });
  given.checked([&] { validation_.emplace(validation, vocabulary_, reach, parts); },
                {{"path", "validation_fraction"}});
}

Loss WordVectorTask::loss(const Batch& batch, const Pass& pass) {
  std::vector<Random> own;
  std::span<Random> random = pass.noise_of_examples;
  if (random.empty()) random = own = generators(batch, pass.noise);
  const auto drawn = sampler_->draw(batch, random);
  const Tensor total = model_->forward(drawn.contexts, drawn.targets);
  return {total, {{"loss", {total.item(), static_cast<double>(drawn.pairs)}}}};
}

std::map<std::string, std::string> WordVectorTask::metadata() const {
  return {{"words", JsonValue(vocabulary_.words).dump()},
          {"word_counts", JsonValue(vocabulary_.counts).dump()}};
}

std::string WordVectorTask::remark() const {
  if (!training_) return "";
  return fmt::format("text: {} for training, {} for validation; {}",
                     counted(training_->size(), "word"), validation_->size(),
                     counted(std::ssize(words()), "different word"));
}

}  // namespace tapestry
