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
#include "train/config/keys.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"

// The data of a language model, by data.kind: texts or shards of tokens, a file of names, or files
// of conversations.
namespace tapestry {

enum class CorpusKind { text, names, conversations };

inline constexpr const char* train_tokenizer =
    "train";  // the value of data.tokenizer that trains one

namespace key {
inline const Key<std::int64_t> context{
    "model.context",
    64,
    "context length: maximum number of tokens that the model reads",
    {.low = 1, .high = 1048576}};
inline const Key<std::int64_t> vocabulary{
    "model.vocabulary", 0, "rows of the embedding; 0: one per token", {.low = 0, .high = 1e7}};
inline const Choice<CorpusKind> corpus_kind{
    "data.kind",
    CorpusKind::text,
    "texts or token shards, a name per line, or conversations as JSONL",
    {{"text", CorpusKind::text},
     {"names", CorpusKind::names},
     {"conversations", CorpusKind::conversations}}};
inline const Condition of_tokens = corpus_kind.is(CorpusKind::text, CorpusKind::conversations);
inline const Key<std::string> tokenizer{"data.tokenizer",
                                        "",
                                        "a tokenizer.json; \"train\": a tokenizer is trained on "
                                        "the text; empty: characters, or the shards' tokenizer",
                                        {.used_if = {of_tokens}}};
inline const Key<std::string> end_of_text{
    "data.end_of_text",
    "",
    "token that ends a document; empty: the tokenizer's end-of-text token",
    {.used_if = {of_tokens}}};
inline const Key<bool> begin_of_text{
    "data.begin_of_text",
    true,
    "begin each document with the tokens that the tokenizer's template puts before a text, if any",
    {.used_if = {of_tokens, data_rules.is(2)}}};
inline const Key<bool> packing{
    "data.packing",
    true,
    "pack several conversations into a row of model.context tokens, without attention between them",
    {.used_if = {corpus_kind.is(CorpusKind::conversations)}}};
inline const Key<double> text_validation_fraction{
    "data.validation_fraction",
    0.1,
    "fraction of the data for validation: the end of a text, or conversations",
    {.low = 0, .high = 0.9, .used_if = {key::of_tokens}}};
inline const Key<std::int64_t> trained_vocabulary{
    "data.vocabulary",
    1024,
    "vocabulary size of a tokenizer that is trained",
    {.low = 257, .high = 1e6, .used_if = {key::of_tokens, key::tokenizer.is(train_tokenizer)}}};
inline const Key<std::string> chat_template{
    "data.template",
    "",
    "chat template: \"chatml\", \"llama3\", or a text with {role} and {content}, or {user} and "
    "{assistant}; empty: the tokenizer's own",
    {.used_if = {key::corpus_kind.is(CorpusKind::conversations)}}};
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
std::vector<Recognized> recognize_corpora(const std::string& path);

// Returns the number of rows of the embedding of tokens. Throws InputError if key::vocabulary is
// below the number of tokens.
std::int64_t vocabulary_of(const Config& config, const Tokenizer& tokenizer);

std::vector<KeyInfo> corpus_keys();  // returns the keys, including key::context

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
Corpus by_byte_pairs(const Config& config, BytePairTokenizer tokenizer,
                     std::optional<std::string> json = {});
// Returns the tokenizer of a corpus, which must have byte pairs.
const BytePairTokenizer& byte_pairs_of(const Corpus& corpus);

// Sets the chat template, which a checkpoint stores, and the token that ends an answer. Throws
// InputError if the template does not fit the tokenizer.
void set_template(Corpus& corpus, const ChatTemplate& chat_template);

// Returns the tokenizer that data.tokenizer names, or trains one on the texts. Throws InputError as
// BytePairTokenizer::load() and train() do.
BytePairTokenizer chosen_tokenizer(const Config& config, std::span<const std::string> texts,
                                   const std::vector<std::string>& special = {"<|endoftext|>"});

// Returns data.path. Throws InputError if it is empty, or if it does not exist and is not a
// pattern.
const std::string& text_path(const Config& config);

// Returns how many of n are used for training: all but the fraction data.validation_fraction.
std::int64_t training_share(const Config& config, std::int64_t n);

// Returns the remark on examples that were moved, as HeldExamples::moved counts them.
std::string moved_to_empty_split(std::int64_t moved, const char* noun);

// Return the corpus with data. `known` has the tokenizer of a trained model, or none. Throw
// InputError as read_corpus() does. A data.validation_fraction of 1 stands for whole_data.
Corpus read_text_corpus(const Config& config, Corpus known);
// Returns a corpus for a plan, with a text of the size that assumed_text names.
Corpus assume_text(const Config& config, Corpus known);
Corpus read_conversations(const TaskSetup& setup, Corpus known);

}  // namespace tapestry
