#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/counted.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/reduce.hpp"
#include "data/json.hpp"
#include "data/text/bag_of_words.hpp"
#include "data/text/printable.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/plot/principal_components.hpp"
#include "train/tasks/inspectors.hpp"
#include "train/tasks/language/word_vectors.hpp"

namespace tapestry {
namespace {

const Key<std::string> words_option{
    "words", "", "words whose nearest words are shown, as \"dog cat\" (default: frequent words)"};
const Key<std::int64_t> nearest_count{
    "count", 10, "number of nearest words of each", {.low = 1, .high = 100000}};

// Returns the vectors divided by their length: (V, C).
Array directions(const Array& vectors) {
  expect_finite(vectors);
  const Tensor x = vectors;
  return (x / sqrt(sum(x * x, {1}, Keep::yes) + Tensor(Array::full({}, 1e-12)))).value();
}

// Another word, and its cosine similarity.
struct NearWord {
  std::int64_t word = 0;
  float similarity = 0;
};

// Returns for each of some words the `count` nearest of the first N words, the nearest first, given
// directions (V, C).
std::vector<std::vector<NearWord>> nearest(const Array& directions,
                                           const std::vector<std::int64_t>& words, std::int64_t N,
                                           std::int64_t count) {
  const std::int64_t C = directions.dim(1);
  const Array some = directions.part(0, N * C).reshaped({N, C});
  const Array cosines =
      matmul(directions.select(words), some, {.transpose_b = true}).value();  // (words, N)
  std::vector<std::vector<NearWord>> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::vector<NearWord>& near = all.emplace_back();
    const auto row = cosines.values<float>().subspan(i * N, N);
    for (std::int64_t other = 0; other < N; ++other)
      if (other != words[i]) near.push_back({other, row[other]});
    const auto end = near.begin() + std::min(count, std::ssize(near));
    std::ranges::partial_sort(near, end, [](const NearWord& a, const NearWord& b) {
      return a.similarity != b.similarity ? a.similarity > b.similarity : a.word < b.word;
    });
    near.erase(end, near.end());
  }
  return all;
}

// Returns the numbers of about ten words, evenly spaced among the 1,000 most frequent ones.
std::vector<std::int64_t> frequent_words(const WordVectorTask& task) {
  const std::int64_t N = std::min<std::int64_t>(1000, std::ssize(task.words()));
  std::vector<std::int64_t> words;
  for (std::int64_t i = 0; i < N; i += std::max<std::int64_t>(1, N / 10)) words.push_back(i);
  return words;
}

std::vector<std::int64_t> chosen_words(const WordVectorTask& task, const Options& options) {
  if (!options.is_set(words_option)) return frequent_words(task);
  std::vector<std::int64_t> words;
  for (const std::string& word : words_of(options[words_option])) {
    const auto found = std::ranges::find(task.words(), word);
    expect_input(found != task.words().end(),
                 "--words: \"{}\" is not in the vocabulary of {}; give other words",
                 printable_beginning(word), counted(std::ssize(task.words()), "word"));
    words.push_back(found - task.words().begin());
  }
  expect_input(!words.empty(), "--words: expected words, found none; give words");
  return words;
}

// Returns "puppy 0.71, dogs 0.66".
std::string text_of(const WordVectorTask& task, const std::vector<NearWord>& near) {
  std::string text;
  for (const auto& [word, similarity] : near)
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", task.words()[word], similarity);
  return text;
}

Sample nearest_words(WordVectorTask& task, const Options& options) {
  const std::vector<std::int64_t> words = chosen_words(task, options);
  const auto near =
      nearest(directions(task.vectors()), words, std::ssize(task.words()), options[nearest_count]);
  Sample sample{.json = JsonValue::object()};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& name = task.words()[words[i]];
    sample.text += fmt::format("{}: {}\n", name, text_of(task, near[i]));
    for (const auto& [word, similarity] : near[i])
      sample.json[name].push_back({{"word", task.words()[word]}, {"similarity", similarity}});
  }
  return sample;
}

// Returns the first two principal components of the rows, scaled into [0, 1]: (N, 2).
Array places_of(const Array& rows) {
  Array places = project(principal_components(rows), rows, 2);
  const auto values = places.mutable_values<float>();
  const auto [low, high] = std::ranges::minmax(values);
  for (float& value : values) value = high > low ? (value - low) / (high - low) : 0.5F;
  return places;
}

}  // namespace

Inspector<Sample> word_vector_samples() { return {{words_option, nearest_count}, nearest_words}; }

// Returns a map of the 500 most frequent words by the principal components of their directions,
// each joined to its three nearest, and a table of nearest words.
ReportPanels word_vector_panels(WordVectorTask& task) {
  constexpr std::int64_t most = 500;
  const Array all = directions(task.vectors());
  const std::int64_t V = all.dim(0), C = all.dim(1), N = std::min(V, most);
  PlacedGraph map{.title = fmt::format("{} of {} words", N, V),
                  .names = {task.words().begin(), task.words().begin() + N}};
  const auto near = nearest(all, indices(0, N), N, 3);
  for (std::int64_t i = 0; i < N; ++i)
    for (const auto& [other, similarity] : near[i]) {
      const bool is_mutual = std::ranges::count(near[other], i, &NearWord::word) > 0;
      if (is_mutual && other < i) continue;
      map.edges.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(other)});
      map.weights.push_back(std::clamp(similarity, 0.0F, 1.0F));
    }
  map.places = places_of(all.part(0, N * C).reshaped({N, C}));
  TablePanel table{.title = "Nearest words",
                   .caption = "Words by the cosine similarity of their vectors.",
                   .rows = {{"word", "nearest words"}}};
  const std::vector<std::int64_t> some = frequent_words(task);
  const auto lists = nearest(all, some, V, 10);
  for (std::size_t i = 0; i < some.size(); ++i)
    table.rows.push_back({task.words()[some[i]], text_of(task, lists[i])});
  const PlacedGraphs map_of_words{
      .graphs = {map},
      .title = "Word vectors",
      .caption =
          "The most frequent words, by the first two principal components of their "
          "directions. Edges join each word to the three nearest in all dimensions, and are "
          "the stronger the larger their cosine similarity."};
  return {map_of_words, table};
}

}  // namespace tapestry
