#include "data/validation_split.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "autograd/check.hpp"

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
  std::vector<std::int64_t> examples(size);
  std::iota(examples.begin(), examples.end(), 0);
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

}  // namespace tapestry
