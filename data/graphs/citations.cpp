#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>
#include <xtensor/xmath.hpp>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "autograd/xtensor.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"

// The format of LINQS (https://linqs.org/datasets): a folder with one NAME.content, whose lines
// have a paper's name, its features and its class, and one NAME.cites, whose lines have the names
// of two papers of which one cites the other; plain or gzip. Edges are undirected; features, of any
// sign, are divided by the sum of their magnitudes.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view spaces = " \t";

// Returns the only file of a folder that is named *.ending or *.ending.gz. Throws InputError if
// there is none, or several.
std::string find_file(const std::string& folder, const std::string& ending) {
  const std::vector<std::string> names = file_names(folder);
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found), [&](const std::string& name) {
    return name.ends_with(ending) || name.ends_with(ending + ".gz");
  });
  expect_input(
      found.size() == 1,
      "{0}: expected one file *{1} or *{1}.gz, found {2}; give a folder of NAME.content and "
      "NAME.cites, such as Cora from https://linqs.org/datasets",
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

struct Papers {
  std::string path;
  std::vector<std::string> names{}, classes{};
  std::vector<std::int64_t> lines{};
  std::vector<float> features{};  // row by row
  std::int64_t width = 0;
  std::unordered_map<std::string, std::int32_t> numbers{};  // keyed by name
};

void add_paper(Papers& papers, const FileLine& line) {
  const std::vector<std::string_view> words = words_of(line.text);
  if (words.empty()) return;
  const std::int64_t width = std::ssize(words) - 2;
  if (papers.names.empty()) papers.width = width;
  line.expect(width >= 1, "expected a name, features and a class, found {}; correct the line",
              counted(std::ssize(words), "word"));
  const bool lacks_class = width + 1 == papers.width && parse_float(words.back()) &&
                           std::ranges::count(papers.classes, words.back()) == 0;
  line.expect(!lacks_class,
              "the class after the {} features is missing (the last word is '{}'); add it",
              papers.width, words.back());
  line.expect(width == papers.width, "the line has {} features; expected {}, as in line {}", width,
              papers.width, papers.lines.empty() ? line.number : papers.lines.front());
  const std::string name(words.front());
  const auto [place, is_new] =
      papers.numbers.emplace(name, static_cast<std::int32_t>(papers.names.size()));
  line.expect(is_new, "node {} is also in line {}; remove one of these lines", printable(name),
              is_new ? 0 : papers.lines[place->second]);
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const std::optional<float> feature = parse_float(words[i]);
    if (!feature)
      line.fail(
          fmt::format("feature '{}': expected a float32 number; correct it", printable(words[i])));
    papers.features.push_back(*feature);
  }
  papers.names.push_back(name);
  papers.classes.emplace_back(words.back());
  papers.lines.push_back(line.number);
}

struct Citations {
  std::vector<Edge> edges{};
  std::int64_t unknown = 0;  // number of citations left out, because a paper is unknown
  std::string first_unknown{};
};

void add_citation(Citations& citations, const Papers& papers, const FileLine& line) {
  const std::vector<std::string_view> words = words_of(line.text);
  if (words.empty()) return;
  line.expect(words.size() == 2, "expected the names of two nodes, found {}; correct the line",
              counted(std::ssize(words), "word"));
  std::int32_t ends[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const auto found = papers.numbers.find(std::string(words[i]));
    if (found == papers.numbers.end()) {
      if (citations.unknown++ == 0)
        citations.first_unknown = fmt::format("line {}: node {}", line.number, printable(words[i]));
      return;
    }
    ends[i] = found->second;
  }
  citations.edges.push_back({ends[0], ends[1]});
}

Citations read_citations(const std::string& path, const Papers& papers) {
  Citations citations;
  for_each_line(path, [&](const FileLine& line) { add_citation(citations, papers, line); });
  const auto& [edges, unknown, first_unknown] = citations;
  expect_input(unknown == 0 || unknown < std::ssize(edges),
               "{}: {} is not among the {} nodes of {}, as in {} of {} edges; remove these edges, "
               "or add the nodes",
               path, first_unknown, papers.names.size(), papers.path, unknown,
               unknown + std::ssize(edges));
  expect_input(!edges.empty(),
               "{}: the file has no edges; expected the names of two nodes per line", path);
  return citations;
}

// Returns "" if all citations are used.
std::string remark_of(const Citations& citations, const std::string& path) {
  if (citations.unknown == 0) return "";
  return fmt::format(
      "{}: {} of {} left out, because a node is unknown ({})", path, citations.unknown,
      counted(citations.unknown + std::ssize(citations.edges), "edge"), citations.first_unknown);
}

// Returns the features (N, F), each row divided by the sum of its magnitudes unless that is 0.
Array normalized_features(const Papers& papers) {
  const std::int64_t N = std::ssize(papers.names);
  const Array features = Array::of(papers.features, {N, papers.width});
  const auto x = xtensor_view<float, 2>(features);
  const xt::xtensor<double, 2> sums = xt::sum<double>(xt::abs(x), {1}, xt::keep_dims);
  return array_of(xt::cast<float>(x / xt::where(sums > 0, sums, 1.0)));
}

}  // namespace

NodeGraph load_node_graph(const std::string& folder, const NodeSplit& split) {
  Papers papers{find_file(folder, ".content")};
  const std::string cites = find_file(folder, ".cites");
  for_each_line(papers.path, [&](const FileLine& line) { add_paper(papers, line); });
  const std::int64_t N = std::ssize(papers.names);
  const bool whole = !split.whole_of.empty();
  expect_option(
      whole || split.training + split.validation + split.test <= N, "training_nodes",
      "{}: {} nodes; expected at least the sum of {} training, {} validation and {} test nodes",
      papers.path, N, split.training, split.validation, split.test);
  Citations citations = read_citations(cites, papers);
  std::string remark = remark_of(citations, cites);
  const std::set<std::string> known =
      whole ? std::set(split.whole_of.begin(), split.whole_of.end())
            : std::set(papers.classes.begin(), papers.classes.begin() + split.training);
  NodeGraph graph{.graph = Adjacency::undirected(N, std::move(citations.edges)),
                  .features = normalized_features(papers),
                  .names = papers.names,
                  .classes = {known.begin(), known.end()},
                  .remark = std::move(remark)};
  if (whole) {
    graph.validation = indices(0, N);
  } else {
    graph.training = indices(0, split.training);
    graph.validation = indices(split.training, split.training + split.validation);
    graph.test = indices(N - split.test, N);
  }
  for (std::size_t i = 0; i < papers.classes.size(); ++i) {
    const auto found = known.find(papers.classes[i]);
    expect_input(
        !whole || found != known.end(),
        "{}: line {}: class '{}' is unknown: the model was trained on {}; correct the class",
        papers.path, papers.lines[i], printable(papers.classes[i]), list_briefly(split.whole_of));
    expect_input(found != known.end(),
                 "{}: line {}: class '{}' is unknown: none of the first {} nodes, which are the "
                 "training split, has it; correct the class, or train on more nodes",
                 papers.path, papers.lines[i], printable(papers.classes[i]), split.training);
    graph.labels.push_back(static_cast<std::int32_t>(std::distance(known.begin(), found)));
  }
  return graph;
}

}  // namespace tapestry
