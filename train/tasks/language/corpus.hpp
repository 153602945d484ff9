#pragma once

#include <memory>
#include <optional>

#include "data/dataset.hpp"
#include "data/text/tokenizer.hpp"
#include "train/task.hpp"

// What a language model reads, by data.kind: texts or shards of tokens, or a file of names.
namespace tapestry {

enum class CorpusKind { text, names };

namespace key {
inline const Key<std::int64_t> context{
    "model.context", 64, "tokens the model sees", {.low = 1, .high = 1048576}};
inline const Choice<CorpusKind> corpus_kind{
    "data.kind",
    CorpusKind::text,
    "texts or shards of tokens, or a name a line",
    {{"text", CorpusKind::text}, {"names", CorpusKind::names}}};
inline const Key<std::string> tokenizer{"data.tokenizer",
                                        "",
                                        "a tokenizer.json; \"train\": one is trained on the text; "
                                        "empty: characters, or the shards' own",
                                        {.used_if = {corpus_kind.is(CorpusKind::text)}}};
inline const Key<std::string> end_of_text{
    "data.end_of_text",
    "",
    "the token that ends a document; empty: the usual one that the tokenizer has",
    {.used_if = {corpus_kind.is(CorpusKind::text)}}};
}  // namespace key

struct Corpus {
  std::shared_ptr<const Tokenizer> tokenizer{};
  bool has_characters = false;                        // of which each token is one
  std::optional<std::int32_t> end_of_text{};          // the token that ends a document
  std::map<std::string, std::string> metadata{};      // by which a checkpoint knows the tokenizer
  std::unique_ptr<Dataset> training{}, validation{};  // null where no data was needed
};

std::vector<KeyInfo> corpus_keys();  // with key::context
bool holds_names(const Config& config);

// With the tokenizer that the setup remembers, or else that of the config or the data.
// InputError for a file that is missing or wrong, too short a text, too long a name, or shards of
// another tokenizer.
Corpus read_corpus(const TaskSetup& setup);

}  // namespace tapestry
