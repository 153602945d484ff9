#pragma once

#include <memory>

#include "data/dataset.hpp"
#include "data/text/text.hpp"
#include "train/task.hpp"

// What a language model reads: a text in one piece, or a file of names, by data.kind.
namespace tapestry {

namespace key {
inline const Key<std::int64_t> context{
    "model.context", 64, "characters the model sees", {.low = 1, .high = 1048576}};
}

struct Corpus {
  CharVocabulary vocabulary;
  std::unique_ptr<Dataset> training{}, validation{};  // null where no data was needed
};

std::vector<KeyInfo> corpus_keys();  // with key::context
bool holds_names(const Config& config);

// With the vocabulary that the setup remembers, under "vocabulary", or else that of the data.
// InputError for a file that is missing or wrong, too short a text or too long a name.
Corpus read_corpus(const TaskSetup& setup);

}  // namespace tapestry
