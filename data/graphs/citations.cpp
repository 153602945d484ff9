#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>

#include "autograd/check.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/text.hpp"

// The format of LINQS (https://linqs.org/datasets): a folder with one NAME.content, each line a
// paper's name, its features and its class, and one NAME.cites, each line the names of two papers
// of which one cites the other; plain or gzip. Citations count both ways; features, of any sign,
// are divided by the sum of their magnitudes.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view spaces = " \t";

// The one file of a folder that is named *.ending or *.ending.gz.
std::string find_file(const std::string& folder, const std::string& ending) {
  const std::vector<std::string> names = file_names(folder);
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found), [&](const std::string& name) {
    return name.ends_with(ending) || name.ends_with(ending + ".gz");
  });
  expect_input(
      found.size() == 1,
      "{0}: expected one file *{1} or *{1}.gz, found {2}; give a folder of papers, such as "
      "Cora from https://linqs.org/datasets",
      folder, ending, list_briefly(found.empty() ? names : found));
  return (fs::path(folder) / found.front()).string();
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(spaces), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(spaces)));
    line.remove_prefix(words.back().size());
  }
}

// fn(words, line) for each line that is not empty, lines counted from 1.
template <class F>
void for_each_line(const std::string& path, F fn) {
  const std::string text = read_text(path);
  std::string_view rest = text;
  for (std::int64_t number = 1; const auto line = next_line(rest); ++number) {
    const std::vector<std::string_view> words = words_of(*line);
    if (!words.empty()) fn(words, number);
  }
}

struct Papers {
  std::string path;
  std::vector<std::string> names{}, classes{};
  std::vector<std::int64_t> lines{};
  std::vector<float> features{};  // row by row, each divided by the sum of its magnitudes
  std::int64_t width = 0;
  std::unordered_map<std::string, std::int32_t> numbers{};  // by name
};

float read_feature(const Papers& papers, std::int64_t line, std::string_view word) {
  const std::optional<float> value = parse_float(word);
  expect_input(value.has_value(), "{}: line {}: feature '{}': expected a number of float32",
               papers.path, line, printable(word));
  return *value;
}

void add_paper(Papers& papers, const std::vector<std::string_view>& words, std::int64_t line) {
  const std::int64_t width = std::ssize(words) - 2;
  if (papers.names.empty()) papers.width = width;
  expect_input(width >= 1, "{}: line {}: {} words, expected a name, features and a class",
               papers.path, line, words.size());
  const bool lacks_class = width + 1 == papers.width && parse_float(words.back()) &&
                           std::ranges::count(papers.classes, words.back()) == 0;
  expect_input(!lacks_class, "{}: line {}: no class behind its {} features; its last word is '{}'",
               papers.path, line, papers.width, words.back());
  expect_input(width == papers.width, "{}: line {}: {} features, expected {} as in line {}",
               papers.path, line, width, papers.width,
               papers.lines.empty() ? line : papers.lines.front());
  const std::string name(words.front());
  const auto [place, is_new] =
      papers.numbers.emplace(name, static_cast<std::int32_t>(papers.names.size()));
  const auto first = place->second;
  expect_input(is_new, "{}: line {}: node {} again; line {} has it", papers.path, line,
               printable(name), is_new ? line : papers.lines[first]);
  const std::size_t begin = papers.features.size();
  double sum = 0;
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    papers.features.push_back(read_feature(papers, line, words[i]));
    sum += std::abs(papers.features.back());
  }
  for (std::size_t i = begin; sum > 0 && i < papers.features.size(); ++i)
    papers.features[i] = static_cast<float>(papers.features[i] / sum);
  papers.names.push_back(name);
  papers.classes.emplace_back(words.back());
  papers.lines.push_back(line);
}

std::vector<Edge> read_citations(const std::string& path, const Papers& papers) {
  std::vector<Edge> edges;
  for_each_line(path, [&](const std::vector<std::string_view>& words, std::int64_t line) {
    expect_input(words.size() == 2, "{}: line {}: {} words, expected the names of two nodes", path,
                 line, words.size());
    std::int32_t ends[2];
    for (std::size_t i = 0; i < 2; ++i) {
      const auto found = papers.numbers.find(std::string(words[i]));
      expect_input(found != papers.numbers.end(),
                   "{}: line {}: an edge to node {}, which is not among the {} of {}", path, line,
                   printable(words[i]), papers.names.size(), papers.path);
      ends[i] = found->second;
    }
    edges.push_back({ends[0], ends[1]});
  });
  expect_input(!edges.empty(), "{}: no edges; expected the names of two nodes a line", path);
  return edges;
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

}  // namespace

NodeGraph load_node_graph(const std::string& folder, const NodeSplit& split) {
  Papers papers{find_file(folder, ".content")};
  const std::string cites = find_file(folder, ".cites");
  for_each_line(papers.path, [&](const std::vector<std::string_view>& words, std::int64_t line) {
    add_paper(papers, words, line);
  });
  const std::int64_t N = std::ssize(papers.names);
  expect_option(
      split.training + split.validation + split.test <= N, "training",
      "{}: {} nodes, fewer than {} to train on, {} to validate and {} to test on together",
      papers.path, N, split.training, split.validation, split.test);
  const std::set<std::string> known(papers.classes.begin(),
                                    papers.classes.begin() + split.training);
  NodeGraph whole{.graph = Adjacency::undirected(N, read_citations(cites, papers)),
                  .features = Array::of(papers.features, {N, papers.width}),
                  .names = papers.names,
                  .classes = {known.begin(), known.end()},
                  .training = range(0, split.training),
                  .validation = range(split.training, split.training + split.validation),
                  .test = range(N - split.test, N)};
  for (std::size_t i = 0; i < papers.classes.size(); ++i) {
    const auto found = known.find(papers.classes[i]);
    expect_input(found != known.end(),
                 "{}: line {}: class '{}' is unknown: none of the first {} nodes, which are to be "
                 "learnt from, is of it",
                 papers.path, papers.lines[i], printable(papers.classes[i]), split.training);
    whole.labels.push_back(static_cast<std::int32_t>(std::distance(known.begin(), found)));
  }
  return whole;
}

}  // namespace tapestry
