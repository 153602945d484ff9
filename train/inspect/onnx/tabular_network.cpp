#include "train/inspect/onnx/layers.hpp"
#include "train/inspect/onnx/models.hpp"

namespace tapestry::onnx {
namespace {

// x (B, N) -> (B, N, D)
Value embedded(const NumberEmbedding& layer, const Value& x) {
  const Within module(x, layer.path());
  Graph& graph = *x.graph;
  const auto of_bins = [&](const Array& values, const char* name) {
    return graph.constant(values.to(DType::float32), name);
  };
  const Value linear =
      unsqueeze(x, {2}) * graph.parameter(layer.weight) + graph.parameter(layer.bias);
  if (layer.low.dim(2) == 0) return linear;
  const Value columns = unsqueeze(transpose(x, {1, 0}), {2});  // (N, B, 1)
  const Value share = (columns - of_bins(layer.low, "low")) * of_bins(layer.scale, "scale");
  const Value encoded = relu(share) - of_bins(layer.is_first, "is_first") * relu(-share) -
                        of_bins(layer.is_inner, "is_inner") * relu(share + -1.0);
  return linear + transpose(matmul(encoded, graph.parameter(layer.pieces)), {1, 0, 2});
}

}  // namespace

Value forward(const TabularNetwork& model, const TableRows& rows) {
  const Within module(rows.numbers ? *rows.numbers : *rows.categories, model.path());
  const TabularNetworkOptions& options = model.options;
  const std::int64_t N = std::ssize(options.edges), K = std::ssize(model.categories);
  std::vector<Value> parts;
  if (N > 0)
    parts.push_back(model.numbers ? reshape(embedded(*model.numbers, *rows.numbers),
                                            {0, N * options.number_width})
                                  : *rows.numbers);
  for (std::int64_t k = 0; k < K; ++k)
    parts.push_back(squeeze(forward(model.categories[k], slice(*rows.categories, 1, k, k + 1)), 1));
  Value y = parts.size() == 1 ? parts.front() : concat(parts, 1);
  Graph& graph = *y.graph;
  y = unsqueeze(y, {1});  // (B, 1, F)
  if (model.factors) y = y * graph.parameter(*model.factors);
  for (const Linear& layer : model.layers) y = activate(options.activation, forward(layer, y));
  const Value by_member = matmul(transpose(y, {1, 0, 2}), graph.parameter(model.head));
  return transpose(by_member + graph.parameter(model.head_bias), {1, 0, 2});
}

}  // namespace tapestry::onnx
