#include "train/inspect/onnx/models.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/check.hpp"
#include "train/inspect/onnx/layers.hpp"

namespace tapestry::onnx {
namespace {

// Returns f(layer), with the layer as the first of these kinds that it is.
template <class Kind, class... Others>
Value by_kind(const Module& layer, const auto& f) {
  if (const auto* own = dynamic_cast<const Kind*>(&layer)) return f(*own);
  if constexpr (sizeof...(Others) > 0) return by_kind<Others...>(layer, f);
  throw_unhandled("layer");
}

// Returns logits by the rows of an embedding: x (B, T, C) -> (B, T, V).
Value read_out(const Embedding& embedding, const Value& x) {
  return matmul(x, transpose(x.graph->parameter(embedding.weight), {1, 0}));
}

// Returns the hidden states after the final norm, (B, T, C).
Value hidden(const Transformer& model, const Value& tokens) {
  const Sequence sequence{
      .longest = model.options.context, .length = lengths(tokens, 1, 2), .causal = true};
  Value x = forward(model.token_embedding, tokens);  // (B, T, C)
  x = forward(model.position_embedding, x, sequence);
  for (const TransformerBlock& block : model.blocks) x = forward(block, x, sequence);
  return model.final_norm ? forward(*model.final_norm, x) : x;
}

}  // namespace

Value forward(const Transformer& model, const Value& tokens) {
  const Within module(tokens, model.path());
  const Value x = hidden(model, tokens);
  return model.head ? forward(*model.head, x) : read_out(model.token_embedding, x);  // (B, T, V)
}

Value forward(const RecurrentNetwork& model, const Value& tokens) {
  const Within module(tokens, model.path());
  const Value x = forward(model.stack, forward(model.token_embedding, tokens));      // (B, T, C)
  return model.head ? forward(*model.head, x) : read_out(model.token_embedding, x);  // (B, T, V)
}

Value forward(const TextClassifier& model, const Value& tokens) {
  const Within module(tokens, model.path());
  const Value padding = padding_of(tokens, model.padding());
  const Sequence sequence{
      .longest = model.options.context, .length = lengths(tokens, 1, 2), .padding = padding};
  Value x = forward(model.token_embedding, tokens);  // (B, T, C)
  if (model.recurrent)
    x = forward(*model.recurrent, x);
  else
    x = forward(model.encoder, forward(model.position_embedding, x, sequence), sequence);
  if (model.final_norm) x = forward(*model.final_norm, x);
  if (model.first_token()) return forward(model.head, squeeze(slice(x, 1, 0, 1), 1));
  const Value zero = x.graph->constant(0.0), one = x.graph->constant(1.0);
  const Value kept = where(unsqueeze(padding, {2}), zero, one);  // (B, T, 1)
  return forward(model.head, sum(x * kept, 1) / sum(kept, 1));
}

Value forward(const DecoderClassifier& model, const Value& tokens) {
  const Within module(tokens, model.path());
  const Value padding = padding_of(tokens, model.padding());
  const Value none = tokens.graph->constant(std::int64_t{0}), zero = tokens.graph->constant(0.0),
              one = tokens.graph->constant(1.0);
  const Value kept = where(padding, zero, one);  // (B, T)
  const Value last = where(equal(sum_after(kept, 1), zero), kept, zero);
  const Value x = hidden(model.transformer, where(padding, none, tokens));  // (B, T, C)
  return forward(model.score, sum(x * unsqueeze(last, {2}), 1));
}

// --- encoder and decoder ---

namespace {

Value embed(const EncoderDecoder& model, const Embedding& embedding, const Value& tokens) {
  return forward(embedding, tokens) * std::sqrt(static_cast<double>(model.options.block.width));
}

}  // namespace

Value padding_of(const Value& source, std::int64_t padding_token) {
  return equal(source, source.graph->constant(padding_token));
}

Value encode(const EncoderDecoder& model, const Value& source, const Value& padding) {
  const Within module(source, model.path());
  const Sequence sequence{
      .longest = model.options.source_context, .length = lengths(source, 1, 2), .padding = padding};
  Value x = embed(model, model.source_embedding, source);  // (B, S, C)
  x = forward(model.encoder, forward(model.source_positions, x, sequence), sequence);
  return model.encoder_norm ? forward(*model.encoder_norm, x) : x;
}

Value decode(const EncoderDecoder& model, const Value& target, const Value& encoded,
             const std::optional<Value>& padding) {
  const Within module(target, model.path());
  const Embedding& table =
      model.target_embedding ? *model.target_embedding : model.source_embedding;
  const Sequence sequence{
      .longest = model.options.target_context, .length = lengths(target, 1, 2), .causal = true};
  Value x = forward(model.target_positions, embed(model, table, target), sequence);  // (B, T, C)
  for (const TransformerBlock& block : model.decoder)
    x = forward(block, x, sequence, Source{.x = encoded, .padding = padding});
  if (model.decoder_norm) x = forward(*model.decoder_norm, x);
  return model.head ? forward(*model.head, x) : read_out(table, x);  // (B, T, V)
}

// --- images ---

Posterior encode(const Vae& model, const Value& x) {
  const Within module(x, model.path());
  const Value hidden =
      forward(model.encoder, model.convolutions ? forward(*model.convolutions, x) : x);
  const Value mean = forward(model.mean, hidden);  // (B, Z)
  switch (model.options.sigma) {
    case Sigma::none:
      return {.mean = mean};
    case Sigma::per_dimension:
      return {.mean = mean, .log_variance = forward(*model.log_sigma, hidden) * 2.0};
    case Sigma::shared: {
      const Value log_sigma = x.graph->parameter(*model.shared_log_sigma);  // (1)
      return {.mean = mean, .log_variance = expand(log_sigma * 2.0, lengths(mean))};
    }
  }
  throw_unhandled("VAE's sigma");
}

Value expected_image(const Vae& model, const Value& z) {
  const Within module(z, model.path());
  Value decoded = forward(model.decoder, z);
  if (model.transposed_convolutions) decoded = forward(*model.transposed_convolutions, decoded);
  return model.options.likelihood == Likelihood::bernoulli ? sigmoid(decoded) : decoded;
}

namespace {

Value cut_squares(const VisionTransformerOptions& options, const Value& images) {
  const std::int64_t C = options.channels_in, P = options.patch;
  const std::int64_t rows = options.height / P, columns = options.width / P;
  const Value cut = reshape(images, {0, C, rows, P, columns, P});
  return reshape(transpose(cut, {0, 2, 4, 1, 3, 5}), {0, rows * columns, C * P * P});
}

}  // namespace

Value encode_images(const EncoderDecoder& model, const VisionTransformerOptions& options,
                    const Value& images) {
  const Within module(images, model.path());
  return forward(*model.patches, cut_squares(options, images));
}

Value forward(const VisionTransformer& model, const Value& images) {
  const Within module(images, model.path());
  const Value x = forward(model.patches, cut_squares(model.options, images));
  const bool first = model.options.readout == Readout::class_token;
  return forward(model.head, first ? squeeze(slice(x, 1, 0, 1), 1) : mean(x, 1));
}

namespace {

Value downsample(Downsampling by, const Value& x) {
  if (by == Downsampling::stride) return x;
  return pool(by == Downsampling::max ? "MaxPool" : "AveragePool", x, 2);
}
}  // namespace

Value forward(const ConvolutionalClassifier& model, const Value& images) {
  const Within module(images, model.path());
  const ConvolutionalClassifierOptions& options = model.options;
  Value x = reshape(images, {0, options.channels_in, options.height, options.width});
  for (std::size_t i = 0; i < model.convolutions.size(); ++i) {
    x = forward(model.convolutions[i], x);
    if (!model.norms.empty()) x = forward(model.norms[i], x);
    x = activate(options.activation, x);
    if (model.blocks.empty()) x = downsample(options.downsampling, x);
  }
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    if (i > 0 && i % options.blocks == 0) x = downsample(options.downsampling, x);
    x = forward(model.blocks[i], x);
  }
  return forward(model.head, model.blocks.empty() ? reshape(x, {0, -1}) : mean(mean(x, 3), 2));
}

// --- series ---

namespace {

// Returns the forecasts of normalized windows: (B · M, T) -> (B · K, horizon), with K = M without
// targets.
Value predict(const Forecaster& model, const Value& windows) {
  const auto project = [&](const Value& y) {
    const Value flat = reshape(y, {-1, model.head.weight.tensor.dim(1)});
    return reshape(forward(model.head, flat), {-1, model.options.horizon});
  };
  if (!model.patches && !model.recurrent) return project(windows);
  const std::int64_t P = model.options.patch;
  const std::int64_t N = (model.options.context - P) / model.options.stride + 1;
  std::vector<std::int64_t> steps;  // steps of each patch
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t p = 0; p < P; ++p) steps.push_back(n * model.options.stride + p);
  const Value cut = gather(windows, windows.graph->integers(steps), 1);
  const Value patches = reshape(cut, {0, N, P});
  return project(model.patches ? forward(*model.patches, patches)
                               : last(forward(*model.recurrent, patches), 1));
}

// Returns the cycle of each series at the steps [first, first + steps) of each window:
// (B · M, steps).
Value cycle_at(const Forecaster& model, const Value& first_step, std::int64_t first,
               std::int64_t steps) {
  Graph& graph = *first_step.graph;
  std::vector<std::int64_t> numbers(steps);
  std::iota(numbers.begin(), numbers.end(), first);
  const Value at = remainder(unsqueeze(first_step, {1}) + graph.integers(numbers),
                             graph.integers({model.options.cycle}));
  return transpose(gather(graph.parameter(*model.cycle), at), {0, 2, 1});  // (B, M, steps)
}

}  // namespace

Value forward(const Forecaster& model, const Value& x, const std::optional<Value>& first_step) {
  const Within module(x, model.path());
  const std::int64_t T = model.options.context;
  const Value series = transpose(x, {0, 2, 1});  // (B, M, T)
  const Value windows = reshape(series, {-1, T});
  // Returns the rows of the targets: (B · M, 1) -> (B · K, 1).
  const auto of_targets = [&](const Value& rows) {
    if (model.options.targets.empty()) return rows;
    const Value all = reshape(rows, {-1, model.options.series});
    return reshape(gather(all, x.graph->integers(model.options.targets), 1), {-1, 1});
  };
  const auto back = [&](const Value& y) {
    const Value rows = model.options.targets.empty()
                           ? lengths(series, 0, 2)
                           : x.graph->integers({-1, std::ssize(model.options.targets)});
    const Value shape = concat({rows, x.graph->integers({model.options.horizon})}, 0);
    return transpose(reshape(y, shape), {0, 2, 1});
  };
  const auto forecast = [&](const Value& normal) {
    if (!model.cycle) return predict(model, normal);
    const Value past = reshape(cycle_at(model, *first_step, 0, T), {-1, T});
    Value ahead = cycle_at(model, *first_step, T, model.options.horizon);
    if (!model.options.targets.empty())
      ahead = gather(ahead, x.graph->integers(model.options.targets), 1);
    return predict(model, normal - past) + reshape(ahead, {-1, model.options.horizon});
  };
  switch (model.options.norm) {
    case WindowNorm::instance: {
      constexpr double epsilon = 1e-5;
      const Value center = mean(windows, 1, Keep::yes), centered = windows - center;
      const Value scale = sqrt(mean(centered * centered, 1, Keep::yes) + epsilon);
      return back(forecast(centered / scale) * of_targets(scale) + of_targets(center));
    }
    case WindowNorm::last: {
      const Value offset = slice(windows, 1, T - 1, T);
      return back(forecast(windows - offset) + of_targets(offset));
    }
  }
  throw_unhandled("window norm");
}

// --- graphs ---

namespace {

// Returns x (B, N) as (B, N, 1).
Value column(const Value& x) { return unsqueeze(x, {2}); }

Value gathered(const GraphConvolution& layer, const DenseGraphs& graphs) {
  const Value z = forward(layer.neighbors, graphs.features);  // (B, N, C)
  const Value degrees = sum(graphs.adjacency, 2, Keep::yes);  // (B, N, 1)
  switch (layer.normalization) {
    case Normalization::sum:
      return matmul(graphs.adjacency, z);
    case Normalization::mean:
      return matmul(graphs.adjacency, z) / at_least(degrees, z.graph->constant(1.0));
    case Normalization::symmetric: {
      const Value root = 1.0 / sqrt(degrees + 1);
      const Value scaled = z * root;
      return (matmul(graphs.adjacency, scaled) + scaled) * root;
    }
  }
  throw_unhandled("graph convolution");
}

Value gathered(const GraphAttention& layer, const DenseGraphs& graphs) {
  const std::int64_t H = layer.heads, C = layer.bias.tensor.dim(0), D = C / H;
  const auto heads = [&](const Linear& map) {
    return split_heads(forward(map, graphs.features), H, D);
  };
  const Value none = graphs.adjacency.graph->constant(0.0);
  const Hidden hidden{.keys = unsqueeze(equal(graphs.adjacency, none), {1}), .all_of_some = true};
  return join_heads(attend(heads(layer.query), heads(layer.key), heads(layer.value), D, hidden), C);
}

// Returns the adjacency (B, N, N) with ones on its diagonal.
Value with_loops(const Value& adjacency) {
  const Value nodes = counted_to(lengths(adjacency, 1, 2));
  const Value unit = to_float(equal(unsqueeze(nodes, {1}), unsqueeze(nodes, {0})));  // (N, N)
  return at_least(adjacency, unit);
}

Value gathered(const AdditiveGraphAttention& layer, const DenseGraphs& graphs) {
  const std::int64_t H = layer.target.tensor.dim(0), D = layer.target.tensor.dim(1);
  Graph& graph = *graphs.features.graph;
  const Value z = split_heads(forward(layer.value, graphs.features), H, D);  // (B, H, N, D)
  const auto scores = [&](const Parameter& vectors, std::int64_t axis) {
    const Value by_head = unsqueeze(graph.parameter(vectors), {1});  // (H, 1, D)
    return unsqueeze(sum(z * by_head, 3), {axis});
  };
  const Value both = leaky_relu(scores(layer.target, 3) + scores(layer.source, 2), 0.2);
  const Value missing = unsqueeze(equal(with_loops(graphs.adjacency), graph.constant(0.0)), {1});
  const double lowest = std::numeric_limits<float>::lowest();
  const Value y = matmul(softmax(where(missing, graph.constant(lowest), both)), z);
  return layer.averages ? mean(y, 1) : join_heads(y, H * D);
}

Value forward(const WeightedGraphLayer& layer, const DenseGraphs& graphs) {
  Value y = by_kind<GraphConvolution, GraphAttention, AdditiveGraphAttention>(
      layer, [&](const auto& own) { return gathered(own, graphs); });
  if (layer.own) y = y + forward(*layer.own, graphs.features);
  return activate(layer.activation, y + y.graph->parameter(layer.bias));
}

Value forward(const Gcnii& layer, const DenseGraphs& graphs, const Value& initial) {
  const Value looped = with_loops(graphs.adjacency);
  const Value root = 1.0 / sqrt(sum(looped, 2, Keep::yes));  // (B, N, 1)
  const Value near = matmul(looped, graphs.features * root) * root;
  const Value mixed = near * (1 - layer.alpha) + initial * layer.alpha;
  const Value y = forward(layer.map, mixed) * layer.beta + mixed * (1 - layer.beta);
  return activate(layer.activation, y);
}

Value forward(const GraphLayer& layer, const DenseGraphs& graphs, const Value& initial) {
  const Within module(graphs.features, layer.path());
  if (const auto* deep = dynamic_cast<const Gcnii*>(&layer)) return forward(*deep, graphs, initial);
  return forward(dynamic_cast<const WeightedGraphLayer&>(layer), graphs);
}

// Returns the pooled nodes of each graph: x (B, N, C) -> (B, C).
Value pool(Pooling pooling, const Value& x, const Value& node_mask) {
  Graph& graph = *x.graph;
  const Value there = column(node_mask);
  const auto total = [&] { return sum(where(there, x, graph.constant(0.0)), 1); };
  switch (pooling) {
    case Pooling::sum:
      return total();
    case Pooling::mean:
      return total() / at_least(sum(to_float(there), 1), graph.constant(1.0));
    case Pooling::max: {
      const double lowest = std::numeric_limits<float>::lowest();
      return max(where(there, x, graph.constant(lowest)), 1);
    }
  }
  throw_unhandled("pooling");
}

}  // namespace

Value forward(const GraphNetwork& model, const DenseGraphs& graphs) {
  const Within module(graphs.features, model.path());
  Value y = graphs.features;
  if (model.input) y = activate(model.input_activation, forward(*model.input, y));
  const Value initial = y;
  for (const std::unique_ptr<GraphLayer>& layer : model.layers)
    y = forward(*layer, {.features = y, .adjacency = graphs.adjacency}, initial);
  if (model.pooling) y = pool(*model.pooling, y, *graphs.node_mask);
  return model.head ? forward(*model.head, y) : y;
}

// --- memories ---

namespace {

Value log_of_sigmoid(const Value& x) { return -softplus(-x); }

Value recall(const CompositeSum& memory, const Value& x) {
  return sum(forward(memory.value, x), 1);
}

// Returns Σ_t v_t g_(t+1) … g_T: logarithms of the gates and values (B, T, C) -> (B, C).
Value forgotten(const Value& log_gates, const Value& values) {
  return sum(exp(sum_after(log_gates, 1)) * values, 1);
}

Value recall(const ExponentialForgetting& memory, const Value& x) {
  const Value values = forward(memory.value, x);
  const Value rate = memory.decay ? log_of_sigmoid(x.graph->parameter(*memory.decay))
                                  : x.graph->constant(std::log(memory.gamma));  // (C) or ()
  return forgotten(expand(rate, lengths(values)), values);
}

Value recall(const RecurrentMemory& memory, const Value& x) {
  return last(forward(memory.network, x), 1);
}

Value recall(const ForgettingGate& memory, const Value& x) {
  const Value log_gates = log_of_sigmoid(forward(memory.gate, x));
  return forgotten(log_gates, forward(memory.value, x));
}

// Returns the sum with one weight per element, for SigmoidAttention and SoftmaxAttention.
Value weighted_sum(const auto& memory, const Value& x, Value (*weigh)(const Value&)) {
  const Value weights = weigh(transpose(forward(memory.score, x), {0, 2, 1}));  // (B, 1, T)
  return squeeze(matmul(weights, forward(memory.value, x)), 1);
}
Value recall(const SigmoidAttention& memory, const Value& x) {
  return weighted_sum(memory, x, sigmoid);
}
Value recall(const SoftmaxAttention& memory, const Value& x) {
  return weighted_sum(memory, x, softmax);
}

Value recall(const LinearAttention& memory, const Value& x) {
  const Attention& own = memory.attention;
  const Value query = forward(own.query, unsqueeze(last(x, 1), {1}));  // (B, 1, C)
  const Value total =
      matmul(matmul(query, transpose(forward(own.key, x), {0, 2, 1})), forward(own.value, x));
  return squeeze(total, 1) / to_float(lengths(x, 1, 2));
}

// Returns the output of QueryKeyMemory and MultiHeadMemory, whose query is the last element.
Value recall(const auto& memory, const Value& x) {
  return squeeze(forward(memory.attention, unsqueeze(last(x, 1), {1}), x), 1);
}

Value recall_by_kind(const Memory& memory, const Value& x) {  // (B, T, C) -> (B, C)
  const Within module(x, memory.path());
  return by_kind<CompositeSum, ExponentialForgetting, RecurrentMemory, ForgettingGate,
                 SigmoidAttention, SoftmaxAttention, LinearAttention, QueryKeyMemory,
                 MultiHeadMemory>(memory, [&](const auto& own) { return recall(own, x); });
}

}  // namespace

Value forward(const MemoryNetwork& model, const Value& symbols) {
  const Within module(symbols, model.path());
  const Value x = sum(forward(model.embedding, symbols), 2);  // (B, T, C)
  const Value question = last(x, 1), recalled = recall_by_kind(*model.memory, x);
  return forward(model.readout, concat({recalled, question, recalled * question}, -1));
}

Value forward(const MemoryRegressor& model, const Value& x) {
  const Within module(x, model.path());
  return squeeze(forward(model.readout, recall_by_kind(*model.memory, forward(model.embedding, x))),
                 1);
}

}  // namespace tapestry::onnx
