#include "data/text/names.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "autograd/random.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

constexpr std::int64_t max_characters = 256;
constexpr std::int32_t boundary = 0;  // a line end, before and after a name

std::int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; });
}

// Returns a permutation of [0, size), whose first `count` elements are a random sample.
std::vector<std::int64_t> shuffled(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> order = indices(0, size);
  Random random(seed, Stream::data);
  random.shuffle_start(order, count);
  return order;
}

HeldExamples held_names(const NameList& list, std::int64_t held_back) {
  std::vector<std::uint64_t> hashes;
  for (const std::string& name : list.names) hashes.push_back(text_hash(name));
  const double share = static_cast<double>(held_back) / static_cast<double>(list.names.size());
  const double rounded = std::exp2(std::round(std::log2(share)));
  return divide_by_hash(hashes, {}, {.validation = std::min(0.1, rounded)});
}

}  // namespace

NameList load_names(const std::string& path, bool distinct, std::int64_t least) {
  NameList list{.path = path};
  std::unordered_set<std::string> seen;
  for_each_line(path, [&](const FileLine& line) {
    const std::string name(trimmed(line.text));
    const std::int64_t length = count_characters(name);
    line.expect(length <= max_characters,
                "the name has {} characters; expected at most {}; give one name per line", length,
                max_characters);
    if (name.empty() || (distinct && !seen.insert(name).second)) return;
    list.names.push_back(name);
    list.longest = std::max(list.longest, length);
  });
  expect_input(std::ssize(list.names) >= least,
               "{}: expected at least {}, found {}; give more names, one per line", path,
               counted(least, distinct ? "distinct name" : "name"), list.names.size());
  return list;
}

CharVocabulary name_vocabulary(const NameList& list) {
  std::string text;
  for (const std::string& name : list.names) text += name;
  std::vector<std::string> symbols = CharVocabulary::of_text(text).symbols();
  symbols.insert(symbols.begin(), "\n");
  return CharVocabulary(std::move(symbols));
}

std::vector<NameDataset::Name> encode_names(const NameList& list,
                                            const CharVocabulary& vocabulary) {
  std::vector<NameDataset::Name> names;
  for (const std::string& name : list.names) try {
      names.push_back(vocabulary.encode(name));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: '{}': {}", list.path, printable(name), error.what()));
    }
  return names;
}

NameSplits split_names(const NameList& list, const CharVocabulary& vocabulary,
                       const NameOptions& options) {
  expect_option(options.held_back >= 1, "held_back", "{} names for testing; expected at least 1",
                options.held_back);
  const std::int64_t size = std::ssize(list.names);
  const std::int64_t drawn = std::min(options.held_back, size / 10);
  const bool by_hash = options.rules != 1;
  const HeldExamples held = by_hash ? held_names(list, options.held_back) : HeldExamples();
  std::vector<NameDataset::Name> all = encode_names(list, vocabulary), train, test;
  for (const std::int64_t i : shuffled(size, by_hash ? 0 : drawn, options.seed)) {
    const bool is_held =
        by_hash ? std::ranges::binary_search(held.validation, i) : std::ssize(test) < drawn;
    (is_held ? test : train).push_back(std::move(all[i]));
  }
  expect_input(!test.empty(), "{}: all names are \"{}\"; expected different ones; give others",
               list.path, printable(list.names.front()));
  return {NameDataset(std::move(train)), NameDataset(std::move(test)), held.moved};
}

NameDataset::NameDataset(std::vector<Name> names) : names_(std::move(names)) {
  require(!names_.empty(), "NameDataset: no names; expected at least one");
}

const NameDataset::Name& NameDataset::name(std::int64_t example) const {
  require_example("NameDataset", example);
  return names_[example];
}

void NameDataset::add_to(Checksum& sum) const {
  for (const Name& name : names_) sum.add_list(name);
}

Batch NameDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  std::int64_t T = 0;
  for (const std::int64_t example : examples) T = std::max(T, std::ssize(name(example)) + 1);
  return next_token_batch({B, T}, [&](std::int64_t b) {
    Name tokens = name(examples[b]);
    tokens.insert(tokens.begin(), boundary);
    tokens.push_back(boundary);
    return tokens;
  });
}

}  // namespace tapestry
