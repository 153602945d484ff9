#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "data/graphs/node_graph.hpp"
#include "data/graphs/synthetic_graphs.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/papers.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("graphs");

TEST_CASE("karate: has 34 members, 78 edges and two classes") {
  const NodeGraph club = karate_club({1, 34});
  CHECK(club.graph.nodes() == 34);
  CHECK(club.graph.edges() == 2 * 78);
  std::map<std::int32_t, int> degrees;
  for (const auto& [from, to] : club.graph.list()) {
    CHECK(from != to);
    ++degrees[to + 1];
  }
  CHECK(degrees[1] == 16);
  CHECK(degrees[33] == 12);
  CHECK(degrees[34] == 17);
  CHECK(degrees[12] == 1);
  CHECK(degrees.size() == 34);
  CHECK(std::accumulate(club.labels.begin(), club.labels.end(), 0) == 17);
  CHECK(club.labels[0] == 0);
  CHECK(club.labels[8] == 0);  // member 9 went with Mr. Hi, though his friends did not
  CHECK(club.labels[33] == 1);
  CHECK(club.training == std::vector<std::int64_t>{0, 33});
  CHECK(club.validation.size() == 32);
  CHECK(club.names[33] == "34");
  CHECK_ERROR(karate_club({}), "0 of 34 members are labeled");
  CHECK_ERROR(karate_club({1, 2}), "2 of 34 members are labeled", "at least one of each class");
  CHECK_ERROR(karate_club({35}), "member 35", "1 to 34");

  const NodeDataset data(std::make_shared<const NodeGraph>(club), club.training);
  const std::int64_t examples[] = {1, 1};
  const Batch batch = data.batch(examples);
  CHECK(batch.count == 1);  // one node, asked for twice
  CHECK(batch.inputs.shape() ==
        Shape{34, 1});  // of 34 × 34 features, only each member's own is not 0
  CHECK(batch.part<GraphPart>().features->sources() == 34);
  const Ints targets = ints_of(batch.targets);
  CHECK(targets[33] == 1);
  CHECK(std::ranges::count(targets, ignored_target) == 33);
}

// Returns the sorted degrees of an undirected graph.
std::vector<int> degrees_of(const Adjacency& graph) {
  std::vector<int> degrees(graph.nodes());
  for (const auto& [from, to] : graph.list()) ++degrees[from];
  std::ranges::sort(degrees);
  return degrees;
}

bool connected(const Adjacency& graph) {
  std::vector<std::int32_t> part(graph.nodes());
  std::iota(part.begin(), part.end(), 0);
  for (std::int64_t round = 0; round < graph.nodes(); ++round)
    for (const auto& [from, to] : graph.list()) part[to] = std::min(part[to], part[from]);
  return std::ranges::all_of(part, [](std::int32_t p) { return p == 0; });
}

TEST_CASE("synthetic graphs: have the structure of their class") {
  const SyntheticGraphs data({.examples = 400, .seed = 3});
  std::map<std::string, int> counts;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto [graph, label] = data.draw(i);
    const std::string kind = SyntheticGraphs::classes()[label];
    const std::int64_t N = graph.nodes(), pairs = graph.edges() / 2;
    const std::vector<int> degrees = degrees_of(graph);
    ++counts[kind];
    CAPTURE(edges_text(graph));
    CHECK((N >= 12 && N <= 24));
    CHECK(connected(graph));
    if (kind == "ring") CHECK(pairs == N);
    if (kind == "star" || kind == "tree") CHECK(pairs == N - 1);
    if (kind == "star") CHECK(degrees.back() >= 3 * N / 4 - 1);
    if (kind == "tree") CHECK(degrees.back() <= 4);
    if (kind == "grid") CHECK((pairs > N && pairs < 2 * N));
    if (kind == "cliques") CHECK(pairs >= 2 * 6 + 1 + N - 9);
  }
  CHECK(counts.size() == 5);
  for (const auto& [kind, count] : counts) CHECK_MESSAGE(count > 40, kind);
}

TEST_CASE("synthetic graphs: an example depends on the seed and its index alone") {
  const SyntheticGraphs few({.examples = 10, .seed = 3}), many({.examples = 1000, .seed = 3}),
      other({.examples = 10, .seed = 4});
  CHECK(few.draw(9).graph.list() == many.draw(9).graph.list());
  CHECK(few.draw(9).graph.list() != many.draw(8).graph.list());
  CHECK(few.draw(9).graph.list() != other.draw(9).graph.list());
  CHECK_THROWS_AS(few.draw(10), std::invalid_argument);
  const std::int64_t examples[] = {4, 0, 4};
  const Batch batch = few.batch(examples);
  const Ints first = ints_of(batch.part<GraphPart>().first_nodes);
  CHECK(batch.count == 3);
  CHECK(first.front() == 0);
  CHECK(first.back() == batch.part<GraphPart>().adjacency.nodes());
  CHECK(first[1] == first[3] - first[2]);
  CHECK(batch.inputs.shape() == Shape{batch.part<GraphPart>().adjacency.nodes(), 1});
}

// Returns the colors of the nodes after three rounds of refinement, which isomorphic graphs share.
std::multiset<std::size_t> fingerprint(const Adjacency& graph) {
  static std::map<std::vector<std::size_t>, std::size_t> numbers;  // of all graphs
  std::vector<std::size_t> colors(graph.nodes());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<std::size_t>> seen(colors.size());
    for (const auto& [from, to] : graph.list()) seen[to].push_back(colors[from]);
    for (std::size_t v = 0; v < seen.size(); ++v) {
      std::ranges::sort(seen[v]);
      seen[v].push_back(colors[v]);
    }
    for (std::size_t v = 0; v < seen.size(); ++v)
      colors[v] = numbers.emplace(seen[v], numbers.size() + 1).first->second;
  }
  return {colors.begin(), colors.end()};
}

TEST_CASE("synthetic graphs: no validation graph is isomorphic to a training graph") {
  SyntheticGraphOptions options{.least_nodes = 12, .most_nodes = 14, .examples = 3000, .seed = 1};
  const SyntheticGraphs train(options);
  options.seed = 2;
  options.split = Split::validation;
  const SyntheticGraphs held(options);
  std::set<std::multiset<std::size_t>> seen, kept;
  std::set<std::int32_t> kinds;
  for (std::int64_t i = 0; i < 3000; ++i) {
    seen.insert(fingerprint(train.draw(i).graph));
    kept.insert(fingerprint(held.draw(i).graph));
    kinds.insert(held.draw(i).label);
  }
  CHECK(std::ranges::none_of(kept, [&](const auto& print) { return seen.contains(print); }));
  CHECK(kept.size() > 100);
  CHECK(seen.size() > 500);
  CHECK(kinds.size() == 5);
}

TEST_CASE(
    "synthetic graphs: edges are read from text again, and options out of range are refused") {
  const Adjacency graph = parse_edges("  0-1 2-1\n3-3 ");
  CHECK(graph.nodes() == 4);
  CHECK(edges_text(graph) == "0-1 1-2 3-3");
  for (const std::string word : {"1", "1-", "-1", "a-b", "1-2-3", "1--2", "0-100000", "1,2"})
    CHECK_ERROR(parse_edges("0-1 " + word), "edge '" + word + "'", "0-1");
  CHECK_ERROR(parse_edges(" "), "graph ' ': no edges");
  const SyntheticGraphOptions wrong[] = {{.least_nodes = 11},
                                         {.least_nodes = 20, .most_nodes = 19},
                                         {.most_nodes = 1001},
                                         {.examples = 0}};
  for (const SyntheticGraphOptions& options : wrong)
    CHECK_THROWS_AS(SyntheticGraphs{options}, std::invalid_argument);
}

constexpr NodeSplit few{.training = 2, .validation = 2, .test = 3};

TEST_CASE_FIXTURE(TemporaryFolder,
                  "citations: reads papers, features divided by row sums, and splits by lines") {
  write("small.content", content);
  write("small.cites", cites);
  write("README", "");
  const NodeGraph whole = load_node_graph(path(), few);
  CHECK(whole.graph.nodes() == 8);
  CHECK(whole.graph.edges() == 2 * 6);
  CHECK(whole.classes == Strings{"art", "maths"});
  CHECK(whole.labels == Ints{1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(whole.names[7] == "p8");
  check_close(whole.features.to(f64),
              Array::of(std::vector<double>{1, 0, 0, 0, .5, .5, .5, .5, 0, 0, 0,  1,
                                            0, 0, 0, 0, 0,  1,  1,  0,  0, 0, .5, .5},
                        {8, 3}));
  CHECK(whole.training == std::vector<std::int64_t>{0, 1});
  CHECK(whole.validation == std::vector<std::int64_t>{2, 3});
  CHECK(whole.test == std::vector<std::int64_t>{5, 6, 7});
}

TEST_CASE_FIXTURE(TemporaryFolder, "bug: negative features were refused") {
  write("small.content", "p1 1 -1 0 art\np2 -3 0 -1 maths\np3 0 0 0 art\np4 2 2 4 art\n");
  write("small.cites", "p1 p2\n");
  const NodeGraph whole = load_node_graph(path(), {.training = 2, .validation = 1, .test = 1});
  check_close(
      whole.features.to(f64),
      Array::of(std::vector<double>{.5, -.5, 0, -.75, 0, -.25, 0, 0, 0, .25, .25, .5}, {4, 3}));
}

TEST_CASE_FIXTURE(TemporaryFolder,
                  "bug: the citations of Citeseer that name no paper were refused") {
  write("small.content", content);
  write("small.cites", std::string(cites) + "p1 p9\nx p2\n");
  const NodeGraph whole = load_node_graph(path(), few);
  CHECK(whole.graph.edges() == 2 * 6);
  check_says(whole.remark, {"small.cites: 2 of 9 edges left out", "line 8: node p9"});
}

TEST_CASE("citations: errors name file, line and cause") {
  const auto load = [](const std::string& papers, const std::string& links,
                       const NodeSplit& split = few) {
    const TemporaryFolder folder;
    folder.write("small.content", papers);
    folder.write("small.cites", links);
    return message_of([&] { load_node_graph(folder.path(), split); });
  };
  const std::string good = content;
  CHECK(load(good, cites).empty());
  check_says(load(good, "p1 p3\np9 p1\n"),
             {"small.cites: line 2", "node p9 is not among the 8 nodes of", "small.content",
              "1 of 2 edges"});
  check_says(load(good, "p1 p3 p4\n"), {"small.cites: line 1: ", "two nodes, found 3 words"});
  check_says(load(good, "p1\n"), {"line 1: ", "found 1 word"});
  check_says(
      load(good + "p9\t1\t0\t2\n", cites),
      {"small.content: line 10: the class after the 3 features is missing (the last word is '2')"});
  check_says(load(good + "p9\t1\t0\tart\n", cites),
             {"small.content: line 10: the line has 2 features; expected 3, as in line 1"});
  check_says(load(good + "p9\t1\t0\t0\t0\tart\n", cites),
             {"line 10: the line has 4 features; expected 3"});
  check_says(load("p1 maths\n", cites),
             {"line 1: expected a name, features and a class, found 2 words"});
  check_says(load(good + "p9 1 x 0 art\n", cites), {"line 10: feature 'x'", "number"});
  check_says(load(good + "p9 1 nan 0 art\n", cites), {"feature 'nan'"});
  check_says(load(good + "p9 1 1e99 0 art\n", cites), {"feature '1e99'"});
  check_says(load(good + "p3 1 0 0 art\n", cites), {"line 10: node p3 is also in line 3"});
  check_says(load(good + "p9 1 0 0 music\n", cites),
             {"small.content: line 10: class 'music' is unknown", "first 2 nodes"});
  check_says(
      load(good, cites, {}),
      {"8 nodes; expected at least the sum of 140 training, 500 validation and 1000 test nodes"});
  check_says(load("", cites), {"0 nodes; expected"});
  check_says(load(good + "p9 1 0 0 th\xE9orie\n", cites),
             {"small.content: byte 125 (line 10)", "UTF-8"});
  check_says(load(good, "\n"), {"small.cites: the file has no edges"});
  CHECK(load("\xEF\xBB\xBF" + good, "\xEF\xBB\xBF" + std::string(cites)).empty());
  CHECK(load(good.substr(0, good.size() - 1), "p1 p3").empty());  // no newline at the end
  const TemporaryFolder folder;
  CHECK_ERROR(load_node_graph(folder.path("none"), few), "none: cannot be listed");
  folder.write("a.content", content);
  CHECK_ERROR(load_node_graph(folder.path(), few),
              "expected one file *.cites or *.cites.gz, found a.content", "linqs.org");
  folder.write("a.cites", cites);
  folder.write("b.content", content);
  CHECK_ERROR(load_node_graph(folder.path(), few), "expected one file *.content",
              "found a.content, b.content");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
