#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "data/text/text_encoder.hpp"
#include "data/text/token_shards.hpp"
#include "data/text/unicode.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {
namespace {

// Sets the data sets: the first `training` tokens are for training, the rest for validation. If
// that is all of the data, there is no training split.
void set_splits(Corpus& corpus, const Given<CorpusSettings>& given,
                std::shared_ptr<const TokenStream> tokens, std::int64_t training) {
  const bool is_whole = given.validation_fraction == 1;
  const auto part = [&](std::int64_t begin, std::int64_t end, Windows windows, const char* name) {
    return given.checked(
        [&] {
          return std::make_unique<TextDataset>(tokens, TextRange{.begin = begin,
                                                                 .end = end,
                                                                 .context = given.context,
                                                                 .windows = windows,
                                                                 .path = given.path,
                                                                 .split = name});
        },
        {{"end", is_whole ? "path" : "validation_fraction"}});
  };
  if (!is_whole) corpus.training = part(0, training, Windows::overlapping, "train");
  corpus.validation = part(training, tokens->size(), Windows::consecutive, "validation");
}

std::vector<Text> load_texts(const Given<CorpusSettings>& given) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  std::vector<Text> texts;
  std::int64_t bytes = 0;
  for (const std::string& file : text_files(text_path(given, or_shards))) {
    texts.push_back(load_text(file));
    bytes += std::ssize(texts.back().content);
    given.expect(bytes <= most_bytes, "path",
                 "the text has more than 1 GiB; convert it to token shards with `tapestry tokens`, "
                 "which are read in constant memory");
  }
  return texts;
}

CharVocabulary characters_of(const std::vector<Text>& texts) {
  std::string all;
  for (const Text& text : texts) {
    const CharVocabulary own = CharVocabulary::of_text(text.content);
    for (const std::string& symbol : own.symbols()) all += symbol;
  }
  return CharVocabulary::of_text(all);
}

Corpus read_characters(const Given<CorpusSettings>& given, Corpus corpus) {
  const std::vector<Text> texts = load_texts(given);
  if (!corpus.tokenizer) corpus = by_characters(characters_of(texts));
  std::vector<std::int32_t> tokens;
  for (const Text& text : texts) try {
      const std::vector<std::int32_t> encoded = corpus.tokenizer->encode(text.content);
      tokens.insert(tokens.end(), encoded.begin(), encoded.end());
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", text.path, error.what()));
    }
  const std::int64_t training = training_share(given, std::ssize(tokens));
  set_splits(corpus, given, std::make_shared<const TokensInMemory>(std::move(tokens)), training);
  return corpus;
}

// Reads a text with a byte-pair tokenizer. The text is split by bytes first, so that the tokenizer
// is not trained on the validation split, and every tokenizer is evaluated on the same text.
Corpus read_byte_pairs(const Given<CorpusSettings>& given, Corpus corpus) {
  std::vector<Text> texts = load_texts(given);
  std::int64_t bytes = 0;
  for (const Text& text : texts) bytes += std::ssize(text.content);
  const CutTexts cut = cut_texts(std::move(texts), training_share(given, bytes));
  if (!corpus.tokenizer)
    corpus =
        by_byte_pairs(given, given.checked([&] { return chosen_tokenizer(given, cut.before); }));
  std::vector<std::int32_t> tokens;
  const auto encode = [&](const std::vector<std::string>& parts, bool continues,
                          bool last_goes_on) {
    TextEncoder encoder(byte_pairs_of(corpus),
                        {.begin_of_text = corpus.begin_of_text,
                         .end_of_text = corpus.end_of_text,
                         .continues = continues},
                        [&](std::span<const std::int32_t> more) {
                          tokens.insert(tokens.end(), more.begin(), more.end());
                        });
    for (const std::string& part : parts) {
      encoder.add(part);
      const bool goes_on = last_goes_on && &part == &parts.back();
      goes_on ? encoder.pause_text() : encoder.end_text();
    }
    encoder.finish();
    return std::ssize(tokens);
  };
  const std::int64_t training = encode(cut.before, false, cut.cuts_a_text);
  encode(cut.after, cut.cuts_a_text, false);
  set_splits(corpus, given, std::make_shared<const TokensInMemory>(std::move(tokens)), training);
  return corpus;
}

Corpus read_shards(const Given<CorpusSettings>& given, const Corpus& known) {
  const auto shards = std::make_shared<const TokenShards>(text_path(given, or_shards));
  const std::string path = shards->folder() + "/" + TokenShards::tokenizer_name;
  auto tokenizer = BytePairTokenizer::from_json(shards->tokenizer_json(), path);
  const std::string written = tokenizer.to_json();
  Corpus corpus = by_byte_pairs(given, std::move(tokenizer), shards->tokenizer_json());
  const std::string own = byte_pairs_of(corpus).to_json();
  expect_input(
      corpus.tokenizer->size() == shards->vocabulary(),
      "{}: {} tokens, but the shards in the same folder have a vocabulary of {}; create the shards "
      "again",
      path, corpus.tokenizer->size(), shards->vocabulary());
  if (known.tokenizer) {
    const BytePairTokenizer* models = known.tokenizer->byte_pairs();
    given.expect(models && models->to_json() == own, "path",
                 "the shards have another tokenizer than the model; create shards with the "
                 "model's tokenizer");
  } else if (const std::string& wanted = given.tokenizer; !wanted.empty()) {
    given.expect(wanted != train_tokenizer, "tokenizer",
                 "{} contains shards, which have a tokenizer; leave out this key",
                 shards->folder());
    given.expect(
        BytePairTokenizer::load(wanted).to_json() == written, "tokenizer",
        "{} contains shards of another tokenizer; leave out this key, or create the shards again",
        shards->folder());
  }
  const bool begins = shards->begins_documents();
  given.expect(begins == !corpus.begin_of_text.empty(),
               given.rules == 2 ? "begin_of_text" : "rules",
               "the documents in the shards {} with begin-of-text tokens; create the shards again "
               "with `tapestry tokens{}`",
               begins ? "begin" : "do not begin", begins ? " --no-begin-of-text" : "");
  constexpr std::int64_t soon_compared = std::int64_t{1}
                                         << 30;  // larger shards are checked when they are read
  if (shards->stored_bytes() <= soon_compared) shards->verify();
  set_splits(corpus, given, shards, training_share(given, shards->size()));
  return corpus;
}

// The assumed number of characters, and of different characters: those of tiny Shakespeare.
constexpr std::int64_t assumed_characters = 1000000, assumed_symbols = 65;

// Returns a vocabulary of `size` arbitrary characters, in place of a tokenizer of which only the
// size is known.
CharVocabulary made_up_vocabulary(std::int64_t size) {
  constexpr char32_t first = 0x10000;  // enough characters follow this one
  std::vector<std::string> symbols(size);
  for (std::int64_t i = 0; i < size; ++i) append_utf8(symbols[i], first + static_cast<char32_t>(i));
  return CharVocabulary(std::move(symbols));
}

}  // namespace

Corpus read_text_corpus(const Given<CorpusSettings>& given, Corpus known) {
  if (holds_shards(given.path)) return read_shards(given, known);
  const bool characters = known.tokenizer ? known.has_characters : given.tokenizer.empty();
  return characters ? read_characters(given, std::move(known))
                    : read_byte_pairs(given, std::move(known));
}

void detect_begin_of_text(Config& config) {
  Given<CorpusSettings> given = corpus_settings.of(config);
  if (!config.has("data.begin_of_text") || given.kind != CorpusKind::text ||
      !holds_shards(given.path))
    return;
  given.begin_of_text = TokenShards(given.path).begins_documents();
  corpus_settings.detect(config, given, {"begin_of_text"});
}

Corpus assume_text(const Given<CorpusSettings>& given, Corpus corpus) {
  const std::string& tokenizer = given.tokenizer;
  if (!corpus.tokenizer && (tokenizer.empty() || tokenizer == train_tokenizer))
    corpus =
        by_characters(made_up_vocabulary(tokenizer.empty() ? assumed_symbols : given.vocabulary));
  if (!corpus.tokenizer) corpus = by_byte_pairs(given, BytePairTokenizer::load(tokenizer));
  std::vector<std::int32_t> tokens(assumed_characters);
  const std::int64_t training = training_share(given, std::ssize(tokens));
  set_splits(corpus, given, std::make_shared<const TokensInMemory>(std::move(tokens)), training);
  return corpus;
}

std::optional<std::string> assumed_text(const Config& config) {
  if (config[key::task] != "language-model") return {};
  const CorpusSettings settings = corpus_settings.of(config);
  if (settings.kind != CorpusKind::text) return {};
  if (!settings.path.empty() && (is_pattern(settings.path) || is_there(settings.path))) return {};
  const std::string missing =
      settings.path.empty() ? "is not set"
                            : fmt::format("{} is missing", printable_beginning(settings.path));
  return fmt::format(
      "{}: {}; assumed a text of {} {}", key::data_path.name, missing, assumed_characters,
      settings.tokenizer.empty() ? fmt::format("characters, {} of them different", assumed_symbols)
                                 : "tokens");
}

}  // namespace tapestry
