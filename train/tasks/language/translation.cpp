#include "train/tasks/language/translation.hpp"

#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "autograd/ops/losses.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/pairs.hpp"
#include "data/text/unicode.hpp"
#include "data/toys/dates.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/recognized.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/run/version.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/language/token_baselines.hpp"
#include "train/tasks/linear_baseline.hpp"
#include "train/tasks/token_loss.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

const Condition of_dates = key_is("data.kind", "dates"), of_text = key_is("data.kind", "text"),
                trains_tokenizer = key_is("data.tokenizer", "");

const SettingsOf<TranslationSettings> translation_settings = [] {
  using S = TranslationSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("data.kind", &S::kind, "synthetic dates, or the sentence pairs of data.path",
          {{"dates", PairKind::dates}, {"text", PairKind::text}}),
      Row(key::data_path, &S::path),
      Row(key::data_source, &S::source),
      Row(key::seed, &S::seed),
      Row("data.examples", &S::examples, "training dates",
          {.low = 1, .high = 1e9, .used_if = {of_dates}}),
      Row("data.held_back", &S::held_back,
          "number of validation dates, none of which is a training date",
          {.low = 1, .high = 1e6, .used_if = {of_dates}}),
      Row("data.source_language", &S::source_language,
          "last part of the source files' names: train.de",
          {.may_change_on_resume = true, .used_if = {of_text}}),
      Row("data.target_language", &S::target_language, "last part of the target files' names",
          {.may_change_on_resume = true, .used_if = {of_text}}),
      Row("data.train", &S::train, "first part of the training files' names: train.de",
          {.may_change_on_resume = true, .used_if = {of_text}}),
      Row("data.validation", &S::validation, "first part of the validation files' names",
          {.may_change_on_resume = true, .used_if = {of_text}}),
      Row("data.test", &S::test, "first part of the test files' names; empty: no test split",
          {.may_change_on_resume = true,
           .used_if = {of_text},
           .advice = "leave this key empty if there is no test split"}),
      Row("data.tokenizer", &S::tokenizer,
          "a tokenizer.json; empty: a tokenizer is trained on the training sentences",
          {.used_if = {of_text}}),
      Row("data.vocabulary", &S::vocabulary, "vocabulary size of a tokenizer that is trained",
          {.low = 300, .high = 1e6, .used_if = {of_text, trains_tokenizer}}),
      Row("data.lower_case", &S::lower_case,
          "convert texts to lower case, and compute BLEU in lower case",
          {.used_if = {of_text, trains_tokenizer}}),
      Row("model.context", &S::context,
          "maximum number of tokens of a source or target; longer ones are cut",
          {.low = 2, .high = 4096, .used_if = {of_text}}),
      Row("model.decoder_layers", &S::decoder_layers,
          "the decoder's blocks; 0: as many as the encoder's", {.low = 0, .high = 1000}),
      Row("model.label_smoothing", &S::label_smoothing,
          "label smoothing: share of the target probability that is spread over all tokens",
          {.low = 0, .high = 0.9}),
      Row("model.beams", &S::beams, "number of beams in decoding; 1: greedy decoding",
          {.low = 1, .high = 64, .may_change_on_resume = true})};
}();

ParallelCorpus dates(const Given<TranslationSettings>& given) {
  given.expect_no_path();
  const auto part = [&](Split which, std::int64_t count) {
    return std::make_unique<DateDataset>(
        DateOptions{.examples = count, .seed = given.seed, .split = which});
  };
  auto training = part(Split::train, given.examples);
  const auto codec = std::make_shared<const DateDataset>(*training);
  return {.vocabulary = codec->vocabulary_size(),
          .context = DateDataset::context(),
          .encode = [codec](std::string_view text) { return codec->encode(text); },
          .decode = [codec](std::span<const std::int32_t> tokens) { return codec->decode(tokens); },
          .training = std::move(training),
          .validation = part(Split::validation, given.held_back)};
}

const std::string& pairs_path(const Given<TranslationSettings>& given) {
  return given.required_path(
      "no folder of sentence pairs",
      fmt::format("{2}, here train.{0}, train.{1}, val.{0}, val.{1}, with --set data.path=FOLDER",
                  given.source_language, given.target_language, parallel_files));
}

// Returns the sentences of the split whose file names begin with the option `split`.
ParallelText load(const Given<TranslationSettings>& given, const std::string& split) {
  const std::string beginning = translation_settings.text(split, given);
  return given.checked(
      [&] {
        return load_parallel_text(
            pairs_path(given),
            {.split = beginning, .source = given.source_language, .target = given.target_language});
      },
      {{"split", split}});
}

// Returns the tokenizer of a file. Throws InputError if the tokenizer lacks the special tokens of
// sentence pairs, and as BytePairTokenizer::load() does.
BytePairTokenizer load_tokenizer(const std::string& path) {
  BytePairTokenizer tokenizer = BytePairTokenizer::load(path);
  for (std::size_t token = 0; token < special_tokens.size(); ++token)
    expect_input(
        tokenizer.find(special_tokens[token]) == static_cast<std::int32_t>(token) &&
            tokenizer.model().special[token],
        "data.tokenizer = \"{}\": a translation needs the special tokens {} as tokens 0 "
        "to 3; create a tokenizer with `tapestry tokenizer train`, or leave out data.tokenizer",
        path, fmt::join(special_tokens, ", "));
  return tokenizer;
}

BytePairTokenizer make_tokenizer(const TranslationSettings& settings, const ParallelText& text) {
  if (!settings.tokenizer.empty()) return load_tokenizer(settings.tokenizer);
  std::vector<std::string> sentences = text.sources;
  sentences.insert(sentences.end(), text.targets.begin(), text.targets.end());
  return BytePairTokenizer::train(
      sentences, {.vocabulary = settings.vocabulary, .lower_case = settings.lower_case});
}

std::vector<TokenPair> encoded(const ParallelText& text, const BytePairTokenizer& tokenizer) {
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < text.sources.size(); ++i)
    pairs.push_back(
        {.source = tokenizer.encode(text.sources[i]), .target = tokenizer.encode(text.targets[i])});
  return pairs;
}

std::unique_ptr<Dataset> cut_to(std::int64_t limit, std::vector<TokenPair> pairs) {
  return std::make_unique<PairDataset>(std::move(pairs),
                                       PairOptions{.context = limit, .overlong = Overlong::cut});
}

// Returns a split for evaluation. Its references are whole lines, even if the context truncates
// them.
std::unique_ptr<Dataset> evaluation_split(std::int64_t context, ParallelText text,
                                          const BytePairTokenizer& tokenizer) {
  std::vector<TokenPair> pairs = encoded(text, tokenizer);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i].reference = std::move(text.targets[i]);
  return cut_to(context, std::move(pairs));
}

ParallelCorpus sentences(const TaskSetup& setup, const Given<TranslationSettings>& given) {
  std::optional<ParallelText> training;
  const bool has_splits = setup.needs_data && !setup.whole_data;
  if (has_splits || setup.metadata.empty()) training = load(given, "train");
  const auto tokenizer = std::make_shared<const BytePairTokenizer>(
      setup.metadata.empty() ? make_tokenizer(given, *training)
                             : BytePairTokenizer::from_json(kept_value(setup.metadata, "tokenizer"),
                                                            "the checkpoint"));
  ParallelCorpus corpus{
      .vocabulary = tokenizer->size(),
      .context = given.context,
      .encode = [tokenizer](std::string_view line) { return tokenizer->encode(line); },
      .decode = [tokenizer](std::span<const std::int32_t> t) { return tokenizer->decode(t); },
      .lower_case = tokenizer->model().pieces.lower_case,
      .metadata = {{"tokenizer", tokenizer->to_json()}}};
  const auto evaluated = [&](ParallelText text) {
    return evaluation_split(given.context, std::move(text), *tokenizer);
  };
  if (setup.whole_data)
    corpus.validation = evaluated(load_all_parallel_text(
        pairs_path(given), {.source = given.source_language, .target = given.target_language}));
  if (!training) return corpus;
  corpus.training = cut_to(corpus.context, encoded(*training, *tokenizer));
  corpus.validation = evaluated(load(given, "validation"));
  if (!given.test.empty()) corpus.test = evaluated(load(given, "test"));
  return corpus;
}

ParallelCorpus read_pairs(const TaskSetup& setup) {
  const Given<TranslationSettings> given = translation_settings.of(setup.config);
  return given.kind == PairKind::dates ? dates(given) : sentences(setup, given);
}

// Both languages share one vocabulary and one embedding.
EncoderDecoder make_model(const Config& config, const ParallelCorpus& corpus) {
  const Given<TransformerSettings> given = transformer_settings.of(config);
  const std::int64_t own = translation_settings.of(config).decoder_layers;
  given.expect(!given.random_features.gate, "gate",
               "is not supported by an encoder or cross-attention; set this key to false");
  const EncoderDecoderOptions options{.source_vocabulary = corpus.vocabulary,
                                      .target_vocabulary = corpus.vocabulary,
                                      .source_context = corpus.context,
                                      .target_context = corpus.context,
                                      .encoder_layers = given.layers,
                                      .decoder_layers = own > 0 ? own : given.layers,
                                      .block = block_options_with_attention(given),
                                      .shared_embeddings = true,
                                      .tied_embeddings = given.tied_embeddings};
  return initialized(config, [&](Random& init) { return EncoderDecoder(options, init); });
}

TokenDecoder translation_decoder(Translation& task) {
  return [&task](std::span<const std::int32_t> tokens) { return task.corpus().decode(tokens); };
}

// Sets the languages and the splits that the user has not given, by the names of the files. Throws
// Undecided if these leave the languages open.
void choose_files(TranslationSettings& chosen, const std::set<std::string>& languages) {
  std::string &source = chosen.source_language, &target = chosen.target_language;
  const auto set_other = [&](std::string& open, const std::string& known) {
    if (open.empty() && languages.size() == 2 && languages.contains(known))
      open = known == *languages.begin() ? *languages.rbegin() : *languages.begin();
  };
  set_other(source, target);
  set_other(target, source);
  const bool has_source = languages.contains(source);
  if (!has_source || !languages.contains(target) || source == target)
    throw Undecided(
        fmt::format("{}: sentences in the languages {}; add --set data.{}", chosen.path,
                    fmt::join(languages, ", "),
                    has_source ? "target_language=LANGUAGE, that of the translations"
                               : "source_language=LANGUAGE, that of the sentences to translate"));
  const auto has = [&](const char* split) {
    const std::set<std::string> found = parallel_languages(chosen.path, split);
    return found.contains(source) && found.contains(target);
  };
  if (chosen.validation.empty()) chosen.validation = !has("val") && has("dev") ? "dev" : "val";
  if (chosen.test.empty() && has("test")) chosen.test = "test";
}

std::vector<Recognized> recognize_pairs(const UserData& data) {
  return {recognized_as("translation", "sentence pairs", [&](Recognized& found) {
    const std::set<std::string> languages = parallel_languages(data.path, "train");
    if (parallel_languages(data.path, "").size() >= 2) found.fit = Recognized::Fit::similar;
    constexpr const char* names = "train.LANGUAGE and val.LANGUAGE, such as train.de and train.en";
    expect_input(languages.size() >= 2, "expected files {}; rename the files", names);
    found.fit = Recognized::Fit::similar;
    Given<TranslationSettings> given = translation_settings.of(
        parse_config(fmt::format("task = \"translation\"\n[data]\nkind = \"text\"\npath = {}\n",
                                 to_toml(Value(data.path))),
                     "init", data.overrides));
    for (const auto& [key, value] : {std::pair("data.source_language", &given.source_language),
                                     {"data.target_language", &given.target_language},
                                     {"data.validation", &given.validation}})
      if (std::ranges::none_of(data.overrides, [&](const std::string& text) {
            return parse_override(text, false).name == key;
          }))
        value->clear();
    choose_files(given, languages);
    const std::int64_t pairs = std::ssize(load(given, "train").sources);
    found.facts = {
        {"training pairs", pairs},
        {"validation pairs", std::ssize(load(given, "validation").sources)},
        {"test pairs", given.test.empty() ? 0 : std::ssize(load(given, "test").sources)},
        {"translates", fmt::format("{} to {}", given.source_language, given.target_language)}};
    found.examples = static_cast<double>(pairs);
    found.fit = Recognized::Fit::certain;
    found.base = "multi30k";
    const auto set = [&](const char* key, Value value, const char* comment) {
      found.settings.push_back({key, std::move(value), comment});
    };
    set("data.source_language", given.source_language, "translated");
    set("data.target_language", given.target_language, "into this one");
    set("data.validation", given.validation, "beginning of the files' names");
    set("data.test", given.test, given.test.empty() ? "no test split" : "beginning of their names");
    set("data.lower_case", false, "texts as they are");
    constexpr double few = 10'000;
    if (found.examples < few) {
      set("data.vocabulary", std::int64_t{2000}, "byte pairs, of few sentences");
      set("model.dropout", 0.3, "few sentences are soon memorized");
    }
    found.smaller = {{{"model.layers", std::int64_t{2}, "fewer, for more steps in the time"},
                      {"model.width", std::int64_t{128}},
                      {"model.feed_forward", std::int64_t{256}}}};
    found.most_epochs = 20;
  })};
}

TaskSpec translation_spec() {
  using enum MetricInfo::Better;
  return {.name = "translation",
          .help = "an encoder-decoder transformer",
          .keys = joined({transformer_keys(), translation_settings.keys()}),
          .make = make_task_of<Translation>,
          .recognize = recognize_pairs,
          .metrics = token_metrics(
              "the target's",
              {{"exact_match", "", higher, "the share of answers that are entirely correct"},
               {"bleu", "from 0 to 100", higher,
                "the BLEU score: the agreement of n-grams with the reference translations, from "
                "0 to 100"},
               {"cut_sources", "sentences", neither, "the number of sources that were truncated"}}),
          .samples = translation_samples(),
          .predictor = translation_predictor,
          .token_decoder = translation_decoder,
          .attention = translation_attention(),
          .panels = translation_panels,
          .onnx = translation_graphs,
          .reads_whole_data = true};
}

const RegisterTask registered_translation(translation_spec);

}  // namespace

std::vector<std::string> ParallelCorpus::decode_each(std::span<const std::int32_t> tokens) const {
  std::vector<std::string> texts;
  for (const std::int32_t token : tokens) texts.push_back(decode(std::array{token}));
  return texts;
}

Translation::Translation(const TaskSetup& setup)
    : settings_(translation_settings.of(setup.config)),
      corpus_(read_pairs(setup)),
      model_(make_model(setup.config, corpus_)),
      fits_baselines_(has_own_training_data(setup)) {}

Order Translation::order() const {
  return settings_.kind == PairKind::text ? Order::similar_lengths : Order::shuffled;
}

Loss Translation::loss(const Batch& batch, const Pass& pass) {
  Random* noise = pass.training ? pass.noise : nullptr;
  const auto& [source, padding, references] = batch.part<SourceTokens>();
  const EncoderDecoder::EncodedSource encoded = model_.encode(source, padding, noise);
  Loss loss = token_loss(model_, model_.hidden(batch.inputs, encoded, noise), batch,
                         pass.training ? settings_.label_smoothing : 0);
  if (!pass.training) loss.generated = generated(batch);
  return loss;
}

// Those of the target sentences alone: what the source tells is not in them.
std::vector<Baselines> Translation::baselines(JudgedSplits judged) {
  if (!fits_baselines_) return {};
  return token_baselines(
      *this, judged,
      {.vocabulary = corpus_.vocabulary, .measure = [](double nats, const Batch& batch) {
         return MetricSums{{"loss", {nats, batch.count}}};
       }});
}

void Translation::add_derived_metrics(Metrics& metrics) const { add_perplexity(metrics); }

void Translation::add_corpus_metrics(const GeneratedTexts& generated, Metrics& metrics) const {
  double equal = 0;
  for (std::size_t i = 0; i < generated.predictions.size(); ++i) {
    const std::string& references = generated.references[i];
    equal += generated.predictions[i] == (corpus_.lower_case ? lower_case(references) : references);
  }
  metrics["exact_match"] = equal / static_cast<double>(generated.predictions.size());
  if (settings_.kind != PairKind::text) return;
  metrics["bleu"] = corpus_bleu(generated.predictions, generated.references, bleu()).score;
  metrics["cut_sources"] = static_cast<double>(generated.cut_sources);
}

BleuOptions Translation::bleu() const { return {.lower_case = corpus_.lower_case}; }

Signatures Translation::signatures() const {
  if (settings_.kind != PairKind::text) return {};
  return {{"bleu", fmt::format("{}|version:tapestry-{}", bleu_signature(bleu()), release())}};
}

TranslateOptions Translation::decoding() const {
  return {.beams = settings_.beams, .begin = bos_token, .end = eos_token};
}

GeneratedTexts Translation::generated(const Batch& batch) const {
  GeneratedTexts generated;
  const auto& [source, padding, references] = batch.part<SourceTokens>();
  for (const auto& tokens : translate(model_, source, padding, decoding()))
    generated.predictions.push_back(corpus_.decode(tokens));
  for (const auto& [line, source_cut] : references) {
    generated.references.push_back(line);
    generated.cut_sources += source_cut;
  }
  return generated;
}

}  // namespace tapestry
