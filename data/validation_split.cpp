#include "data/validation_split.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <span>

#include "autograd/check.hpp"
#include "autograd/checksum.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

std::uint64_t round(std::uint64_t hash, std::uint64_t factor) {
  return (hash ^ hash >> 33) * factor;
}

std::uint64_t first_round(std::uint64_t hash) { return round(hash, 0xFF51AFD7ED558CCD); }

Split one_in_eight(std::uint64_t hash) {
  return hash >> 61 == 0 ? Split::validation : Split::train;
}

}  // namespace

std::uint64_t mix(std::uint64_t number) {
  const std::uint64_t hash = round(first_round(number), 0xC4CEB9FE1A85EC53);
  return hash ^ hash >> 33;
}

Split split_of(std::uint64_t number) { return one_in_eight(mix(number)); }

Split split_of(const std::vector<std::int32_t>& symbols) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::int32_t symbol : symbols)
    hash = (hash ^ static_cast<std::uint64_t>(symbol)) * 0x100000001B3;
  return one_in_eight(first_round(hash));
}

std::vector<std::int64_t> validation_examples(std::int64_t size, std::int64_t count) {
  require(count >= 0 && count <= size, "validation_examples: count = {}; expected 0 to {}", count,
          size);
  std::vector<std::int64_t> examples = indices(0, size);
  std::ranges::nth_element(examples, examples.begin() + count, {},
                           [](std::int64_t i) { return mix(static_cast<std::uint64_t>(i)); });
  examples.resize(count);
  std::ranges::sort(examples);
  return examples;
}

std::vector<std::int64_t> validation_examples_of_classes(const std::vector<std::int32_t>& labels,
                                                         double share) {
  std::map<std::int32_t, std::vector<std::int64_t>> classes;
  for (std::int64_t i = 0; i < std::ssize(labels); ++i) classes[labels[i]].push_back(i);
  std::vector<std::int64_t> chosen;
  for (const auto& [label, examples] : classes) {
    const std::int64_t N = std::ssize(examples);
    const std::int64_t wanted =
        std::max<std::int64_t>(N > 1, std::llround(share * static_cast<double>(N)));
    for (const std::int64_t i : validation_examples(N, std::min(N, wanted)))
      chosen.push_back(examples[i]);
  }
  std::ranges::sort(chosen);
  return chosen;
}

std::uint64_t text_hash(std::string_view text) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.value();
}

namespace {

// Equal examples. The splits are 0, training; 1, validation; 2, test.
struct EqualExamples {
  std::size_t split = 0;
  std::vector<std::int32_t> labels{};  // different ones
};

// The different examples of a class, by ascending mixed hash, and their number in each split.
struct ClassExamples {
  std::vector<EqualExamples*> all{};
  std::array<std::int64_t, 3> counts{};
};

using Classes = std::map<std::int32_t, ClassExamples>;

// Moves the example with the lowest hash of a class that `to` lacks into that split. It is taken
// from a later split, or from one in which each of its classes has another example. Returns whether
// there is such an example.
bool fill_split(Classes& classes, const ClassExamples& lacking, std::size_t to) {
  const auto found = std::ranges::find_if(lacking.all, [&](const EqualExamples* example) {
    return example->split > to || std::ranges::all_of(example->labels, [&](std::int32_t label) {
             return classes.at(label).counts[example->split] > 1;
           });
  });
  if (found == lacking.all.end()) return false;
  for (const std::int32_t label : (*found)->labels) {
    --classes.at(label).counts[(*found)->split];
    ++classes.at(label).counts[to];
  }
  (*found)->split = to;
  return true;
}

}  // namespace

HeldExamples divide_by_hash(const std::vector<std::uint64_t>& hashes,
                            const std::vector<std::int32_t>& labels, const SplitShares& shares) {
  require(labels.empty() || labels.size() == hashes.size(),
          "divide_by_hash: {} hashes, {} labels; expected as many", hashes.size(), labels.size());
  std::map<std::uint64_t, EqualExamples> examples;  // by mixed hash
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    std::vector<std::int32_t>& of_example = examples[mix(hashes[i])].labels;
    const std::int32_t label = labels.empty() ? 0 : labels[i];
    if (std::ranges::find(of_example, label) == of_example.end()) of_example.push_back(label);
  }
  Classes classes;
  for (auto& [hash, example] : examples) {
    const double place = static_cast<double>(hash >> 11) * 0x1p-53;  // hash / 2^64, rounded down
    example.split = place < shares.validation ? 1 : place < shares.validation + shares.test ? 2 : 0;
    for (const std::int32_t label : example.labels) {
      classes[label].all.push_back(&example);
      ++classes[label].counts[example.split];
    }
  }
  HeldExamples held;
  const std::array<bool, 3> is_split{true, shares.validation > 0, shares.test > 0};
  for (const auto& [label, examples_of_class] : classes)
    for (std::size_t split = 0; split < is_split.size(); ++split)
      if (is_split[split] && examples_of_class.counts[split] == 0)
        held.moved += fill_split(classes, examples_of_class, split);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::size_t split = examples.at(mix(hashes[i])).split;
    if (split > 0)
      (split == 1 ? held.validation : held.test).push_back(static_cast<std::int64_t>(i));
  }
  return held;
}

HeldExamples divide_by_rules(std::int64_t rules, const std::vector<std::uint64_t>& hashes,
                             const std::vector<std::int32_t>& labels, const SplitShares& shares) {
  if (rules > 1) return divide_by_hash(hashes, labels, shares);
  return {.validation = validation_examples_of_classes(labels, shares.validation)};
}

std::optional<int> split_named(std::string_view name) {
  const std::string lower = lower_ascii(name);
  if (lower == "train" || lower == "training") return 0;
  if (lower == "validation" || lower == "valid" || lower == "val" || lower == "dev") return 1;
  if (lower == "test" || lower == "testing") return 2;
  return std::nullopt;
}

std::optional<int> split_in_words(std::string_view name) {
  std::string text;
  for (const unsigned char character : name) {
    const unsigned char last = text.empty() ? ' ' : text.back();
    const bool is_new_word = (std::islower(last) && std::isupper(character)) ||
                             (std::isalpha(last) && std::isdigit(character));
    if (is_new_word) text += ' ';
    text += static_cast<char>(character);
  }
  text += ' ';
  std::optional<int> split;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find_first_of("_-. ", begin);
    const std::optional<int> named = split_named(std::string_view(text).substr(begin, end - begin));
    if (split && named && split != named) return std::nullopt;
    if (named) split = named;
  }
  return split;
}

std::vector<std::string> sorted_classes(const std::set<std::string>& names) {
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto number = [](const std::string& name) { return parse_number<double>(name); };
  const auto is_number = [&](const std::string& name) {
    return number(name) && std::isfinite(*number(name));
  };
  if (std::ranges::all_of(sorted, is_number)) std::ranges::stable_sort(sorted, {}, number);
  return sorted;
}

std::vector<std::int64_t> count_classes(const std::vector<std::int32_t>& labels,
                                        std::int64_t classes) {
  std::vector<std::int64_t> counts(classes);
  for (const std::int32_t label : labels) ++counts.at(label);
  return counts;
}

}  // namespace tapestry
