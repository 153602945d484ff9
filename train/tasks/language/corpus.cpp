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

const Key<std::int64_t> names_held_back{
    "data.held_back",
    1000,
    "approximate number of validation names, at most a tenth of all",
    {.low = 1, .high = 1e9, .used_if = {key::corpus_kind.is(CorpusKind::names)}}};

// Returns a corpus with the tokenizer of a trained model, if there is one, and without data.
Corpus remembered(const TaskSetup& setup) {
  if (setup.metadata.contains("tokenizer")) {
    Corpus corpus = by_byte_pairs(
        setup.config,
        BytePairTokenizer::from_json(setup.metadata.at("tokenizer"), "the checkpoint"),
        setup.metadata.at("tokenizer"));
    if (setup.metadata.contains(chat_template_name))
      set_template(corpus, *kept_chat_template(setup.metadata));
    return corpus;
  }
  if (setup.metadata.empty()) return {};
  return by_characters(CharVocabulary(
      JsonValue::parse(kept_value(setup.metadata, "vocabulary")).get<std::vector<std::string>>()));
}

Corpus read_names(const TaskSetup& setup, Corpus corpus) {
  const Config& config = setup.config;
  const std::string& path = text_path(config);
  const NameList list = setup.whole_data ? load_names(path, false, 1) : load_names(path);
  config.expect(list.longest < config[key::context], key::context,
                "{} has a name of {} characters; expected a context of at least {}", list.path,
                list.longest, list.longest + 1);
  if (!corpus.tokenizer) corpus = by_characters(name_vocabulary(list));
  config.expect(corpus.has_characters, key::corpus_kind,
                "the model reads byte pairs; names need a character-level model");
  if (setup.whole_data) {
    corpus.validation =
        std::make_unique<NameDataset>(encode_names(list, *corpus.tokenizer->characters()));
    return corpus;
  }
  NameSplits splits = split_names(list, *corpus.tokenizer->characters(),
                                  {.held_back = config[names_held_back],
                                   .seed = seed_of(config),
                                   .rules = config[key::data_rules]});
  if (splits.moved > 0) corpus.remark = moved_to_empty_split(splits.moved, "name");
  corpus.training = std::make_unique<NameDataset>(std::move(splits.train));
  corpus.validation = std::make_unique<NameDataset>(std::move(splits.test));
  return corpus;
}

}  // namespace

Corpus by_characters(CharVocabulary symbols) {
  std::map<std::string, std::string> metadata = {
      {"vocabulary", JsonValue(symbols.symbols()).dump()}};
  return {.tokenizer = std::make_shared<const CharVocabulary>(std::move(symbols)),
          .has_characters = true,
          .metadata = std::move(metadata)};
}

Corpus by_byte_pairs(const Config& config, BytePairTokenizer tokenizer,
                     std::optional<std::string> json) {
  if (!config[key::begin_of_text] && !tokenizer.before_text().empty()) {
    tokenizer.leave_out_before_text();
    json.reset();
  }
  if (!json) json = tokenizer.to_json();
  const auto begin = tokenizer.before_text();
  std::vector<std::int32_t> before;
  if (config[key::data_rules] >= 2) before.assign(begin.begin(), begin.end());
  const auto end = with_keys(config, {{"end_of_text", key::end_of_text}},
                             [&] { return end_of_text_of(tokenizer, config[key::end_of_text]); });
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

BytePairTokenizer chosen_tokenizer(const Config& config, std::span<const std::string> texts,
                                   const std::vector<std::string>& special) {
  if (config[key::tokenizer] != train_tokenizer)
    return BytePairTokenizer::load(config[key::tokenizer]);
  return with_keys(config, {{"vocabulary", key::trained_vocabulary, "raise this value"}}, [&] {
    return BytePairTokenizer::train(
        texts, {.vocabulary = config[key::trained_vocabulary], .special_tokens = special});
  });
}

std::string moved_to_empty_split(std::int64_t moved, const char* noun) {
  return counted(moved, noun) + " moved to a split that was empty";
}

const std::string& text_path(const Config& config) {
  if (is_pattern(config[key::data_path])) return config[key::data_path];
  return key::required_path(
      config, "no text", std::string(plain_text_files) + ", or shards, with --set data.path=FILE");
}

std::int64_t training_share(const Config& config, std::int64_t n) {
  return n -
         static_cast<std::int64_t>(static_cast<double>(n) * config[key::text_validation_fraction]);
}

std::int64_t vocabulary_of(const Config& config, const Tokenizer& tokenizer) {
  const std::int64_t rows = config[key::vocabulary];
  config.expect(rows == 0 || rows >= tokenizer.size(), key::vocabulary,
                "expected at least {}, the number of tokens", tokenizer.size());
  return rows == 0 ? tokenizer.size() : rows;
}

std::vector<KeyInfo> corpus_keys() {
  return {key::corpus_kind, key::text_validation_fraction,
          key::tokenizer,   key::trained_vocabulary,
          key::end_of_text, key::begin_of_text,
          names_held_back,  key::chat_template,
          key::packing,     key::data_source,
          key::context};
}

Corpus read_corpus(const TaskSetup& setup) {
  Corpus known = remembered(setup);
  if (!setup.needs_data && known.tokenizer) return known;
  switch (setup.config[key::corpus_kind]) {
    case CorpusKind::text: {
      if (setup.assumes_text && assumed_text(setup.config))
        return assume_text(setup.config, std::move(known));
      Config config = setup.config;
      if (setup.whole_data) config.set(key::text_validation_fraction, 1.0);
      return read_text_corpus(config, std::move(known));
    }
    case CorpusKind::names:
      return read_names(setup, std::move(known));
    case CorpusKind::conversations:
      return read_conversations(setup, std::move(known));
  }
  throw_unhandled(key::corpus_kind);
}

}  // namespace tapestry
