#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/dataset.hpp"
#include "data/text/tokenizer.hpp"
#include "train/task.hpp"

// What a language model reads, by data.kind: texts or shards of tokens, a file of names, or files
// of conversations.
namespace tapestry {

enum class CorpusKind { text, names, conversations };

namespace key {
inline const Key<std::int64_t> context{
    "model.context", 64, "tokens the model sees", {.low = 1, .high = 1048576}};
inline const Choice<CorpusKind> corpus_kind{
    "data.kind",
    CorpusKind::text,
    "texts or shards of tokens, a name a line, or conversations as JSONL",
    {{"text", CorpusKind::text},
     {"names", CorpusKind::names},
     {"conversations", CorpusKind::conversations}}};
inline const Condition of_tokens = corpus_kind.is(CorpusKind::text, CorpusKind::conversations);
inline const Key<std::string> tokenizer{"data.tokenizer",
                                        "",
                                        "a tokenizer.json; \"train\": one is trained on the text; "
                                        "empty: characters, or the shards' own",
                                        {.used_if = {of_tokens}}};
inline const Key<std::string> end_of_text{
    "data.end_of_text",
    "",
    "the token that ends a document; empty: the usual one that the tokenizer has",
    {.used_if = {of_tokens}}};
inline const Key<bool> packing{
    "data.packing",
    true,
    "several conversations a row of model.context tokens, none of which sees the others",
    {.used_if = {corpus_kind.is(CorpusKind::conversations)}}};
}  // namespace key

struct Corpus {
  std::shared_ptr<const Tokenizer> tokenizer{};
  bool has_characters = false;                        // of which each token is one
  std::optional<std::int32_t> end_of_text{};          // the token that ends a document
  std::optional<std::int32_t> end_of_answer{};        // the token that ends the assistant's turn
  std::map<std::string, std::string> metadata{};      // by which a checkpoint knows the tokenizer
  std::unique_ptr<Dataset> training{}, validation{};  // null where no data was needed
  std::string remark{};                               // what of the data is not learnt from
};

std::vector<KeyInfo> corpus_keys();  // with key::context

// Returns in one line which text is missing and what a plan assumes instead of it; none where it is
// there, or where the task reads no text.
std::optional<std::string> assumed_text(const Config& config);

// With the tokenizer that the setup remembers, or else that of the config or the data.
// InputError for a file that is missing or wrong, too short a text, too long a name, shards of
// another tokenizer, or conversations without a template to write them in.
Corpus read_corpus(const TaskSetup& setup);

}  // namespace tapestry
