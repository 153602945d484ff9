#include "data/graphs/node_graph.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::int32_t members = 34;

// Pairs of members, who are numbered from 1.
constexpr std::array<Edge, 78> met{{
    {1, 2},   {1, 3},   {1, 4},   {1, 5},   {1, 6},   {1, 7},   {1, 8},   {1, 9},   {1, 11},
    {1, 12},  {1, 13},  {1, 14},  {1, 18},  {1, 20},  {1, 22},  {1, 32},  {2, 3},   {2, 4},
    {2, 8},   {2, 14},  {2, 18},  {2, 20},  {2, 22},  {2, 31},  {3, 4},   {3, 8},   {3, 9},
    {3, 10},  {3, 14},  {3, 28},  {3, 29},  {3, 33},  {4, 8},   {4, 13},  {4, 14},  {5, 7},
    {5, 11},  {6, 7},   {6, 11},  {6, 17},  {7, 17},  {9, 31},  {9, 33},  {9, 34},  {10, 34},
    {14, 34}, {15, 33}, {15, 34}, {16, 33}, {16, 34}, {19, 33}, {19, 34}, {20, 34}, {21, 33},
    {21, 34}, {23, 33}, {23, 34}, {24, 26}, {24, 28}, {24, 30}, {24, 33}, {24, 34}, {25, 26},
    {25, 28}, {25, 32}, {26, 32}, {27, 30}, {27, 34}, {28, 34}, {29, 32}, {29, 34}, {30, 33},
    {30, 34}, {31, 33}, {31, 34}, {32, 33}, {32, 34}, {33, 34},
}};

constexpr std::array<std::int32_t, 17> followed_mr_hi{1,  2,  3,  4,  5,  6,  7,  8, 9,
                                                      11, 12, 13, 14, 17, 18, 20, 22};

}  // namespace

NodeDataset::NodeDataset(std::shared_ptr<const NodeGraph> whole, std::vector<std::int64_t> nodes)
    : whole_(std::move(whole)), nodes_(std::move(nodes)) {
  require(!nodes_.empty(), "NodeDataset: no nodes; expected at least one");
  for (const std::int64_t node : nodes_)
    require(node >= 0 && node < whole_->graph.nodes(), "NodeDataset: node {}; expected 0 to {}",
            node, whole_->graph.nodes() - 1);
  if (whole_->entries) {
    sparse_ = SparseMatrix{*whole_->entries, whole_->features};
    return;
  }
  SparseMatrix sparse = sparse_matrix(whole_->features);
  if (sparse.values.size() <= whole_->features.size() / 8) sparse_ = std::move(sparse);
}

std::int64_t NodeDataset::node(std::int64_t example) const {
  require_example("NodeDataset", example);
  return nodes_[example];
}

void NodeDataset::add_inputs_to(Checksum& sum) const {
  sum.add(whole_->graph.incoming().offsets);
  sum.add(whole_->graph.incoming().neighbors);
  sum.add(whole_->features);
  if (whole_->entries) {
    sum.add(whole_->entries->incoming().offsets);
    sum.add(whole_->entries->incoming().neighbors);
  }
}

void NodeDataset::add_to(Checksum& sum) const {
  add_inputs_to(sum);
  sum.add(whole_->labels);
  sum.add(nodes_);
}

// Leaves out the labels of the nodes of other splits.
bool NodeDataset::add_examples_to(Checksum& sum) const {
  add_inputs_to(sum);
  for (const std::int64_t node : nodes_)
    sum.add(std::vector{node, std::int64_t{whole_->labels[node]}});
  return true;
}

Batch NodeDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t N = whole_->graph.nodes();
  Batch batch{.inputs = sparse_ ? sparse_->values : whole_->features,
              .targets = Array::full({N}, ignored_target, DType::int32),
              .count = 0};
  GraphPart part{.adjacency = whole_->graph};
  if (sparse_) part.features = sparse_->entries;
  batch.auxiliary = std::move(part);
  if (is_dry_run()) return with_all_counted(std::move(batch));
  const auto targets = batch.targets.mutable_values<std::int32_t>();
  for (const std::int64_t example : examples) {
    const auto at = node(example);
    batch.count += targets[at] == ignored_target;
    targets[at] = whole_->labels[at];
  }
  return batch;
}

NodeGraph karate_club(const std::vector<std::int64_t>& labeled) {
  std::vector<Edge> edges;
  for (const auto& [a, b] : met) edges.push_back({a - 1, b - 1});
  NodeGraph club{.graph = Adjacency::undirected(members, std::move(edges)),
                 .features = Array::zeros({members, members}),
                 .classes = {"Mr. Hi", "Officer"}};
  for (std::int32_t node = 0; node < members; ++node) {
    club.features.mutable_values<float>()[node * members + node] = 1;
    club.labels.push_back(std::ranges::find(followed_mr_hi, node + 1) == followed_mr_hi.end());
    club.names.push_back(std::to_string(node + 1));
  }
  for (const std::int64_t member : labeled)
    expect_option(member >= 1 && member <= members, "labeled", "member {}: expected 1 to {}",
                  member, members);
  for (std::int64_t node = 0; node < members; ++node) {
    const bool known = std::ranges::find(labeled, node + 1) != labeled.end();
    (known ? club.training : club.validation).push_back(node);
  }
  std::set<std::int32_t> sides;
  for (const std::int64_t node : club.training) sides.insert(club.labels[node]);
  expect_option(sides.size() == 2 && !club.validation.empty(), "labeled",
                "{} of {} members are labeled; expected at least one of each class, and not all",
                club.training.size(), members);
  return club;
}

}  // namespace tapestry
