#include <doctest/doctest.h>

#include "autograd/checksum.hpp"
#include "data/graphs/node_graph.hpp"
#include "data/images/images.hpp"
#include "data/series/series.hpp"
#include "data/text/names.hpp"
#include "data/text/pairs.hpp"
#include "data/text/text.hpp"

// Tests the checksums by which a resumed run recognizes its data.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("data");

std::string checksum_of(const Dataset& data) {
  Checksum sum;
  data.add_to(sum);
  return sum.hex();
}

TEST_CASE("checksum: has XXH3's values, for bytes in any parts") {
  CHECK(Checksum().hex() == "2d06800538d394c2");
  std::vector<std::int32_t> numbers(1000);
  for (std::int32_t i = 0; i < 1000; ++i) numbers[i] = i * i;
  Checksum whole, parts;
  whole.add(numbers);
  for (const std::int32_t number : numbers) parts.add(std::vector{number});
  CHECK(whole.hex() == parts.hex());
  CHECK(checksum(Array::of<std::int32_t>(numbers, {10, 100})) == whole.hex());
  numbers[999] ^= 1;
  CHECK(checksum(Array::of<std::int32_t>(numbers, {1000})) != whole.hex());
}

TEST_CASE("checksum: each changed example changes the checksum of the data") {
  using Words = std::vector<NameDataset::Name>;
  const auto names = [](const Words& words) { return checksum_of(NameDataset(words)); };
  CHECK(names({{1, 2}, {3}}) == names({{1, 2}, {3}}));
  CHECK(names({{1, 2}, {3}}) != names({{1}, {2, 3}}));
  const auto pairs = [](const std::vector<TokenPair>& all) {
    return checksum_of(PairDataset(all, {}));
  };
  CHECK(pairs({{{1, 2}, {3}}}) == pairs({{{1, 2}, {3}}}));
  CHECK(pairs({{{1, 2}, {3}}}) != pairs({{{1}, {2, 3}}}));

  const auto text = [](std::vector<std::int32_t> tokens) {
    return checksum_of(TextDataset(std::make_shared<const TokensInMemory>(std::move(tokens)),
                                   {.begin = 1, .end = 5, .context = 2}));
  };
  CHECK(text({1, 2, 3, 4, 5, 6}) == text({0, 2, 3, 4, 5, 7}));  // of its range
  CHECK(text({1, 2, 3, 4, 5, 6}) != text({1, 2, 3, 4, 0, 6}));

  const auto images = [](float pixel, std::int32_t label) {
    return checksum_of(ImageDataset(Array::of<float>({pixel, 0, 0, 1}, {1, 2, 2}), {label}));
  };
  CHECK(images(0.5, 1) == images(0.5, 1));
  CHECK(images(0.5, 1) != images(0.25, 1));
  CHECK(images(0.5, 1) != images(0.5, 2));

  const auto series = [](float last) {
    return checksum_of(SeriesDataset(Array::of<float>({1, 2, 3, last}, {4, 1}),
                                     {.begin = 0, .end = 3}, {.context = 1, .horizon = 1}));
  };
  CHECK(series(4) == series(4));
  CHECK(series(4) != series(5));  // another split is measured on it

  const auto nodes = [](std::vector<Edge> edges, std::vector<std::int32_t> labels) {
    NodeGraph graph{.graph = Adjacency(3, std::move(edges)),
                    .features = Array::full({3, 1}, 1),
                    .labels = std::move(labels)};
    return checksum_of(NodeDataset(std::make_shared<const NodeGraph>(std::move(graph)), {0, 1}));
  };
  CHECK(nodes({{0, 1}}, {0, 1, 0}) == nodes({{0, 1}}, {0, 1, 0}));
  CHECK(nodes({{0, 1}}, {0, 1, 0}) != nodes({{1, 0}}, {0, 1, 0}));
  CHECK(nodes({{0, 1}}, {0, 1, 0}) != nodes({{0, 1}}, {0, 1, 1}));
}

TEST_CASE("checksum: the checksum of a split does not depend on other splits") {
  const Array values = Array::of<float>({1, 2, 3, 4, 5, 6}, {6, 1});
  const auto series = [](const Array& all, std::int64_t begin, std::int64_t end) {
    return examples_checksum(
        SeriesDataset(all, {.begin = begin, .end = end}, {.context = 1, .horizon = 1}));
  };
  const Array others = Array::of<float>({1, 2, 3, 4, 5, 7}, {6, 1});
  CHECK(series(values, 0, 3) != series(values, 3, 6));
  CHECK(series(values, 3, 5) == series(others, 3, 5));
  CHECK(series(values, 3, 6) != series(others, 3, 6));

  const auto nodes = [](std::vector<std::int32_t> labels, std::vector<std::int64_t> chosen) {
    NodeGraph graph{.graph = Adjacency(3, std::vector<Edge>{{0, 1}}),
                    .features = Array::full({3, 1}, 1),
                    .labels = std::move(labels)};
    return examples_checksum(
        NodeDataset(std::make_shared<const NodeGraph>(std::move(graph)), std::move(chosen)));
  };
  CHECK(nodes({0, 1, 0}, {0, 1}) == nodes({0, 1, 1}, {0, 1}));
  CHECK(nodes({0, 1, 0}, {0, 1}) != nodes({0, 0, 0}, {0, 1}));
  CHECK(nodes({0, 1, 0}, {0, 1}) != nodes({0, 1, 0}, {1, 0}));

  const auto pairs = [](const std::string& reference) {
    return examples_checksum(
        PairDataset({{.source = {1}, .target = {2}, .reference = reference}}, {}));
  };
  CHECK(pairs("one") == pairs("one"));
  CHECK(pairs("one") != pairs("two"));  // a prediction is compared with it
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
