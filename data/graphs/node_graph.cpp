#include "data/graphs/node_graph.hpp"

#include <utility>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"

namespace tapestry {

NodeDataset::NodeDataset(std::shared_ptr<const NodeGraph> whole, std::vector<std::int64_t> nodes)
    : whole_(std::move(whole)), nodes_(std::move(nodes)) {
  require(!nodes_.empty(), "NodeDataset: no nodes");
  for (const std::int64_t node : nodes_)
    require(node >= 0 && node < whole_->graph.nodes(), "NodeDataset: node {} of {}", node,
            whole_->graph.nodes());
  SparseMatrix sparse = sparse_matrix(whole_->features);
  if (sparse.values.size() <= whole_->features.size() / 8) sparse_ = std::move(sparse);
}

std::int64_t NodeDataset::node(std::int64_t example) const {
  require(example >= 0 && example < size(), "NodeDataset: example {} of {}", example, size());
  return nodes_[example];
}

void NodeDataset::add_to(Checksum& sum) const {
  sum.add(whole_->graph.incoming().offsets);
  sum.add(whole_->graph.incoming().neighbours);
  sum.add(whole_->features);
  sum.add(whole_->labels);
  sum.add(nodes_);
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

}  // namespace tapestry
