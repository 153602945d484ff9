#include "train/tasks/language/translation.hpp"

#include <cmath>
#include <optional>

#include "autograd/ops/losses.hpp"
#include "data/text/bleu.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/pairs.hpp"
#include "data/text/parallel_text.hpp"
#include "data/toys/dates.hpp"
#include "train/settings/keys.hpp"
#include "train/tasks/transformer_keys.hpp"

namespace tapestry {
namespace {

enum class Kind { dates, text };
const Choice<Kind> kind{"data.kind",
                        Kind::dates,
                        "built-in dates, or the sentence pairs of data.path",
                        {{"dates", Kind::dates}, {"text", Kind::text}}};
const Key<std::int64_t> examples{
    "data.examples", 100'000, "dates to train on", {.low = 1, .high = 1e9}};
const Key<std::int64_t> held_back{
    "data.held_back", 1000, "dates to validate on, never trained on", {.low = 1, .high = 1e6}};
const Key<std::string> source_language{"data.source_language",
                                       "de",
                                       "the source files' last part: train.de",
                                       {.free_on_resume = true}};
const Key<std::string> target_language{
    "data.target_language", "en", "the target files' last part", {.free_on_resume = true}};
const Key<std::string> training_split{
    "data.train", "train", "the files' first part: train.de", {.free_on_resume = true}};
const Key<std::string> validation_split{"data.validation",
                                        "val",
                                        "the same, of the sentences to evaluate on",
                                        {.free_on_resume = true}};
const Key<std::string> tokenizer_path{"data.tokenizer", "",
                                      "a tokenizer.json; empty: trained on the training sentences"};
const Key<std::int64_t> vocabulary{
    "data.vocabulary", 8000, "tokens of a tokenizer to train", {.low = 300, .high = 1e6}};
const Key<bool> lower_case{"data.lower_case", false, "read and write lower case only"};
const Key<std::int64_t> context{"model.context",
                                64,
                                "tokens of a source or target; longer ones are cut",
                                {.low = 2, .high = 4096}};
const Key<double> label_smoothing{"model.label_smoothing",
                                  0,
                                  "share of a target spread over all tokens",
                                  {.low = 0, .high = 0.9}};
const Key<std::int64_t> beams{"model.beams",
                              1,
                              "hypotheses in decoding; 1: greedy",
                              {.low = 1, .high = 64, .free_on_resume = true}};

std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all = transformer_keys();
  all.insert(all.end(),
             {kind, key::data_source, examples, held_back, source_language, target_language,
              training_split, validation_split, tokenizer_path, vocabulary, lower_case, context,
              key::decoder_layers, label_smoothing, beams});
  return all;
}

std::vector<std::int32_t> without_ignored(std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> kept;
  for (const std::int32_t token : tokens)
    if (token != ignored_target) kept.push_back(token);
  return kept;
}

ParallelCorpus dates(const Config& config) {
  key::expect_no_path(config);
  const auto part = [&](Split which, std::int64_t count) {
    return std::make_unique<DateDataset>(
        DateOptions{.examples = count, .seed = seed_of(config), .split = which});
  };
  auto training = part(Split::train, config[examples]);
  const auto codec = std::make_shared<const DateDataset>(*training);
  return {.vocabulary = codec->vocabulary_size(),
          .context = DateDataset::context(),
          .encode = [codec](std::string_view text) { return codec->encode(text); },
          .decode = [codec](std::span<const std::int32_t> tokens) { return codec->decode(tokens); },
          .training = std::move(training),
          .validation = part(Split::held_back, config[held_back])};
}

ParallelText load(const Config& config, const Key<std::string>& split) {
  const std::string path = key::required_path(
      config, "nothing to translate",
      fmt::format("{2}, here train.{0}, train.{1}, val.{0}, val.{1} and their like, with --set "
                  "data.path=FOLDER",
                  config[source_language], config[target_language], parallel_formats().help()));
  return load_parallel_text(path, {.split = config[split],
                                   .source = config[source_language],
                                   .target = config[target_language]});
}

BytePairTokenizer make_tokenizer(const Config& config, const ParallelText& text) {
  if (!config[tokenizer_path].empty()) return BytePairTokenizer::load(config[tokenizer_path]);
  std::vector<std::string> sentences = text.sources;
  sentences.insert(sentences.end(), text.targets.begin(), text.targets.end());
  return BytePairTokenizer::train(
      sentences, {.vocabulary = config[vocabulary], .lower_case = config[lower_case]});
}

std::unique_ptr<Dataset> encoded(const ParallelText& text, const BytePairTokenizer& tokenizer,
                                 std::int64_t limit) {
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < text.sources.size(); ++i)
    pairs.push_back({tokenizer.encode(text.sources[i]), tokenizer.encode(text.targets[i])});
  return std::make_unique<PairDataset>(std::move(pairs),
                                       PairOptions{.context = limit,
                                                   .overlong = Overlong::cut,
                                                   .source_path = text.source_path,
                                                   .target_path = text.target_path});
}

ParallelCorpus sentences(const TaskSetup& setup) {
  const Config& config = setup.config;
  std::optional<ParallelText> training;
  if (setup.needs_data || setup.metadata.empty()) training = load(config, training_split);
  const auto tokenizer = std::make_shared<const BytePairTokenizer>(
      setup.metadata.empty()
          ? make_tokenizer(config, *training)
          : BytePairTokenizer::from_json(setup.metadata.at("tokenizer"), "the checkpoint"));
  ParallelCorpus corpus{
      .vocabulary = tokenizer->size(),
      .context = config[context],
      .encode = [tokenizer](std::string_view line) { return tokenizer->encode(line); },
      .decode = [tokenizer](std::span<const std::int32_t> t) { return tokenizer->decode(t); },
      .metadata = {{"tokenizer", tokenizer->to_json()}}};
  if (!training) return corpus;
  corpus.training = encoded(*training, *tokenizer, corpus.context);
  corpus.validation = encoded(load(config, validation_split), *tokenizer, corpus.context);
  return corpus;
}

std::span<const std::int32_t> tokens_of(const Array& array) { return array.values<std::int32_t>(); }

ParallelCorpus read_pairs(const TaskSetup& setup) {
  switch (setup.config[kind]) {
    case Kind::dates:
      return dates(setup.config);
    case Kind::text:
      return sentences(setup);
  }
  throw_unhandled(kind);
}

EncoderDecoder make_model(const Config& config, const ParallelCorpus& corpus) {
  Random init(seed_of(config), Stream::init);
  return EncoderDecoder(encoder_decoder_options(config, corpus.vocabulary, corpus.context), init);
}

const RegisterTask<Translation> registered{"translation", "an encoder-decoder transformer", keys};

}  // namespace

Translation::Translation(const TaskSetup& setup)
    : config_(setup.config), corpus_(read_pairs(setup)), model_(make_model(config_, corpus_)) {}

Order Translation::order() const {
  return config_[kind] == Kind::text ? Order::similar_lengths : Order::shuffled;
}

Loss Translation::loss(const Batch& batch, const Pass& pass) {
  Random* noise = pass.training ? pass.noise : nullptr;
  const auto& [source, padding] = batch.part<SourceTokens>();
  const EncoderDecoder::EncodedSource encoded = model_.encode(source, padding, noise);
  const Tensor logits = model_.decode(batch.inputs, encoded, noise);
  const double smoothing = pass.training ? config_[label_smoothing] : 0;
  const Tensor total =
      cross_entropy(logits, batch.targets,
                    {.ignore_index = ignored_target, .label_smoothing = smoothing, .mean = false});
  Loss loss{total, {{"loss", {total.item(), batch.count}}}};
  if (!pass.training) loss.transcript = transcript(batch);
  return loss;
}

void Translation::derive(Metrics& metrics) const {
  metrics["perplexity"] = std::exp(metrics.at("loss"));
}

void Translation::judge(const Transcript& transcript, Metrics& metrics) const {
  double equal = 0;
  for (std::size_t i = 0; i < transcript.written.size(); ++i)
    equal += transcript.written[i] == transcript.wanted[i];
  metrics["exact_match"] = equal / static_cast<double>(transcript.written.size());
  if (config_[kind] == Kind::text)
    metrics["bleu"] = corpus_bleu(transcript.written, transcript.wanted).score;
}

TranslateOptions Translation::decoding() const {
  return {.beams = config_[beams], .begin = bos_token, .end = eos_token};
}

Transcript Translation::transcript(const Batch& batch) const {
  Transcript transcript;
  const auto& [source, padding] = batch.part<SourceTokens>();
  for (const auto& tokens : translate(model_, source, padding, decoding()))
    transcript.written.push_back(corpus_.decode(tokens));
  const std::int64_t T = batch.targets.dim(1);
  const auto targets = tokens_of(batch.targets);
  for (std::int64_t b = 0; b < batch.targets.dim(0); ++b)
    transcript.wanted.push_back(corpus_.decode(without_ignored(targets.subspan(b * T, T))));
  return transcript;
}

}  // namespace tapestry
