#include "layers/additive_graph_attention.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/graphs.hpp"
#include "autograd/ops/indexing.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

constexpr double slope_of_scores = 0.2;

std::int64_t width_of_heads(std::int64_t out, const AdditiveGraphAttention::Options& options) {
  const std::int64_t H = options.heads;
  require(H >= 1 && (options.averages || out % H == 0),
          "additive graph attention: {} heads do not divide width {}; expected a divisor", H, out);
  return options.averages ? out : out / H;
}

// Returns vectors of H heads, as of linear maps to one number.
Parameter head_vectors(std::int64_t H, std::int64_t D, Random& init) {
  const double bound = std::sqrt(6.0 / static_cast<double>(D + 1));
  return {initial_uniform({H, D}, bound, init), Role::weight};
}

// Returns the numbers in `looped` of the edges of `graph`, whose loops are added to it.
Array numbers_of_edges(const Adjacency& graph, const Adjacency& looped) {
  Array numbers = Array::zeros({graph.edges()}, DType::int32);
  if (is_dry_run()) return numbers;
  const auto out = numbers.mutable_values<std::int32_t>();
  const std::vector<Edge> own = graph.list(), all = looped.list();
  for (std::size_t e = 0, place = 0; e < own.size(); ++place)
    if (all[place] == own[e]) out[e++] = static_cast<std::int32_t>(place);
  return numbers;
}

}  // namespace

AdditiveGraphAttention::AdditiveGraphAttention(std::int64_t in, std::int64_t out, Random& init,
                                               const Options& options)
    : WeightedGraphLayer(std::nullopt, out, options.activation),
      value(in, options.heads * width_of_heads(out, options), init,
            {.bias = false, .glorot = true}),
      target(head_vectors(options.heads, width_of_heads(out, options), init)),
      source(head_vectors(options.heads, width_of_heads(out, options), init)),
      averages(options.averages),
      weight_dropout(options.weight_dropout) {}

// Returns w of all edges from z (N, H · D), (E, H).
Tensor AdditiveGraphAttention::attend(const Adjacency& looped, const Tensor& z) const {
  const std::int64_t N = z.dim(0), H = target.tensor.dim(0), D = target.tensor.dim(1);
  const Tensor by_head = reshape(z, {N, H, D});
  return edge_softmax(looped, sum(by_head * target.tensor, {2}), sum(by_head * source.tensor, {2}),
                      slope_of_scores);
}

Tensor AdditiveGraphAttention::weights(const Adjacency& graph, const NodeFeatures& x) const {
  const Adjacency looped = graph.with_loops();
  return tapestry::gather(attend(looped, x.times(value)), 0, numbers_of_edges(graph, looped));
}

Tensor AdditiveGraphAttention::gather(const Adjacency& graph, const NodeFeatures& x,
                                      Random* noise) const {
  const Adjacency looped = graph.with_loops();
  const Tensor z = x.times(value);  // (N, H · D)
  Tensor w = attend(looped, z);
  if (noise && weight_dropout > 0) w = dropout(w, weight_dropout, *noise);
  const Tensor y = neighbor_sum(looped, z, w);
  if (!averages) return y;
  return mean(reshape(y, {y.dim(0), w.dim(1), y.dim(1) / w.dim(1)}), {1});
}

void AdditiveGraphAttention::fields(FieldVisitor& visit) {
  common_fields(visit);
  visit("value", value);
  visit("target", target);
  visit("source", source);
}

}  // namespace tapestry
