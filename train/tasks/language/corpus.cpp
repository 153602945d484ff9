#include "train/tasks/language/corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "data/json.hpp"
#include "data/text/conversation_dataset.hpp"
#include "data/text/names.hpp"
#include "data/text/text.hpp"
#include "data/text/text_encoder.hpp"
#include "data/text/token_shards.hpp"
#include "data/text/unicode.hpp"
#include "data/validation_split.hpp"
#include "train/config/keys.hpp"
#include "train/config/option_keys.hpp"
#include "train/tasks/language/kept_chat_template.hpp"

namespace tapestry {
namespace {

const Key<double> validation_fraction{"data.validation_fraction",
                                      0.1,
                                      "share to validate on: the end of a text, or conversations",
                                      {.low = 0, .high = 0.9, .used_if = {key::of_tokens}}};
constexpr const char* to_train = "train";
const Key<std::int64_t> vocabulary{
    "data.vocabulary",
    1024,
    "tokens of a tokenizer to train",
    {.low = 257, .high = 1e6, .used_if = {key::of_tokens, key::tokenizer.is(to_train)}}};
const Key<std::string> chat_template_key{
    "data.template",
    "",
    "of conversations: \"chatml\", \"llama3\", or a text with {role} and {content}, or {user} and "
    "{assistant}; empty: the tokenizer's own",
    {.used_if = {key::corpus_kind.is(CorpusKind::conversations)}}};
const Key<std::int64_t> names_held_back{
    "data.held_back",
    1000,
    "names to validate on, but a tenth of them at most",
    {.low = 1, .high = 1e9, .used_if = {key::corpus_kind.is(CorpusKind::names)}}};

// --- tokenizers ---

Corpus by_characters(CharVocabulary symbols) {
  std::map<std::string, std::string> metadata = {
      {"vocabulary", JsonValue(symbols.symbols()).dump()}};
  return {.tokenizer = std::make_shared<const CharVocabulary>(std::move(symbols)),
          .has_characters = true,
          .metadata = std::move(metadata)};
}

// `json`: the tokenizer.json that it is, as it was written.
Corpus by_byte_pairs(const Config& config, BytePairTokenizer tokenizer, std::string json) {
  const auto end = with_keys(config, {{"end_of_text", key::end_of_text}},
                             [&] { return end_of_text_of(tokenizer, config[key::end_of_text]); });
  return {.tokenizer = std::make_shared<const BytePairTokenizer>(std::move(tokenizer)),
          .end_of_text = end,
          .metadata = {{"tokenizer", std::move(json)}}};
}

const BytePairTokenizer& byte_pairs_of(const Corpus& corpus) {
  return dynamic_cast<const BytePairTokenizer&>(*corpus.tokenizer);
}

// With the template in which conversations are written, which the checkpoint keeps.
void set_template(Corpus& corpus, const ChatTemplate& chat_template) {
  const ChatEncoder encoder(byte_pairs_of(corpus), chat_template, corpus.end_of_text);
  corpus.end_of_answer = encoder.end_of_answer();
  corpus.metadata[chat_template_name] = to_json(chat_template);
}

// That of a model which was trained before; without a tokenizer where there was none.
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
      JsonValue::parse(setup.metadata.at("vocabulary")).get<std::vector<std::string>>()));
}

// --- texts and shards ---

const std::string& path_of(const Config& config) {
  if (is_pattern(config[key::data_path])) return config[key::data_path];
  return key::required_path(
      config, "no text to learn from",
      text_formats().help() + ", or a folder of shards with --set data.path=FILE");
}

// The first `training` tokens to learn from, the others to validate on.
void split(Corpus& corpus, const Config& config, std::shared_ptr<const TokenStream> tokens,
           std::int64_t training) {
  const auto part = [&](std::int64_t begin, std::int64_t end, Windows windows, const char* name) {
    return with_keys(
        config,
        {{"context", key::context, "lower it or data.validation_fraction, or give a longer text"},
         {"end", validation_fraction, "raise it, or give a longer text"}},
        [&] {
          return std::make_unique<TextDataset>(tokens, TextRange{.begin = begin,
                                                                 .end = end,
                                                                 .context = config[key::context],
                                                                 .windows = windows,
                                                                 .path = config[key::data_path],
                                                                 .split = name});
        });
  };
  corpus.training = part(0, training, Windows::overlapping, "train");
  corpus.validation = part(training, tokens->size(), Windows::consecutive, "validation");
}

// What is left of n without the share to validate on.
std::int64_t training_share(const Config& config, std::int64_t n) {
  return n - static_cast<std::int64_t>(static_cast<double>(n) * config[validation_fraction]);
}

std::vector<Text> load_texts(const Config& config) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  std::vector<Text> texts;
  std::int64_t bytes = 0;
  for (const std::string& file : text_files(path_of(config))) {
    texts.push_back(load_text(file));
    bytes += std::ssize(texts.back().content);
    config.expect(
        bytes <= most_bytes, key::data_path,
        "more than 1 GiB of text; make shards of it with `tapestry tokens`, which are read "
        "as they lie on the disk");
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

Corpus read_characters(const Config& config, Corpus corpus) {
  const std::vector<Text> texts = load_texts(config);
  if (!corpus.tokenizer) corpus = by_characters(characters_of(texts));
  std::vector<std::int32_t> tokens;
  for (const Text& text : texts) try {
      const std::vector<std::int32_t> encoded = corpus.tokenizer->encode(text.content);
      tokens.insert(tokens.end(), encoded.begin(), encoded.end());
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", text.path, error.what()));
    }
  const std::int64_t training = training_share(config, std::ssize(tokens));
  split(corpus, config, std::make_shared<const TokensInMemory>(std::move(tokens)), training);
  return corpus;
}

BytePairTokenizer chosen_tokenizer(const Config& config, std::span<const std::string> texts,
                                   const std::vector<std::string>& special = {"<|endoftext|>"}) {
  if (config[key::tokenizer] != to_train) return BytePairTokenizer::load(config[key::tokenizer]);
  return with_keys(config, {{"vocabulary", vocabulary, "raise it"}}, [&] {
    return BytePairTokenizer::train(texts,
                                    {.vocabulary = config[vocabulary], .special_tokens = special});
  });
}

// Split by bytes of text, before any tokenizer is trained: one that is sees nothing of what is
// validated on, and every tokenizer is measured on the same text.
Corpus read_byte_pairs(const Config& config, Corpus corpus) {
  std::vector<Text> texts = load_texts(config);
  std::int64_t bytes = 0;
  for (const Text& text : texts) bytes += std::ssize(text.content);
  const CutTexts cut = cut_texts(std::move(texts), training_share(config, bytes));
  if (!corpus.tokenizer) {
    BytePairTokenizer tokenizer = chosen_tokenizer(config, cut.before);
    std::string json = tokenizer.to_json();
    corpus = by_byte_pairs(config, std::move(tokenizer), std::move(json));
  }
  std::vector<std::int32_t> tokens;
  const auto encode = [&](const std::vector<std::string>& parts, bool last_goes_on) {
    TextEncoder encoder(byte_pairs_of(corpus), {.end_of_text = corpus.end_of_text},
                        [&](std::span<const std::int32_t> more) {
                          tokens.insert(tokens.end(), more.begin(), more.end());
                        });
    for (const std::string& part : parts) {
      encoder.add(part);
      const bool continues = last_goes_on && &part == &parts.back();
      continues ? encoder.pause_text() : encoder.end_text();
    }
    encoder.finish();
    return std::ssize(tokens);
  };
  const std::int64_t training = encode(cut.before, cut.cuts_a_text);
  encode(cut.after, false);
  split(corpus, config, std::make_shared<const TokensInMemory>(std::move(tokens)), training);
  return corpus;
}

Corpus read_shards(const Config& config, const Corpus& known) {
  const auto shards = std::make_shared<const TokenShards>(path_of(config));
  const std::string path = shards->folder() + "/" + TokenShards::tokenizer_name;
  auto tokenizer = BytePairTokenizer::from_json(shards->tokenizer_json(), path);
  const std::string own = tokenizer.to_json();
  Corpus corpus = by_byte_pairs(config, std::move(tokenizer), shards->tokenizer_json());
  expect_input(corpus.tokenizer->size() == shards->vocabulary(),
               "{}: {} tokens, the shards beside it are of {}; make them again", path,
               corpus.tokenizer->size(), shards->vocabulary());
  if (known.tokenizer) {
    const auto* models = dynamic_cast<const BytePairTokenizer*>(known.tokenizer.get());
    config.expect(models && models->to_json() == own, key::data_path,
                  "shards of another tokenizer than the model's; make them with the model's own");
  } else if (const std::string& wanted = config[key::tokenizer]; !wanted.empty()) {
    config.expect(wanted != to_train, key::tokenizer,
                  "{} holds shards, which have a tokenizer; leave it out", shards->folder());
    config.expect(BytePairTokenizer::load(wanted).to_json() == own, key::tokenizer,
                  "{} holds shards of another tokenizer; leave it out, or make them "
                  "again",
                  shards->folder());
  }
  constexpr std::int64_t soon_compared = std::int64_t{1} << 30;  // more of it when it is used
  if (shards->stored_bytes() <= soon_compared) shards->verify();
  split(corpus, config, shards, training_share(config, shards->size()));
  return corpus;
}

Corpus read_text(const Config& config, Corpus known) {
  if (holds_shards(config[key::data_path])) return read_shards(config, known);
  const bool characters = known.tokenizer ? known.has_characters : config[key::tokenizer].empty();
  return characters ? read_characters(config, std::move(known))
                    : read_byte_pairs(config, std::move(known));
}

// --- a text that is missing ---

// About as long as tiny Shakespeare, and of as many kinds of characters.
constexpr std::int64_t assumed_characters = 1000000, assumed_symbols = 65;

// So many different tokens, of any characters, for one whose number alone is known.
CharVocabulary made_up_vocabulary(std::int64_t size) {
  constexpr char32_t first = 0x10000;  // from where on there are enough
  std::vector<std::string> symbols(size);
  for (std::int64_t i = 0; i < size; ++i) append_utf8(symbols[i], first + static_cast<char32_t>(i));
  return CharVocabulary(std::move(symbols));
}

Corpus assume_text(const Config& config, Corpus corpus) {
  const std::string& tokenizer = config[key::tokenizer];
  if (!corpus.tokenizer && (tokenizer.empty() || tokenizer == to_train))
    corpus =
        by_characters(made_up_vocabulary(tokenizer.empty() ? assumed_symbols : config[vocabulary]));
  if (!corpus.tokenizer) {
    BytePairTokenizer loaded = BytePairTokenizer::load(tokenizer);
    std::string json = loaded.to_json();
    corpus = by_byte_pairs(config, std::move(loaded), std::move(json));
  }
  std::vector<std::int32_t> tokens(assumed_characters);
  const std::int64_t training = training_share(config, std::ssize(tokens));
  split(corpus, config, std::make_shared<const TokensInMemory>(std::move(tokens)), training);
  return corpus;
}

// --- conversations ---

// What is learnt from, and what is validated on, file by file.
struct ConversationSplits {
  std::vector<ConversationList> training{}, validation{};
};

std::vector<ConversationList> load_lists(const Config& config) {
  const std::string& path =
      is_pattern(config[key::data_path])
          ? config[key::data_path]
          : key::required_path(config, "no file of conversations",
                               "one, as JSONL, or several by a pattern, with --set data.path=FILE");
  std::vector<ConversationList> lists;
  for (const std::string& file : is_pattern(path) ? text_files(path) : std::vector{path})
    lists.push_back(load_conversations(file));
  return lists;
}

// Whole conversations are held back: at least one, and not all.
ConversationSplits split_conversations(const Config& config) {
  std::vector<ConversationList> lists = load_lists(config);
  std::int64_t count = 0;
  for (const ConversationList& list : lists) count += std::ssize(list.conversations);
  config.expect(count >= 2, key::data_path,
                "holds one conversation; expected at least 2, for one is to validate on");
  const std::int64_t wanted = count - training_share(config, count);
  const std::vector<std::int64_t> chosen =
      validation_examples(count, std::clamp<std::int64_t>(wanted, 1, count - 1));
  ConversationSplits splits;
  std::int64_t number = 0;
  for (ConversationList& list : lists) {
    ConversationList training{.path = list.path}, validation{.path = list.path};
    for (Conversation& conversation : list.conversations) {
      const bool held = std::ranges::binary_search(chosen, number++);
      (held ? validation : training).conversations.push_back(std::move(conversation));
    }
    splits.training.push_back(std::move(training));
    splits.validation.push_back(std::move(validation));
  }
  return splits;
}

// That of the config; else the model's own, or that beside the tokenizer.
ChatTemplate chosen_template(const TaskSetup& setup) {
  const Config& config = setup.config;
  const std::string& text = config[chat_template_key];
  constexpr const char* advice = "set it to \"chatml\", \"llama3\" or a text";
  std::optional<ChatTemplate> chosen;
  try {
    if (!text.empty()) return read_chat_template(text);
    chosen = kept_chat_template(setup.metadata);
    if (!chosen && config[key::tokenizer] != to_train)
      chosen = chat_template_beside(config[key::tokenizer]);
  } catch (const InputError& error) {
    config.expect(!text.empty(), chat_template_key, "{}; {}", error.what(), advice);
    config.expect(false, chat_template_key, "{}", error.what());
  }
  config.expect(chosen.has_value(), chat_template_key, "the tokenizer has no chat template; {}",
                advice);
  return *chosen;
}

// With a tokenizer, of what is learnt from where one is to be trained.
Corpus with_tokenizer(const Config& config, Corpus corpus, const ChatTemplate& chat_template,
                      const std::vector<ConversationList>& lists) {
  config.expect(!corpus.has_characters, key::corpus_kind,
                "the model reads characters; conversations need byte pairs");
  config.expect(corpus.tokenizer || !config[key::tokenizer].empty(), key::tokenizer,
                "conversations are of byte pairs: set it to \"train\", or to a tokenizer.json");
  if (corpus.tokenizer) return corpus;
  std::vector<std::string> texts;
  if (config[key::tokenizer] == to_train)
    for (const ConversationList& list : lists)
      for (const Conversation& conversation : list.conversations)
        for (const Message& message : conversation.messages) texts.push_back(message.content);
  std::vector<std::string> special = {"<|endoftext|>"};
  for (const std::string& name : special_names(chat_template))
    if (name != special.front()) special.push_back(name);
  BytePairTokenizer tokenizer = chosen_tokenizer(config, texts, special);
  std::string json = tokenizer.to_json();
  return by_byte_pairs(config, std::move(tokenizer), std::move(json));
}

struct ConversationCounts {
  std::int64_t read = 0, cut = 0, dropped = 0;
};

std::unique_ptr<ConversationDataset> make_conversations(const Config& config,
                                                        const ChatEncoder& encoder,
                                                        const std::vector<ConversationList>& lists,
                                                        const char* split,
                                                        ConversationCounts& counts) {
  const std::int64_t context = config[key::context];
  std::vector<EncodedConversation> all;
  for (const ConversationList& list : lists) {
    EncodedConversations encoded = encode_conversations(list, encoder, context);
    counts.read += std::ssize(list.conversations);
    counts.cut += encoded.cut;
    counts.dropped += encoded.dropped;
    std::ranges::move(encoded.all, std::back_inserter(all));
  }
  config.expect(!all.empty(), key::context,
                "no conversation of the {} split has an answer within so many tokens; raise it",
                split);
  return std::make_unique<ConversationDataset>(
      std::move(all), ConversationOptions{.context = context, .packing = config[key::packing]});
}

std::string remark_on(const ConversationCounts& counts, std::int64_t context) {
  if (counts.cut + counts.dropped == 0) return "";
  return fmt::format(
      "of {} conversations {} are longer than model.context = {} and are cut there, and {} have "
      "nothing left to learn and are left out",
      counts.read, counts.cut, context, counts.dropped);
}

Corpus read_conversations(const TaskSetup& setup, Corpus corpus) {
  const Config& config = setup.config;
  const ChatTemplate chat_template = chosen_template(setup);
  const ConversationSplits splits = split_conversations(config);
  corpus = with_tokenizer(config, std::move(corpus), chat_template, splits.training);
  try {
    set_template(corpus, chat_template);
  } catch (const InputError& error) {
    config.expect(false, chat_template_key, "{}", error.what());
  }
  const ChatEncoder encoder(byte_pairs_of(corpus), chat_template, corpus.end_of_text);
  ConversationCounts counts;
  corpus.training = make_conversations(config, encoder, splits.training, "training", counts);
  corpus.validation = make_conversations(config, encoder, splits.validation, "validation", counts);
  corpus.remark = remark_on(counts, config[key::context]);
  return corpus;
}

// --- names ---

Corpus read_names(const Config& config, Corpus corpus) {
  const NameList list = load_names(path_of(config));
  config.expect(list.longest < config[key::context], key::context,
                "{} has a name of {} characters: expected at least {}", list.path, list.longest,
                list.longest + 1);
  if (!corpus.tokenizer) corpus = by_characters(name_vocabulary(list));
  NameSplits splits = split_names(list, dynamic_cast<const CharVocabulary&>(*corpus.tokenizer),
                                  {.held_back = config[names_held_back], .seed = seed_of(config)});
  corpus.training = std::make_unique<NameDataset>(std::move(splits.train));
  corpus.validation = std::make_unique<NameDataset>(std::move(splits.test));
  return corpus;
}

}  // namespace

std::vector<KeyInfo> corpus_keys() {
  return {key::corpus_kind, validation_fraction, key::tokenizer, vocabulary,       key::end_of_text,
          names_held_back,  chat_template_key,   key::packing,   key::data_source, key::context};
}

std::optional<std::string> assumed_text(const Config& config) {
  if (config[key::task] != "language-model" || config[key::corpus_kind] != CorpusKind::text)
    return {};
  const std::string& path = config[key::data_path];
  std::error_code unknown;
  if (!path.empty() && (is_pattern(path) || std::filesystem::exists(path, unknown))) return {};
  const std::string missing =
      path.empty() ? "names no text" : fmt::format("{} is missing", printable_beginning(path));
  const std::string& tokenizer = config[key::tokenizer];
  return fmt::format(
      "{}: {}; assumed a text of {} {}", key::data_path.name, missing, assumed_characters,
      tokenizer.empty() ? fmt::format("characters, {} of them different", assumed_symbols)
                        : "tokens");
}

Corpus read_corpus(const TaskSetup& setup) {
  Corpus known = remembered(setup);
  if (!setup.needs_data && known.tokenizer) return known;
  switch (setup.config[key::corpus_kind]) {
    case CorpusKind::text:
      if (setup.assumes_text && assumed_text(setup.config))
        return assume_text(setup.config, std::move(known));
      return read_text(setup.config, std::move(known));
    case CorpusKind::names:
      return read_names(setup.config, std::move(known));
    case CorpusKind::conversations:
      return read_conversations(setup, std::move(known));
  }
  throw_unhandled(key::corpus_kind);
}

}  // namespace tapestry
