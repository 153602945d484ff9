#include "train/tasks/language/corpus.hpp"

#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "data/text/chat_encoder.hpp"
#include "data/text/names.hpp"
#include "data/text/text.hpp"
#include "data/text/text_encoder.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/language/kept_chat_template.hpp"

namespace tapestry {
namespace {

// Returns a corpus with the tokenizer of a trained model, if there is one, and without data.
Corpus remembered(const TaskSetup& setup, const Given<CorpusSettings>& given) {
  if (setup.metadata.contains("tokenizer")) {
    Corpus corpus = by_byte_pairs(
        given, BytePairTokenizer::from_json(setup.metadata.at("tokenizer"), "the checkpoint"),
        setup.metadata.at("tokenizer"));
    if (setup.metadata.contains(chat_template_name))
      set_template(corpus, *kept_chat_template(setup.metadata));
    return corpus;
  }
  if (setup.metadata.empty()) return {};
  return by_characters(CharVocabulary(
      JsonValue::parse(kept_value(setup.metadata, "vocabulary")).get<std::vector<std::string>>()));
}

Corpus read_names(const TaskSetup& setup, const Given<CorpusSettings>& given, Corpus corpus) {
  const std::string& path = text_path(given, or_shards);
  const NameList list = setup.whole_data ? load_names(path, false, 1) : load_names(path);
  given.expect(list.longest < given.context, "context",
               "{} has a name of {} characters; expected a context of at least {}", list.path,
               list.longest, list.longest + 1);
  if (!corpus.tokenizer) corpus = by_characters(name_vocabulary(list));
  given.expect(corpus.has_characters, "kind",
               "the model reads byte pairs; names need a character-level model");
  if (setup.whole_data) {
    corpus.validation =
        std::make_unique<NameDataset>(encode_names(list, *corpus.tokenizer->characters()));
    return corpus;
  }
  NameSplits splits =
      split_names(list, *corpus.tokenizer->characters(),
                  {.held_back = given.held_back, .seed = given.seed, .rules = given.rules});
  if (splits.moved > 0) corpus.remark = moved_to_empty_split(splits.moved, "name");
  corpus.training = std::make_unique<NameDataset>(std::move(splits.train));
  corpus.validation = std::make_unique<NameDataset>(std::move(splits.test));
  return corpus;
}

const Condition is_of_tokens = key_is("data.kind", "text", "conversations"),
                is_of_names = key_is("data.kind", "names"),
                is_of_conversations = key_is("data.kind", "conversations");

}  // namespace

const SettingsOf<CorpusSettings> corpus_settings = [] {
  using S = CorpusSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("data.kind", &S::kind,
          "texts or token shards, a name per line, or conversations as JSONL",
          {{"text", CorpusKind::text},
           {"names", CorpusKind::names},
           {"conversations", CorpusKind::conversations}}),
      Row(key::data_path, &S::path, "give a longer text"),
      Row(key::seed, &S::seed),
      Row(key::data_rules, &S::rules),
      Row("data.validation_fraction", &S::validation_fraction,
          "fraction of the data for validation: the end of a text, or conversations",
          {.low = 0,
           .high = 0.9,
           .used_if = {is_of_tokens},
           .advice = "raise this value, or give a longer text"}),
      Row("data.tokenizer", &S::tokenizer,
          "a tokenizer.json; \"train\": a tokenizer is trained on the text; empty: characters, or "
          "the shards' tokenizer",
          {.used_if = {is_of_tokens}}),
      Row("data.vocabulary", &S::vocabulary, "vocabulary size of a tokenizer that is trained",
          {.low = 257,
           .high = 1e6,
           .used_if = {is_of_tokens, key_is("data.tokenizer", train_tokenizer)},
           .advice = "raise this value"}),
      Row("data.end_of_text", &S::end_of_text,
          "token that ends a document; empty: the tokenizer's end-of-text token",
          {.used_if = {is_of_tokens}}),
      Row("data.begin_of_text", &S::begin_of_text,
          "begin each document with the tokens that the tokenizer's template puts before a text, "
          "if any",
          {.used_if = {is_of_tokens, key::data_rules.is(2)}}),
      Row("data.held_back", &S::held_back,
          "approximate number of validation names, at most a tenth of all",
          {.low = 1, .high = 1e9, .used_if = {is_of_names}}),
      Row("data.template", &S::chat_template,
          "chat template: \"chatml\", \"llama3\", or a text with {role} and {content}, or {user} "
          "and {assistant}; empty: the tokenizer's own",
          {.used_if = {is_of_conversations}}),
      Row("data.packing", &S::packing,
          "pack several conversations into a row of model.context tokens, without attention "
          "between them",
          {.used_if = {is_of_conversations}}),
      Row(key::data_source, &S::source),
      Row("model.context", &S::context,
          "context length: maximum number of tokens that the model reads",
          {.low = 1,
           .high = 1048576,
           .advice = "lower this value or data.validation_fraction, or give a longer text"})};
}();

Corpus by_characters(CharVocabulary symbols) {
  std::map<std::string, std::string> metadata = {
      {"vocabulary", JsonValue(symbols.symbols()).dump()}};
  return {.tokenizer = std::make_shared<const CharVocabulary>(std::move(symbols)),
          .has_characters = true,
          .metadata = std::move(metadata)};
}

Corpus by_byte_pairs(const Given<CorpusSettings>& given, BytePairTokenizer tokenizer,
                     std::optional<std::string> json) {
  if (!given.begin_of_text && !tokenizer.before_text().empty()) {
    tokenizer.leave_out_before_text();
    json.reset();
  }
  if (!json) json = tokenizer.to_json();
  const auto begin = tokenizer.before_text();
  std::vector<std::int32_t> before;
  if (given.rules >= 2) before.assign(begin.begin(), begin.end());
  const auto end = given.checked([&] { return end_of_text_of(tokenizer, given.end_of_text); });
  return {.tokenizer = std::make_shared<const BytePairTokenizer>(std::move(tokenizer)),
          .begin_of_text = std::move(before),
          .end_of_text = end,
          .metadata = {{"tokenizer", *std::move(json)}}};
}

const BytePairTokenizer& byte_pairs_of(const Corpus& corpus) {
  return *corpus.tokenizer->byte_pairs();
}

void set_template(Corpus& corpus, const ChatTemplate& chat_template) {
  const ChatEncoder encoder(byte_pairs_of(corpus), chat_template, corpus.end_of_text);
  corpus.end_of_answer = encoder.end_of_answer();
  corpus.metadata[chat_template_name] = to_json(chat_template);
}

BytePairTokenizer chosen_tokenizer(const TokenizerSettings& settings,
                                   std::span<const std::string> texts,
                                   const std::vector<std::string>& special) {
  if (settings.tokenizer != train_tokenizer) return BytePairTokenizer::load(settings.tokenizer);
  return BytePairTokenizer::train(texts,
                                  {.vocabulary = settings.vocabulary, .special_tokens = special});
}

std::string moved_to_empty_split(std::int64_t moved, const char* noun) {
  return counted(moved, noun) + " moved to a split that was empty";
}

std::int64_t training_share(const CorpusSettings& settings, std::int64_t n) {
  return n - static_cast<std::int64_t>(static_cast<double>(n) * settings.validation_fraction);
}

std::int64_t vocabulary_of(const Config& config, const Tokenizer& tokenizer) {
  const std::int64_t rows = config[key::vocabulary];
  config.expect(rows == 0 || rows >= tokenizer.size(), key::vocabulary,
                "expected at least {}, the number of tokens", tokenizer.size());
  return rows == 0 ? tokenizer.size() : rows;
}

Corpus read_corpus(const TaskSetup& setup) {
  Given<CorpusSettings> given = corpus_settings.of(setup.config);
  Corpus known = remembered(setup, given);
  if (!setup.needs_data && known.tokenizer) return known;
  switch (given.kind) {
    case CorpusKind::text:
      if (setup.assumes_text && assumed_text(setup.config))
        return assume_text(given, std::move(known));
      if (setup.whole_data) given.validation_fraction = 1;
      return read_text_corpus(given, std::move(known));
    case CorpusKind::names:
      return read_names(setup, given, std::move(known));
    case CorpusKind::conversations:
      return read_conversations(setup, given, std::move(known));
  }
  throw_unhandled(corpus_settings["kind"]);
}

}  // namespace tapestry
