#include "train/tasks/language/corpus.hpp"

#include <nlohmann/json.hpp>

#include "data/text/names.hpp"
#include "data/text/text.hpp"
#include "train/settings/keys.hpp"
#include "train/settings/option_keys.hpp"

namespace tapestry {
namespace {

enum class Kind { text, names };
const Choice<Kind> data_kind{"data.kind",
                             Kind::text,
                             "one text, or a name a line",
                             {{"text", Kind::text}, {"names", Kind::names}}};
const Key<double> validation_fraction{
    "data.validation_fraction",
    0.1,
    "share of a text, from its end, to validate on",
    {.low = 0, .high = 0.9, .used_if = {data_kind.is(Kind::text)}}};
const Key<std::int64_t> held_back{"data.held_back",
                                  1000,
                                  "names to validate on, but a tenth of them at most",
                                  {.low = 1, .high = 1e9, .used_if = {data_kind.is(Kind::names)}}};
using Symbols = std::vector<std::string>;

const std::string& path_of(const Config& config) {
  return key::required_path(config, "no text to learn from",
                            text_formats().help() + " with --set data.path=FILE");
}

// `known` are the symbols of a model that was trained before, or empty.
Corpus read_text(const Config& config, const Symbols& known) {
  const Text text = load_text(path_of(config));
  Corpus corpus{known.empty() ? CharVocabulary::of_text(text.content) : CharVocabulary(known)};
  std::vector<std::int32_t> encoded;
  try {
    encoded = corpus.vocabulary.encode(text.content);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", text.path, error.what()));
  }
  const std::int64_t n = std::ssize(encoded), T = config[key::context];
  const auto validation =
      static_cast<std::int64_t>(static_cast<double>(n) * config[validation_fraction]);
  const auto tokens = std::make_shared<const std::vector<std::int32_t>>(std::move(encoded));
  const auto split = [&](std::int64_t begin, std::int64_t end, Windows windows, const char* name) {
    return with_keys(
        config,
        {{"context", key::context, "lower it or data.validation_fraction, or give a longer text"},
         {"end", validation_fraction, "raise it, or give a longer text"}},
        [&] {
          return std::make_unique<TextDataset>(tokens, TextRange{.begin = begin,
                                                                 .end = end,
                                                                 .context = T,
                                                                 .windows = windows,
                                                                 .path = text.path,
                                                                 .split = name});
        });
  };
  corpus.training = split(0, n - validation, Windows::overlapping, "train");
  corpus.validation = split(n - validation, n, Windows::consecutive, "validation");
  return corpus;
}

Corpus read_names(const Config& config, const Symbols& known) {
  const NameList list = load_names(path_of(config));
  config.expect(list.longest < config[key::context], key::context,
                "{} has a name of {} characters: expected at least {}", list.path, list.longest,
                list.longest + 1);
  Corpus corpus{known.empty() ? name_vocabulary(list) : CharVocabulary(known)};
  NameSplits splits = split_names(list, corpus.vocabulary,
                                  {.held_back = config[held_back], .seed = seed_of(config)});
  corpus.training = std::make_unique<NameDataset>(std::move(splits.train));
  corpus.validation = std::make_unique<NameDataset>(std::move(splits.test));
  return corpus;
}

}  // namespace

std::vector<KeyInfo> corpus_keys() {
  return {data_kind, validation_fraction, held_back, key::data_source, key::context};
}

bool holds_names(const Config& config) { return config[data_kind] == Kind::names; }

Corpus read_corpus(const TaskSetup& setup) {
  Symbols known;
  if (!setup.metadata.empty())
    known = nlohmann::json::parse(setup.metadata.at("vocabulary")).get<Symbols>();
  if (!setup.needs_data && !known.empty()) return {CharVocabulary(known)};
  switch (setup.config[data_kind]) {
    case Kind::text:
      return read_text(setup.config, known);
    case Kind::names:
      return read_names(setup.config, known);
  }
  throw_unhandled(data_kind);
}

}  // namespace tapestry
