#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/text/byte_pair.hpp"
#include "data/text/chat_template.hpp"
#include "train/tasks/language/corpus.hpp"

// What the readers of texts (text_corpus.cpp) and of conversations (conversation_corpus.cpp) share
// with read_corpus (corpus.cpp).
namespace tapestry {

inline constexpr const char* train_tokenizer = "train";  // as data.tokenizer: one is trained

namespace key {
inline const Key<double> text_validation_fraction{
    "data.validation_fraction",
    0.1,
    "share to validate on: the end of a text, or conversations",
    {.low = 0, .high = 0.9, .used_if = {key::of_tokens}}};
inline const Key<std::int64_t> trained_vocabulary{
    "data.vocabulary",
    1024,
    "tokens of a tokenizer to train",
    {.low = 257, .high = 1e6, .used_if = {key::of_tokens, key::tokenizer.is(train_tokenizer)}}};
inline const Key<std::string> chat_template{
    "data.template",
    "",
    "of conversations: \"chatml\", \"llama3\", or a text with {role} and {content}, or {user} and "
    "{assistant}; empty: the tokenizer's own",
    {.used_if = {key::corpus_kind.is(CorpusKind::conversations)}}};
}  // namespace key

// Returns a corpus that has a tokenizer of characters and no data yet.
Corpus by_characters(CharVocabulary symbols);

// Returns a corpus that has a tokenizer of byte pairs and no data yet. `json` is the unchanged text
// of the tokenizer.json that it was loaded from.
Corpus by_byte_pairs(const Config& config, BytePairTokenizer tokenizer, std::string json);
const BytePairTokenizer& byte_pairs_of(const Corpus& corpus);

// Sets the template in which conversations are written. A checkpoint keeps it.
void set_template(Corpus& corpus, const ChatTemplate& chat_template);

// Returns the tokenizer that data.tokenizer names, or trains one on the texts.
BytePairTokenizer chosen_tokenizer(const Config& config, std::span<const std::string> texts,
                                   const std::vector<std::string>& special = {"<|endoftext|>"});

// Returns data.path. InputError where it is empty.
const std::string& text_path(const Config& config);

// Returns how many of n are left to train on, without data.validation_fraction of them.
std::int64_t training_share(const Config& config, std::int64_t n);

// Each adds data to a corpus that has the tokenizer of a trained model, or none.
Corpus read_text(const Config& config, Corpus known);
Corpus assume_text(const Config& config, Corpus known);  // of the size that assumed_text names
Corpus read_conversations(const TaskSetup& setup, Corpus known);

}  // namespace tapestry
