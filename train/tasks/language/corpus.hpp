#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/chat_template.hpp"
#include "data/text/text.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"

// The data of a language model, by data.kind: texts or shards of tokens, a file of names, or files
// of conversations.
namespace tapestry {

enum class CorpusKind { text, names, conversations };

inline constexpr const char* or_shards = ", or shards";
inline constexpr const char* train_tokenizer =
    "train";  // the value of data.tokenizer that trains one

// How a tokenizer is chosen.
struct TokenizerSettings {
  std::string tokenizer{};         // a tokenizer.json, train_tokenizer, or empty
  std::int64_t vocabulary = 1024;  // of one that is trained
};

// The corpus of a config.
struct CorpusSettings : TokenizerSettings {
  CorpusKind kind = CorpusKind::text;
  std::string path{}, source{};
  std::uint64_t seed = 0;
  std::int64_t rules = 2;
  double validation_fraction = 0.1;  // 1: all data are the validation split
  std::string end_of_text{};         // empty: the tokenizer's
  bool begin_of_text = true;
  std::int64_t held_back = 1000;  // validation names
  std::string chat_template{};    // empty: the tokenizer's
  bool packing = true;            // several conversations in a row
  std::int64_t context = 64;
};

extern const SettingsOf<CorpusSettings> corpus_settings;

namespace key {
inline const Key<std::int64_t> vocabulary{
    "model.vocabulary", 0, "rows of the embedding; 0: one per token", {.low = 0, .high = 1e7}};
}  // namespace key

// A tokenizer and data sets of tokens.
struct Corpus {
  std::shared_ptr<const Tokenizer> tokenizer{};
  bool has_characters = false;                  // whether each token is one character
  std::vector<std::int32_t> begin_of_text{};    // the tokens that begin a document
  std::optional<std::int32_t> end_of_text{};    // the token that ends a document
  std::optional<std::int32_t> end_of_answer{};  // the token that ends the assistant's turn
  // Metadata of the tokenizer that a checkpoint stores.
  std::map<std::string, std::string> metadata{};
  // Null if data are not needed; with TaskSetup::whole_data there is only validation.
  std::unique_ptr<Dataset> training{}, validation{};
  std::string remark{};  // how the data were divided, and the part of them that is not used
};

// Returns how a path can be read: as text, names or conversations.
std::vector<Recognized> recognize_corpora(const UserData& data);

// Returns the number of rows of the embedding of tokens. Throws InputError if model.vocabulary is
// below the number of tokens.
std::int64_t vocabulary_of(const Config& config, const Tokenizer& tokenizer);

// Returns one line that says which text is missing and what a plan assumes instead; nothing if no
// text is missing, or if the task reads none.
std::optional<std::string> assumed_text(const Config& config);

// Returns the corpus, with the tokenizer of the checkpoint, or else that of the config or the data.
// Throws InputError for a file that is missing or invalid, a text that is too short, a name that is
// too long, a tokenizer that does not fit the data, or conversations without a chat template.
Corpus read_corpus(const TaskSetup& setup);

// --- functions of read_corpus (corpus.cpp) and of the readers of texts (text_corpus.cpp) and
// conversations (conversation_corpus.cpp) ---

// Returns a corpus with a character tokenizer and without data.
Corpus by_characters(CharVocabulary symbols);

// Sets data.begin_of_text of shards to what their documents begin with.
void detect_begin_of_text(Config& config);

// Returns a corpus with a byte-pair tokenizer and without data. Without data.begin_of_text, the
// tokenizer has no tokens before a text; under data.rules = 1, it has, but documents do not begin
// with them. `json` is the unchanged text of the
// tokenizer.json that the tokenizer was loaded from; none: the text that the tokenizer writes.
// Throws InputError if the tokenizer has no token data.end_of_text.
Corpus by_byte_pairs(const Given<CorpusSettings>& given, BytePairTokenizer tokenizer,
                     std::optional<std::string> json = {});
// Returns the tokenizer of a corpus, which must have byte pairs.
const BytePairTokenizer& byte_pairs_of(const Corpus& corpus);

// Sets the chat template, which a checkpoint stores, and the token that ends an answer. Throws
// InputError if the template does not fit the tokenizer.
void set_template(Corpus& corpus, const ChatTemplate& chat_template);

// Returns the tokenizer that is named, or trains one on the texts. Throws as
// BytePairTokenizer::load() and train() do.
BytePairTokenizer chosen_tokenizer(const TokenizerSettings& settings,
                                   std::span<const std::string> texts,
                                   const std::vector<std::string>& special = {"<|endoftext|>"});

// Returns data.path. Throws InputError if it is empty, or if it does not exist and is not a
// pattern; the message ends with what may be given, plain texts and `more`.
template <class Settings>
const std::string& text_path(const Given<Settings>& given, const std::string& more = "") {
  const std::string wanted = plain_text_files + more + ", with --set data.path=FILE";
  return is_pattern(given.path) ? given.path : given.required_path("no text", wanted);
}

// Returns how many of n are used for training: all but the fraction data.validation_fraction.
std::int64_t training_share(const CorpusSettings& settings, std::int64_t n);

// Returns the remark on examples that were moved, as HeldExamples::moved counts them.
std::string moved_to_empty_split(std::int64_t moved, const char* noun);

// Return the corpus with data. `known` has the tokenizer of a trained model, or none. Throw
// InputError as read_corpus() does.
Corpus read_text_corpus(const Given<CorpusSettings>& given, Corpus known);
// Returns a corpus for a plan, with a text of the size that assumed_text names.
Corpus assume_text(const Given<CorpusSettings>& given, Corpus known);
Corpus read_conversations(const TaskSetup& setup, const Given<CorpusSettings>& given, Corpus known);

}  // namespace tapestry
