#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <regex>
#include <set>

#include "autograd/buffer_pool.hpp"
#include "autograd/check.hpp"
#include "autograd/gradcheck.hpp"
#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "autograd/tape.hpp"
#include "layers/convolution1d.hpp"
#include "layers/graph.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "layers/models/forecaster.hpp"
#include "layers/models/memory.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/transformer.hpp"
#include "layers/models/vae.hpp"
#include "layers/models/vision_transformer.hpp"
#include "optim/adam.hpp"
#include "optim/clip.hpp"
#include "train/decode/generate.hpp"

namespace tapestry {
namespace {

using In = const std::vector<Tensor>&;
using Strings = std::vector<std::string>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr DType f32 = DType::float32, f64 = DType::float64;

Array normal(const Shape& shape, DType dtype = f64) {
  static std::uint64_t step = 0;
  Array array(shape, f32);
  Random(0, Stream::data, ++step).fill_normal(array, 0, 1);
  return array.to(dtype);
}

Array pixels(const Shape& shape, DType dtype = f64) {
  Array array(shape, f32);
  Random(1, Stream::data).fill_uniform(array, 0.05, 0.95);
  return array.to(dtype);
}

Array ints(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Array::of(values, shape);
}

Array random_tokens(const Shape& shape, std::int64_t vocabulary, std::uint64_t seed = 2) {
  Array tokens(shape, DType::int32);
  Random random(seed, Stream::data);
  for (std::int32_t& token : tokens.mutable_values<std::int32_t>())
    token = static_cast<std::int32_t>(random.below(vocabulary));
  return tokens;
}

std::vector<double> doubles(const Array& array) {
  const Array wide = array.to(f64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

bool same_bits(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

// The largest |a - b| / max(1, |b|); infinite where either is NaN or the shapes differ.
double distance(const Array& a, const Array& b) {
  if (a.shape() != b.shape()) return infinity;
  const std::vector<double> x = doubles(a), y = doubles(b);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    worst = std::max(worst, std::isnan(error) ? infinity : error);
  }
  return worst;
}

void set(Parameter& parameter, const std::vector<double>& values) {
  const Shape& shape = parameter.tensor.shape();
  parameter.value().copy_from(Array::of(values, shape).to(parameter.tensor.dtype()));
}

Random init(std::uint64_t seed = 0) { return Random(seed, Stream::init); }

// Every parameter N(0, 0.4²), but a norm's weight N(1, 0.4²): no zeros that could hide a mistake.
template <class M>
M& randomised(M& module, DType dtype) {
  module.convert(f32);
  std::uint64_t step = 0;
  for (Parameter* parameter : module.parameters()) {
    const bool scales = parameter->role == Role::norm && parameter->name.ends_with("weight");
    Array values = parameter->value();
    Random(3, Stream::init, ++step).fill_normal(values, scales ? 1 : 0, 0.4);
  }
  module.convert(dtype);
  return module;
}

Strings names(Module& module) {
  Strings result;
  for (const Parameter* parameter : module.parameters()) result.push_back(parameter->name);
  return result;
}

// --- the table of layers ---

// "Layer" or "Layer: variant". f is checked by its inputs and by the layer's parameters.
struct Row {
  std::string name;
  std::shared_ptr<Module> module;
  std::function<Tensor(In)> f;
  std::vector<Array> inputs;

  std::string layer() const { return name.substr(0, name.find(':')); }
};

// f takes the layer and its inputs.
template <class M, class F>
Row make_row(const std::string& name, M layer, F f, const std::vector<Array>& inputs) {
  const auto module = std::make_shared<M>(std::move(layer));
  randomised(*module, f64);
  return {name, module, [module, f](In x) { return f(*module, x); }, inputs};
}

constexpr auto forward = [](const auto& layer, In x) { return layer.forward(x[0]); };
constexpr auto cross = [](const auto& layer, In x) { return layer.forward(x[0], x[1]); };

Array hide(std::int64_t rows, std::int64_t columns) {
  Array mask = normal({rows, columns});
  mask.mutable_values<double>()[1] = -infinity;
  return mask;
}

std::vector<Row> simple_rows() {
  Random r = init();
  const Array x = normal({2, 3, 6}), tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3});
  const auto noisy = [](const auto& layer, In in) {
    Random noise(1, Stream::dropout);
    return layer.forward(in[0], &noise);
  };
  return {
      make_row("Linear", Linear(6, 4, r), forward, {x}),
      make_row("Linear: no bias", Linear(6, 4, r, {.bias = false}), forward, {x}),
      make_row("Linear: a vector", Linear(6, 4, r), forward, {normal({6})}),
      make_row("Embedding", Embedding(5, 6, r),
               [tokens](const Embedding& layer, In) { return layer.forward(tokens); }, {}),
      make_row("LayerNorm", LayerNorm(6), forward, {x}),
      make_row("Dropout", Dropout(0.4), noisy, {x}),
      make_row("Dropout: no noise", Dropout(0.4),
               [](const Dropout& layer, In in) { return layer.forward(in[0], nullptr); }, {x}),
      make_row("FeedForward: gelu", FeedForward(6, 9, r), forward, {x}),
      make_row("FeedForward: gelu_tanh", FeedForward(6, 9, r, {Activation::gelu_tanh, {}, {}}),
               forward, {x}),
      make_row("FeedForward: relu", FeedForward(6, 9, r, {Activation::relu, {}, {.bias = false}}),
               forward, {x}),
      make_row("SinusoidalPositions", SinusoidalPositions(), forward, {x}),
      make_row("LearnedPositions", LearnedPositions(5, 6, r), forward, {x}),
      make_row("LearnedPositions: later", LearnedPositions(5, 6, r),
               [](const LearnedPositions& layer, In in) { return layer.forward(in[0], 2); }, {x}),
      make_row("Mlp: relu", Mlp({6, 5, 4, 3}, r), forward, {x}),
      make_row("Mlp: gelu to the end", Mlp({6, 5, 3}, r, {Activation::gelu, true}), forward, {x}),
      make_row("Mlp: one layer", Mlp({6, 2}, r), forward, {x}),
  };
}

// Exact functions of queries, keys and values: with scaled keys, of the keys times their scales.
constexpr auto whole_features = [](const RandomFeatures& layer, In x) {
  const Features features = layer.forward(x[0]);
  if (features.log_scales.empty()) return features.values;
  const Shape& by_time = features.log_scales.shape();
  const Array scales = features.log_scales.reshaped({by_time[0], by_time[1], 1, by_time[2]});
  return features.values * exp(Tensor(scales));
};

std::vector<Row> random_feature_rows() {
  Random r = init();
  const Array x = normal({2, 5, 6}), source = normal({2, 4, 3});
  const Array hidden = ints({0, 0, 1, 0, 0, 0, 1, 1, 1, 0}, {2, 5});
  const Array hidden_source = ints({0, 0, 1, 0, 0, 1, 0, 1}, {2, 4});
  const auto layer = [&](const RandomFeaturesOptions& features, bool cross_attends = false,
                         bool rotary_positions = false) {
    return MultiHeadAttention(6, rotary_positions ? 3 : 2, r,
                              {.source_width = cross_attends ? 3 : 0,
                               .input = {},
                               .output = {},
                               .rotary_positions = rotary_positions,
                               .random_features = features});
  };
  const auto self = [](const AttentionOptions& options) {
    return [options](const auto& l, In in) { return l.forward(in[0], options); };
  };
  const auto padded_cross = [=](const auto& l, In in) {
    return l.forward(in[0], in[1], {.key_padding = hidden_source});
  };
  std::vector<Row> rows;
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
    const std::string name = map == FeatureMap::trigonometric ? "trigonometric" : "positive";
    const RandomFeaturesOptions plain{.features = 40, .map = map};
    const RandomFeaturesOptions gated{.features = 40, .map = map, .gate = true};
    rows.push_back(make_row("RandomFeatures: " + name, RandomFeatures(2, 3, r, plain),
                            whole_features, {normal({2, 2, 4, 3})}));
    const std::string prefix = "MultiHeadAttention: " + name + " features, ";
    rows.push_back(make_row(prefix + "bidirectional", layer(plain), self({}), {x}));
    rows.push_back(make_row(prefix + "padded", layer(plain), self({.key_padding = hidden}), {x}));
    rows.push_back(make_row(prefix + "causal", layer(plain), self({.causal = true}), {x}));
    rows.push_back(make_row(prefix + "causal, padded", layer(plain),
                            self({.causal = true, .key_padding = hidden}), {x}));
    rows.push_back(make_row(prefix + "gate", layer(gated), self({.causal = true}), {x}));
    rows.push_back(
        make_row(prefix + "rotary", layer(gated, false, true), self({.causal = true}), {x}));
    rows.push_back(make_row(prefix + "cross", layer(plain, true), cross, {x, source}));
    rows.push_back(
        make_row(prefix + "cross, padded", layer(plain, true), padded_cross, {x, source}));
  }
  rows.push_back(make_row("TransformerBlock: random features",
                          TransformerBlock({.width = 6,
                                            .heads = 2,
                                            .hidden = 5,
                                            .dropout = 0.3,
                                            .random_features = RandomFeaturesOptions{.gate = true},
                                            .input = {},
                                            .residual = {}},
                                           r),
                          [](const TransformerBlock& block, In in) {
                            Random noise(1, Stream::dropout);
                            return block.forward(in[0],
                                                 {.attention = {.causal = true}, .noise = &noise});
                          },
                          {x}));
  return rows;
}

// ReLU bends at 0; GELU does not.
std::vector<Row> convolution_rows() {
  Random r = init();
  const Array x = normal({2, 3, 5, 4});
  const ConvolutionStackOptions stack{
      .height = 5, .width = 6, .channels = {2, 3}, .activation = Activation::gelu};
  return {
      make_row("Convolution2d", Convolution2d(3, 2, r), forward, {x}),
      make_row("Convolution2d: stride", Convolution2d(3, 2, r, {.stride = 2, .padding = 1}),
               forward, {x}),
      make_row("TransposedConvolution2d", TransposedConvolution2d(3, 2, r), forward, {x}),
      make_row(
          "TransposedConvolution2d: stride",
          TransposedConvolution2d(3, 2, r, {.stride = 2, .padding = 1}),
          [](const TransposedConvolution2d& layer, In in) { return layer.forward(in[0], 10, 7); },
          {x}),
      make_row("ConvolutionStack", ConvolutionStack(stack, r), forward, {normal({2, 30})}),
      make_row("TransposedConvolutionStack", TransposedConvolutionStack(stack, r), forward,
               {normal({2, 12})}),
  };
}

std::vector<Row> attention_rows() {
  Random r = init();
  const Array x = normal({2, 4, 6}), source = normal({2, 5, 3});
  const Array hidden_keys = ints({0, 0, 1, 0, 0, 0, 1, 1, 1, 0}, {2, 5});
  const auto as = [](AttentionOptions options, DType dtype) {
    if (!options.mask.empty()) options.mask = options.mask.to(dtype);
    return options;
  };
  const auto masked = [as](const AttentionOptions& options) {
    return [as, options](const auto& layer, In in) {
      return layer.forward(in[0], as(options, in[0].dtype()));
    };
  };
  const auto masked_cross = [as](const AttentionOptions& options) {
    return [as, options](const auto& layer, In in) {
      return layer.forward(in[0], in[1], as(options, in[0].dtype()));
    };
  };
  const auto self = [&] { return MultiHeadAttention(6, 2, r); };
  const auto other = [&] {
    return MultiHeadAttention(6, 3, r, {.source_width = 3, .input = {}, .output = {}});
  };
  const auto with_padding = masked({.key_padding = ints({0, 0, 0, 1, 1, 0, 0, 0}, {2, 4})});
  const AttentionOptions everything{.causal = true, .key_padding = hidden_keys, .mask = hide(4, 5)};
  std::vector<Row> rows = {
      make_row("Attention", Attention(6, 3, 4, r), cross, {x, source}),
      make_row("Attention: causal, padded and masked", Attention(6, 3, 4, r),
               masked_cross(everything), {x, source}),
      make_row("Attention: to itself", Attention(6, 6, 4, r, {.bias = false}),
               [](const Attention& layer, In in) {
                 return layer.forward(in[0], in[0], {.causal = true});
               },
               {x}),
      make_row("MultiHeadAttention: self", self(), forward, {x}),
      make_row("MultiHeadAttention: self, causal", self(), masked({.causal = true}), {x}),
      make_row("MultiHeadAttention: self, padded", self(), with_padding, {x}),
      make_row("MultiHeadAttention: self, masked", self(), masked({.mask = hide(4, 4)}), {x}),
      make_row("MultiHeadAttention: self, rotary",
               MultiHeadAttention(6, 3, r, {.input = {}, .output = {}, .rotary_positions = true}),
               masked({.causal = true}), {x}),
      make_row("MultiHeadAttention: cross", other(), cross, {x, source}),
      make_row("MultiHeadAttention: cross, padded", other(),
               masked_cross({.key_padding = hidden_keys}), {x, source}),
      make_row("MultiHeadAttention: cross, masked", other(), masked_cross({.mask = hide(4, 5)}),
               {x, source}),
      make_row("MultiHeadAttention: cross, causal, padded and masked", other(),
               masked_cross(everything), {x, source}),
  };
  for (const auto& [norm, name] :
       {std::pair{NormPlacement::pre, "pre"}, {NormPlacement::post, "post"}})
    for (const double rate : {0.0, 0.3})
      rows.push_back(make_row(fmt::format("TransformerBlock: {}, dropout {}", name, rate),
                              TransformerBlock({.width = 6,
                                                .heads = 2,
                                                .hidden = 5,
                                                .norm = norm,
                                                .dropout = rate,
                                                .input = {},
                                                .residual = {}},
                                               r),
                              [](const TransformerBlock& block, In in) {
                                Random noise(1, Stream::dropout);
                                return block.forward(
                                    in[0], {.attention = {.causal = true}, .noise = &noise});
                              },
                              {x}));
  return rows;
}

std::vector<Row> memory_rows() {
  Random r = init();
  const Array x = normal({2, 4, 6}), state = normal({2, 5}), one = normal({2, 1, 6});
  const Array tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3});
  const Array symbols = ints({4, 0, 2, 4, 4, 1, 0, 0, 3, 1, 2, 1}, {2, 3, 2});
  const auto parts = [](const Recurrent& layer, In in) {
    const Tensor first = layer.forward(slice(in[0], 1, 0, 3), in[1]);
    const Tensor before = reshape(slice(first, 1, 2, 3), {2, 5});
    return layer.step(reshape(slice(in[0], 1, 3, 4), {2, 6}), before);
  };
  std::vector<Row> rows = {
      make_row("Recurrent", Recurrent(6, 5, r), forward, {x}),
      make_row("Recurrent: no bias", Recurrent(6, 5, r, false), forward, {x}),
      make_row("Recurrent: initial", Recurrent(6, 5, r), cross, {x, state}),
      make_row("Recurrent: a step after others", Recurrent(6, 5, r), parts, {x, state}),
      make_row("CompositeSum", CompositeSum(6, r), forward, {x}),
      make_row("ExponentialForgetting", ExponentialForgetting(6, r, {}), forward, {x}),
      make_row("ExponentialForgetting: learnt",
               ExponentialForgetting(6, r, {.gamma = 0.7, .learn = true}), forward, {x}),
      make_row("RecurrentMemory", RecurrentMemory(6, r), forward, {x}),
      make_row("ForgettingGate", ForgettingGate(6, r), forward, {x}),
      make_row("SigmoidAttention", SigmoidAttention(6, r), forward, {x}),
      make_row("SoftmaxAttention", SoftmaxAttention(6, r), forward, {x}),
      make_row("QueryKeyMemory", QueryKeyMemory(6, r), forward, {x}),
      make_row("QueryKeyMemory: one element", QueryKeyMemory(6, r), forward, {one}),
      make_row("MultiHeadMemory", MultiHeadMemory(6, 2, r), forward, {x}),
  };
  for (const std::string& kind : memory_kinds())
    rows.push_back(make_row("MemoryNetwork: " + kind,
                            MemoryNetwork({.vocabulary = 5,
                                           .classes = 3,
                                           .hidden = 7,
                                           .memory = {.kind = kind, .width = 4, .heads = 2}},
                                          r),
                            [symbols](const MemoryNetwork& model, In) {
                              return cross_entropy(model.forward(symbols), ints({2, 0}, {2}));
                            },
                            {}));
  for (const bool tied : {false, true})
    for (const double rate : {0.0, 0.2})
      rows.push_back(make_row(
          fmt::format("RecurrentNetwork: {}tied, dropout {}", tied ? "" : "un", rate),
          RecurrentNetwork({.vocabulary = 5,
                            .layers = 2,
                            .width = 4,
                            .dropout = rate,
                            .bias = !tied,
                            .tied_embeddings = tied},
                           r),
          [tokens](const RecurrentNetwork& model, In) {
            Random noise(1, Stream::dropout);
            return cross_entropy(model.forward(tokens, &noise), ints({1, 2, 0, 3, -1, 4}, {2, 3}));
          },
          {}));
  return rows;
}

std::vector<Row> graph_rows() {
  Random r = init();
  const Adjacency graph(6,
                        {{0, 1}, {1, 0}, {2, 2}, {0, 2}, {3, 0}, {1, 2}});  // 4 and 5 stand alone
  const Array x = normal({6, 3}), first_nodes = ints({0, 2, 2, 6}, {4});
  const auto on_graph = [graph](const auto& layer, In in) { return layer.forward(graph, in[0]); };
  std::vector<Row> rows = {
      make_row("Convolution1d", Convolution1d(3, 4, r, {.before = 1, .after = 1}), forward,
               {normal({2, 5, 3})}),
      make_row("Convolution1d: every second", Convolution1d(3, 2, r, {.width = 4, .stride = 2}),
               forward, {normal({2, 7, 3})}),
      make_row("GraphAttention", GraphAttention(3, 4, r, {.activation = Activation::gelu}),
               on_graph, {x}),
      make_row("GraphAttention: heads",
               GraphAttention(3, 4, r, {.heads = 2, .activation = Activation::none}), on_graph,
               {x}),
  };
  for (const auto& [normalization, name] : {std::pair{Normalization::sum, "sum"},
                                            {Normalization::mean, "mean"},
                                            {Normalization::symmetric, "symmetric"}}) {
    rows.push_back(make_row(
        fmt::format("GraphConvolution: {}", name),
        GraphConvolution(3, 4, r, {.normalization = normalization, .activation = Activation::gelu}),
        on_graph, {x}));
    const std::optional<Pooling> poolings[] = {std::nullopt, Pooling::sum, Pooling::mean,
                                               Pooling::max};
    for (int i = 0; i < 4; ++i)
      rows.push_back(
          make_row(fmt::format("GraphNetwork: {}, pooling {}", name, i),
                   GraphNetwork({.inputs = 3,
                                 .classes = 2,
                                 .width = 4,
                                 .attention = normalization == Normalization::sum && i % 2 == 1,
                                 .normalization = normalization,
                                 .heads = 2,
                                 .activation = Activation::gelu,
                                 .dropout = 0.3,
                                 .pooling = poolings[i]},
                                r),
                   [=](const GraphNetwork& model, In in) {
                     Random noise(1, Stream::dropout);
                     return model.forward(graph, in[0], first_nodes, &noise);
                   },
                   {x}));
  }
  return rows;
}

const TransformerOptions tiny{
    .vocabulary = 5, .context = 4, .layers = 2, .heads = 2, .width = 4, .hidden = 6};

// Encoders of whole sequences, and of patches.
std::vector<Row> encoder_rows() {
  Random r = init();
  const TransformerBlockOptions block{
      .width = 4, .heads = 2, .hidden = 6, .dropout = 0.2, .input = {}, .residual = {}};
  TransformerBlockOptions post = block;
  post.norm = NormPlacement::post;
  const auto noisy = [](const auto& model, In in) {
    Random noise(1, Stream::dropout);
    return model.forward(in[0], &noise);
  };
  const auto padded = [](const Encoder& encoder, In in) {
    return encoder.forward(in[0], {.attention = {.key_padding = ints({0, 0, 1, 0, 0, 0}, {2, 3})}});
  };
  const Array x = normal({2, 3, 4}), patches = normal({2, 3, 5}), images = pixels({2, 24}),
              series = normal({2, 6, 3});
  std::vector<Row> rows = {
      make_row("Encoder", Encoder(2, block, r), padded, {x}),
      make_row("PatchEncoder: learned",
               PatchEncoder({.patches = 3, .values = 5, .layers = 1, .block = block}, r), noisy,
               {patches}),
  };
  for (const auto& [positions, name] : {std::pair{Positions::sinusoidal, "sinusoidal"},
                                        {Positions::rotary, "rotary"},
                                        {Positions::none, "no positions"}})
    rows.push_back(make_row(fmt::format("PatchEncoder: {}, class token, post-norm", name),
                            PatchEncoder({.patches = 3,
                                          .values = 5,
                                          .layers = 1,
                                          .block = post,
                                          .positions = positions,
                                          .class_token = true},
                                         r),
                            noisy, {patches}));
  for (const auto& [readout, name] :
       {std::pair{Readout::class_token, "class token"}, {Readout::mean, "mean"}})
    rows.push_back(make_row(fmt::format("VisionTransformer: {}", name),
                            VisionTransformer({.height = 4,
                                               .width = 6,
                                               .patch = 2,
                                               .classes = 3,
                                               .layers = 1,
                                               .block = block,
                                               .readout = readout},
                                              r),
                            noisy, {images}));
  for (const auto& [norm, name] :
       {std::pair{WindowNorm::instance, "instance"}, {WindowNorm::last, "last"}})
    for (const std::int64_t layers : {0, 1})
      rows.push_back(make_row(fmt::format("Forecaster: {} layers, less its {}", layers, name),
                              Forecaster({.context = 6,
                                          .horizon = 2,
                                          .patch = 4,
                                          .stride = 2,
                                          .layers = layers,
                                          .block = block,
                                          .norm = norm},
                                         r),
                              noisy, {series}));
  return rows;
}

std::vector<Row> model_rows() {
  Random r = init();
  std::vector<std::pair<std::string, TransformerOptions>> variants(12, {"", tiny});
  variants[0].first = "tied, learned";
  variants[1].first = "untied", variants[1].second.tied_embeddings = false;
  variants[2].first = "sinusoidal", variants[2].second.positions = Positions::sinusoidal;
  variants[3].first = "post-norm", variants[3].second.norm = NormPlacement::post;
  variants[4].first = "no bias", variants[4].second.bias = false;
  variants[5].first = "dropout", variants[5].second.dropout = 0.2;
  variants[6].first = "relu", variants[6].second.activation = Activation::relu;
  variants[7].first = "rotary", variants[7].second.positions = Positions::rotary;
  variants[8].first = "no positions", variants[8].second.positions = Positions::none;
  variants[9].first = "window", variants[9].second.window = 2;
  variants[10].first = "random features", variants[10].second.random_features = {.gate = true};
  variants[11].first = "positive random features";
  variants[11].second.random_features = {.map = FeatureMap::positive};
  std::vector<Row> rows;
  for (const auto& [name, options] : variants)
    rows.push_back(make_row("Transformer: " + name, Transformer(options, r),
                            [](const Transformer& model, In) {
                              Random noise(1, Stream::dropout);
                              const Array tokens = ints({4, 0, 2, 4, 4, 1}, {2, 3}),
                                          targets = ints({1, 2, 0, 3, -1, 4}, {2, 3});
                              return cross_entropy(model.forward(tokens, &noise), targets);
                            },
                            {}));
  const EncoderDecoderOptions pair{
      .source_vocabulary = 5,
      .target_vocabulary = 5,
      .source_context = 4,
      .target_context = 3,
      .encoder_layers = 1,
      .decoder_layers = 2,
      .block = {.width = 4, .heads = 2, .hidden = 6, .dropout = 0.2, .input = {}, .residual = {}}};
  std::vector<std::pair<std::string, EncoderDecoderOptions>> pairs(7, {"", pair});
  pairs[0].first = "pre-norm, two tables";
  pairs[1].first = "post-norm", pairs[1].second.block.norm = NormPlacement::post;
  pairs[2].first = "learned, shared", pairs[2].second.positions = Positions::learned;
  pairs[2].second.shared_embeddings = true;
  pairs[4].first = "rotary, in a window", pairs[4].second.positions = Positions::rotary;
  pairs[4].second.window = 2;
  pairs[5].first = "no positions", pairs[5].second.positions = Positions::none;
  pairs[3].first = "untied", pairs[3].second.tied_embeddings = false;
  pairs[6].first = "random features", pairs[6].second.block.random_features.emplace();
  for (const auto& [name, options] : pairs)
    rows.push_back(make_row("EncoderDecoder: " + name, EncoderDecoder(options, r),
                            [](const EncoderDecoder& model, In) {
                              Random noise(1, Stream::dropout);
                              const Array source = ints({4, 0, 2, 1, 4, 1, 3, 0}, {2, 4}),
                                          padding = ints({0, 0, 0, 0, 0, 0, 1, 1}, {2, 4}),
                                          target = ints({1, 2, 0, 3, 2, 4}, {2, 3}),
                                          next = ints({2, 0, 3, 2, 4, -1}, {2, 3});
                              const auto memory = model.encode(source, padding, &noise);
                              return cross_entropy(model.decode(target, memory, &noise), next);
                            },
                            {}));
  for (const auto& [sigma, sigma_name] : {std::pair{Sigma::per_dimension, "σ per dimension"},
                                          {Sigma::shared, "shared σ"},
                                          {Sigma::none, "no σ"}})
    for (const auto& [likelihood, likelihood_name] :
         {std::pair{Likelihood::bernoulli, "Bernoulli"}, {Likelihood::gaussian, "Gaussian"}})
      rows.push_back(make_row(fmt::format("Vae: {}, {}", sigma_name, likelihood_name),
                              Vae({.height = 1,
                                   .width = 5,
                                   .hidden = {4, 3},
                                   .latent = 2,
                                   .sigma = sigma,
                                   .likelihood = likelihood},
                                  r),
                              [](const Vae& model, In in) {
                                Random noise(1, Stream::data);
                                const Vae::Elbo elbo = model.elbo(in[0], noise);
                                return elbo.recon + 0.7 * elbo.kl;
                              },
                              {pixels({3, 5})}));
  rows.push_back(make_row("Vae: convolutional",
                          Vae({.height = 5,
                               .width = 3,
                               .channels = {2, 3},
                               .hidden = {4},
                               .latent = 2,
                               .activation = Activation::gelu},
                              r),
                          [](const Vae& model, In in) {
                            Random noise(1, Stream::data);
                            const Vae::Elbo elbo = model.elbo(in[0], noise);
                            return elbo.recon + elbo.kl;
                          },
                          {pixels({2, 15})}));
  return rows;
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all = simple_rows();
    for (auto& group : {attention_rows(), random_feature_rows(), memory_rows(), graph_rows(),
                        convolution_rows(), encoder_rows(), model_rows()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return rows;
}

TEST_CASE("layers: every row of the table has the gradient of its function") {
  for (const Row& row : table()) {
    CAPTURE(row.name);
    const std::vector<Tensor> constants(row.inputs.begin(), row.inputs.end());
    std::vector<GradcheckResult> results = gradcheck(row.f, row.inputs);
    for (const GradcheckResult& result :
         gradcheck_parameters([&] { return row.f(constants); }, row.module->parameters()))
      results.push_back(result);
    CHECK_FALSE(results.empty());
    for (const GradcheckResult& result : results) {
      CAPTURE(result.name);
      CHECK(result.passed);
      CHECK(result.error <= 1e-6);
    }
  }
}

TEST_CASE("layers: every parameter receives a gradient, in float32 as in float64") {
  for (const Row& row : table()) {
    CAPTURE(row.name);
    std::map<std::string, Array> wide;
    for (const DType dtype : {f64, f32}) {
      row.module->convert(dtype);
      std::vector<Tensor> inputs;
      for (const Array& input : row.inputs) inputs.push_back(Tensor::variable(input.to(dtype)));
      Tape tape;
      const Gradients gradients = tape.backward(sum(row.f(inputs)));
      for (const Parameter* parameter : row.module->parameters()) {
        if (parameter->role == Role::fixed) continue;
        CAPTURE(parameter->name);
        const Array* gradient = gradients.find(*parameter);
        REQUIRE(gradient);
        CHECK(gradient->dtype() == dtype);
        if (dtype == f64) wide[parameter->name] = *gradient;
        CHECK(distance(*gradient, wide[parameter->name]) <= 1e-4);
      }
    }
    row.module->convert(f64);
  }
}

TEST_CASE("layers: every Module of layers/ has a row in the table") {
  std::set<std::string> declared, tested;
  const std::regex pattern(R"(class (\w+) final : public \w+)");
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(TAPESTRY_SOURCE_DIR "/layers")) {
    if (file.path().extension() != ".hpp") continue;
    std::ifstream header(file.path());
    for (std::string line; std::getline(header, line);)
      if (std::smatch match; std::regex_search(line, match, pattern)) declared.insert(match[1]);
  }
  for (const Row& row : table()) tested.insert(row.layer());
  CHECK(declared.size() >= 26);
  for (const std::string& name : declared) CHECK_MESSAGE(tested.contains(name), name);
  for (const std::string& name : tested) CHECK_MESSAGE(declared.contains(name), name);
}

// --- names, roles and initial values ---

Strings shapes(Module& module) {
  Strings result;
  for (const Parameter* parameter : module.parameters())
    result.push_back(parameter->name + " " + to_string(parameter->tensor.shape()));
  return result;
}

const Strings block_fields = {"attention_norm.weight",
                              "attention_norm.bias",
                              "attention.query_key_value.weight",
                              "attention.query_key_value.bias",
                              "attention.output.weight",
                              "attention.output.bias",
                              "feed_forward_norm.weight",
                              "feed_forward_norm.bias",
                              "feed_forward.expand.weight",
                              "feed_forward.expand.bias",
                              "feed_forward.contract.weight",
                              "feed_forward.contract.bias"};

TEST_CASE("layers: parameter names are a checkpoint's keys, and stay") {
  Random r = init();
  Strings blocks;
  for (const std::string prefix : {"blocks.0.", "blocks.1."})
    for (const std::string& field : block_fields) blocks.push_back(prefix + field);
  const auto wanted = [&](Strings before, const Strings& after) {
    before.insert(before.end(), blocks.begin(), blocks.end());
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  const auto of = [&](auto change) {
    TransformerOptions options = tiny;
    change(options);
    Transformer model(options, r);
    return names(model);
  };
  const std::string token = "token_embedding.weight", position = "position_embedding.weight";
  const Strings norm = {"final_norm.weight", "final_norm.bias"};
  CHECK(of([](auto&) {}) == wanted({token, position}, norm));
  CHECK(of([](auto& o) { o.tied_embeddings = false; }) ==
        wanted({token, position}, {norm[0], norm[1], "head.weight"}));
  for (const Positions positions : {Positions::sinusoidal, Positions::rotary, Positions::none})
    CHECK(of([=](auto& o) { o.positions = positions; }) == wanted({token}, norm));
  CHECK(of([](auto& o) { o.norm = NormPlacement::post; }) == wanted({token, position}, {}));

  const auto vae = [&](Sigma sigma) {
    Vae model({.height = 1, .width = 6, .hidden = {5, 4}, .latent = 2, .sigma = sigma}, r);
    return names(model);
  };
  Strings per_dimension = {"encoder.0.weight", "encoder.0.bias",   "encoder.1.weight",
                           "encoder.1.bias",   "mean.weight",      "mean.bias",
                           "log_sigma.weight", "log_sigma.bias",   "decoder.0.weight",
                           "decoder.0.bias",   "decoder.1.weight", "decoder.1.bias",
                           "decoder.2.weight", "decoder.2.bias"};
  CHECK(vae(Sigma::per_dimension) == per_dimension);
  per_dimension[6] = "log_sigma";
  per_dimension.erase(per_dimension.begin() + 7);
  CHECK(vae(Sigma::shared) == per_dimension);

  const auto convolutional = [&](Sigma sigma) {
    Vae model({.height = 6, .width = 6, .channels = {2}, .hidden = {4}, .sigma = sigma}, r);
    return names(model);
  };
  CHECK(convolutional(Sigma::none) ==
        Strings{"convolutions.0.weight", "convolutions.0.bias", "encoder.0.weight",
                "encoder.0.bias", "mean.weight", "mean.bias", "decoder.0.weight", "decoder.0.bias",
                "decoder.1.weight", "decoder.1.bias", "transposed_convolutions.0.weight",
                "transposed_convolutions.0.bias"});

  Vae mirrored({.height = 1, .width = 6, .hidden = {5, 4}, .latent = 2}, r);
  CHECK(shapes(mirrored) ==
        Strings{"encoder.0.weight (5, 6)", "encoder.0.bias (5,)", "encoder.1.weight (4, 5)",
                "encoder.1.bias (4,)", "mean.weight (2, 4)", "mean.bias (2,)",
                "log_sigma.weight (2, 4)", "log_sigma.bias (2,)", "decoder.0.weight (4, 2)",
                "decoder.0.bias (4,)", "decoder.1.weight (5, 4)", "decoder.1.bias (5,)",
                "decoder.2.weight (6, 5)", "decoder.2.bias (6,)"});

  const TransformerBlockOptions block{.width = 4, .heads = 2, .input = {}, .residual = {}};
  const auto encoded = [&](const Strings& before, const Strings& after) {
    Strings all = before;
    for (const std::string& field : block_fields) all.push_back("patches.encoder.0." + field);
    all.insert(all.end(), {"patches.final_norm.weight", "patches.final_norm.bias"});
    all.insert(all.end(), after.begin(), after.end());
    return all;
  };
  VisionTransformer vision({.layers = 1, .block = block}, r);
  CHECK(names(vision) == encoded({"patches.projection.weight", "patches.projection.bias",
                                  "patches.class_token", "patches.position_embedding.weight"},
                                 {"head.weight", "head.bias"}));
  Forecaster forecaster({.layers = 1, .block = block}, r), line({.layers = 0}, r);
  CHECK(names(forecaster) == encoded({"patches.projection.weight", "patches.projection.bias",
                                      "patches.position_embedding.weight"},
                                     {"head.weight", "head.bias"}));
  CHECK(shapes(line) == Strings{"head.weight (96, 96)", "head.bias (96,)"});

  MultiHeadAttention cross_attention(4, 2, r, {.source_width = 3, .input = {}, .output = {}});
  CHECK(names(cross_attention) == Strings{"query.weight", "query.bias", "key_value.weight",
                                          "key_value.bias", "output.weight", "output.bias"});
  RecurrentNetwork recurrent({.vocabulary = 5, .layers = 2, .width = 3}, r);
  CHECK(shapes(recurrent) ==
        Strings{"token_embedding.weight (5, 3)", "layers.0.input.weight (3, 3)",
                "layers.0.input.bias (3,)", "layers.0.hidden.weight (3, 3)",
                "layers.1.input.weight (3, 3)", "layers.1.input.bias (3,)",
                "layers.1.hidden.weight (3, 3)", "head.weight (5, 3)", "head.bias (5,)"});
  const auto memory = [&](const std::string& kind, bool learn = false) {
    return names(*make_memory({.kind = kind, .width = 4, .decay = {.learn = learn}}, r));
  };
  CHECK(memory("sum") == Strings{"value.weight", "value.bias"});
  CHECK(memory("forgetting") == Strings{"value.weight"});
  CHECK(memory("forgetting", true) == Strings{"value.weight", "decay"});
  CHECK(memory("recurrent") ==
        Strings{"network.input.weight", "network.input.bias", "network.hidden.weight"});
  CHECK(memory("gated") == Strings{"gate.weight", "gate.bias", "value.weight", "value.bias"});
  CHECK(memory("sigmoid-attention") == Strings{"score.weight", "score.bias", "value.weight"});
  CHECK(memory("softmax-attention") == Strings{"score.weight", "value.weight"});
  CHECK(memory("query-key").size() == 6);
  CHECK(memory("multi-head").front() == "attention.query.weight");
  MultiHeadAttention features(
      4, 2, r, {.input = {}, .output = {}, .random_features = RandomFeaturesOptions{.gate = true}});
  CHECK(shapes(features) == Strings{"query_key_value.weight (12, 4)", "query_key_value.bias (12,)",
                                    "features.projection (2, 64, 2)", "features.sigma (2, 2)",
                                    "gate.weight (2, 4)", "gate.bias (2,)", "output.weight (4, 4)",
                                    "output.bias (4,)"});

  const auto graph_network = [&](const GraphNetworkOptions& options) {
    GraphNetwork model(options, r);
    return shapes(model);
  };
  CHECK(graph_network({.inputs = 5, .classes = 3, .width = 4}) ==
        Strings{"layers.0.bias (4,)", "layers.0.neighbours.weight (4, 5)", "layers.1.bias (3,)",
                "layers.1.neighbours.weight (3, 4)"});
  CHECK(graph_network({.inputs = 5,
                       .classes = 3,
                       .layers = 1,
                       .width = 4,
                       .normalization = Normalization::sum,
                       .pooling = Pooling::sum}) ==
        Strings{"layers.0.own.weight (4, 5)", "layers.0.bias (4,)",
                "layers.0.neighbours.weight (4, 5)", "head.weight (3, 4)", "head.bias (3,)"});
  CHECK(graph_network({.inputs = 5, .classes = 3, .layers = 1, .attention = true}) ==
        Strings{"layers.0.own.weight (3, 5)", "layers.0.bias (3,)", "layers.0.query.weight (3, 5)",
                "layers.0.key.weight (3, 5)", "layers.0.value.weight (3, 5)"});
  Convolution1d convolution(3, 2, r);
  CHECK(shapes(convolution) == Strings{"kernel.weight (2, 9)", "kernel.bias (2,)"});

  Attention attention(4, 4, 2, r, {.bias = false});
  CHECK(names(attention) == Strings{"query.weight", "key.weight", "value.weight"});
}

TEST_CASE("layers: a transformer starts as GPT-2 does") {
  Random r = init();
  Transformer model(
      {.vocabulary = 100, .layers = 3, .heads = 2, .width = 64, .tied_embeddings = false}, r);
  for (const Parameter* parameter : model.parameters()) {
    CAPTURE(parameter->name);
    const std::vector<double> values = doubles(parameter->value());
    double sum = 0, squares = 0;
    for (const double v : values) sum += v, squares += v * v;
    const auto n = static_cast<double>(values.size());
    const bool residual =
        parameter->name.ends_with("output.weight") || parameter->name.ends_with("contract.weight");
    const bool scales = parameter->name.ends_with("norm.weight");
    const double mean = scales ? 1 : 0;
    const double deviation = parameter->name.ends_with("bias") || scales ? 0
                             : residual                                  ? 0.02 / std::sqrt(6.0)
                                                                         : 0.02;
    CHECK(std::abs(sum / n - mean) <= 5 * deviation / std::sqrt(n));
    CHECK(std::abs(std::sqrt(std::max(0.0, squares / n - mean)) - deviation) <= 0.05 * deviation);
  }
}

TEST_CASE("layers: a Linear starts as PyTorch's does") {
  Random r = init();
  const Linear layer(16, 400, r);
  for (const Parameter* parameter : {&layer.weight, &layer.bias}) {
    const std::vector<double> values = doubles(parameter->value());
    const auto [low, high] = std::ranges::minmax(values);
    CHECK(low == doctest::Approx(-0.25).epsilon(0.05));
    CHECK(high == doctest::Approx(0.25).epsilon(0.05));
    CHECK(std::max(-low, high) <= 0.25);
  }
}

// --- what layers compute ---

TEST_CASE("layers: sinusoidal positions are those of the paper") {
  const auto encoding = [](const Shape& shape, std::int64_t first) {
    return doubles(SinusoidalPositions().forward(Array::full(shape, 2, f64), first).value());
  };
  // sin and cos of 0, 0; 1, 0.01; 2, 0.02; 3, 0.03
  const std::vector<double> wanted = {0,
                                      1,
                                      0,
                                      1,
                                      0.8414709848078965,
                                      0.5403023058681398,
                                      0.009999833334166664,
                                      0.9999500004166653,
                                      0.9092974268256817,
                                      -0.4161468365471424,
                                      0.01999866669333308,
                                      0.9998000066665778,
                                      0.1411200080598672,
                                      -0.9899924966004454,
                                      0.02999550020249566,
                                      0.9995500337489875};
  for (const std::int64_t first : {0, 2}) {
    const std::vector<double> values = encoding({1, 2, 4}, first);
    for (std::size_t i = 0; i < 8; ++i)
      CHECK(values[i] - 2 == doctest::Approx(wanted[first * 4 + i]));
  }
  // 10000^(-2/6) = 0.04641588833612779 and 10000^(-4/6) = 0.002154434690031884
  const std::vector<double> six = encoding({1, 1, 6}, 1);
  CHECK(six[2] - 2 == doctest::Approx(std::sin(0.04641588833612779)));
  CHECK(six[5] - 2 == doctest::Approx(std::cos(0.002154434690031884)));
  const std::vector<double> both = encoding({2, 1, 4}, 1);
  CHECK(std::equal(both.begin(), both.begin() + 4, both.begin() + 4));
}

TEST_CASE("layers: learned positions are rows of the table, and end with it") {
  Random r = init();
  const LearnedPositions layer(3, 2, r);
  const std::vector<double> table = doubles(layer.weight.value());
  const Array zeros = Array::zeros({1, 2, 2});
  CHECK(doubles(layer.forward(zeros, 1).value()) ==
        std::vector<double>(table.begin() + 2, table.end()));
  CHECK_THROWS_AS(layer.forward(zeros, 2), std::invalid_argument);
}

TEST_CASE("layers: rotary positions turn each pair of columns by the position times its rate") {
  // Two heads of width 4, and two columns that stay as they are.
  const std::vector<double> x = {1, 0, 0, 1, 0, 2, 3, 0, 5, 6};
  const std::vector<double> y =
      doubles(rotary(Array::of(x, {1, 10}), {.head_width = 4, .columns = 8, .first = 3}).value());
  const double a = 3, b = 0.03;
  const std::vector<double> wanted = {
      std::cos(a),     std::sin(a),     -std::sin(b),    std::cos(b), -2 * std::sin(a),
      2 * std::cos(a), 3 * std::cos(b), 3 * std::sin(b), 5,           6};
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == doctest::Approx(wanted[i]));
}

TEST_CASE("layers: scores of rotary queries and keys depend on the difference of positions only") {
  const Tensor q = normal({1, 6}), k = normal({1, 6});
  const auto score = [&](std::int64_t t, std::int64_t s) {
    return sum(rotary(q, {.first = t}) * rotary(k, {.first = s})).item();
  };
  for (const std::int64_t shift : {1, 17, 4096})
    CHECK(score(5 + shift, 2 + shift) == doctest::Approx(score(5, 2)).epsilon(1e-11));
  CHECK(std::abs(score(5, 2) - score(6, 2)) > 1e-3);
  CHECK(std::abs(score(5, 2) - score(2, 5)) > 1e-3);

  // So a row of tokens gives the same wherever it starts, and its order matters.
  Random r = init();
  TransformerOptions options = tiny;
  options.positions = Positions::rotary;
  Transformer model(options, r);
  randomised(model, f64);
  const Tensor x = normal({1, 4, 4});
  const MultiHeadAttention& layer = model.blocks[0].attention;
  const Tensor qkv = layer.query_key_value->forward(x);
  const auto attended = [&](std::int64_t first) {
    return packed_self_attention(rotary(qkv, {.head_width = 2, .columns = 8, .first = first}),
                                 {.heads = 2, .causal = true});
  };
  CHECK(distance(layer.forward(x, {.causal = true}).value(),
                 layer.output.forward(attended(0)).value()) <= 1e-14);
  CHECK(distance(attended(1000).value(), attended(0).value()) <= 1e-11);
  CHECK(distance(attended(0).value(),
                 packed_self_attention(qkv, {.heads = 2, .causal = true}).value()) > 1e-3);
}

TEST_CASE("layers: a transformer with a window sees no token before it, a layer at a time") {
  Random r = init();
  TransformerOptions options = tiny;
  options.window = 2;
  Transformer model(options, r);
  randomised(model, f64);
  const auto last = [&](const std::vector<std::int32_t>& tokens) {
    return slice(model.forward(ints(tokens, {1, 4})), 1, 3, 4).value();
  };
  CHECK(same_bits(last({1, 2, 3, 4}), last({0, 2, 3, 4})));  // two layers reach two tokens back
  CHECK(distance(last({1, 2, 3, 4}), last({1, 0, 3, 4})) > 1e-3);
}

TEST_CASE("layers: without positions, causality alone tells the order of earlier tokens") {
  Random r = init();
  TransformerOptions options = tiny;
  options.positions = Positions::none;
  options.layers = 1;
  Transformer model(options, r);
  randomised(model, f64);
  const auto last = [&](const std::vector<std::int32_t>& tokens) {
    return slice(model.forward(ints(tokens, {1, 4})), 1, 3, 4).value();
  };
  CHECK(distance(last({1, 2, 3, 4}), last({3, 1, 2, 4})) <= 1e-12);
  CHECK(distance(last({1, 2, 3, 4}), last({1, 2, 0, 4})) > 1e-3);
}

TEST_CASE("layers: dropout is the identity without noise, and keeps the mean with it") {
  const Tensor x = Array::full({100000}, 1);
  const double rate = 0.3;
  Random noise(4, Stream::dropout);
  CHECK(Dropout(rate).forward(x, nullptr).value().raw() == x.value().raw());
  CHECK(Dropout(0).forward(x, &noise).value().raw() == x.value().raw());
  CHECK(noise.bits() == Random(4, Stream::dropout).bits());  // a rate of 0 draws nothing

  const auto drop = [&](std::uint64_t seed, std::uint64_t step) {
    Random random(seed, Stream::dropout, step);
    return Dropout(rate).forward(x, &random).value();
  };
  const std::vector<double> y = doubles(drop(4, 0));
  const auto kept = static_cast<double>(std::ranges::count(y, double{1.0f / 0.7f}));
  const auto dropped = static_cast<double>(std::ranges::count(y, 0.0));
  CHECK(kept + dropped == 100000);
  CHECK(dropped / 100000 == doctest::Approx(rate).epsilon(0.02));  // σ is 0.5 % of it
  CHECK(kept / 0.7 / 100000 == doctest::Approx(1).epsilon(0.01));
  CHECK(same_bits(drop(4, 0), drop(4, 0)));
  CHECK_FALSE(same_bits(drop(4, 0), drop(4, 1)));
  CHECK_FALSE(same_bits(drop(4, 0), drop(5, 0)));
  CHECK_THROWS_WITH_AS(Dropout(1).forward(x, &noise), "dropout: a rate of 1 for (100000,)",
                       std::invalid_argument);
}

TEST_CASE("layers: one head is the attention of the equation") {
  Random r = init();
  Attention layer(6, 3, 4, r);
  randomised(layer, f64);
  const Tensor x = normal({2, 4, 6}), source = normal({2, 5, 3});
  const Tensor q = layer.query.forward(x), k = layer.key.forward(source),
               v = layer.value.forward(source);
  const Tensor scores = scale(matmul(q, k, {.transpose_b = true}), 0.5);  // 1 / √4
  const Tensor y = matmul(softmax(scores), v);
  CHECK(distance(layer.forward(x, source).value(), y.value()) <= 1e-12);
  CHECK(distance(layer.forward(x, source, {.heads = 2}).value(), y.value()) <= 1e-12);
}

TEST_CASE("layers: every memory is its equation, element by element") {
  constexpr std::int64_t B = 2, T = 5, C = 6;
  Random r = init();
  const Tensor x = normal({B, T, C});
  const auto at = [](const Tensor& y, std::int64_t t) {
    return reshape(slice(y, 1, t, t + 1), {y.dim(0), y.dim(2)});
  };
  const auto weighted = [&](const Tensor& weights, const Tensor& values) {  // (B, T, 1), (B, T, C)
    return sum(weights * values, {1});
  };
  const auto check = [&](const Memory& memory, const Tensor& wanted) {
    CHECK(memory.forward(x).shape() == Shape{B, C});
    CHECK(distance(memory.forward(x).value(), wanted.value()) <= 1e-12);
  };

  CompositeSum composite(C, r);
  randomised(composite, f64);
  check(composite, sum(composite.value.forward(x), {1}));

  for (const bool learn : {false, true}) {
    ExponentialForgetting forgetting(C, r, {.gamma = 0.8, .learn = learn});
    randomised(forgetting, f64);
    Tensor gamma = Array::full({}, 0.8, f64), wanted = Array::zeros({B, C}, f64);
    if (learn) gamma = sigmoid(*forgetting.decay);
    const Tensor values = forgetting.value.forward(x);
    for (std::int64_t t = 0; t < T; ++t) wanted = gamma * wanted + at(values, t);
    check(forgetting, wanted);
  }

  RecurrentMemory recurrent(C, r);
  randomised(recurrent, f64);
  Tensor state = Array::zeros({B, C}, f64);
  for (std::int64_t t = 0; t < T; ++t) state = recurrent.network.step(at(x, t), state);
  check(recurrent, state);

  ForgettingGate gated(C, r);
  randomised(gated, f64);
  state = Array::zeros({B, C}, f64);
  for (std::int64_t t = 0; t < T; ++t)
    state = sigmoid(gated.gate.forward(at(x, t))) * state + gated.value.forward(at(x, t));
  check(gated, state);

  SigmoidAttention sigmoids(C, r);
  randomised(sigmoids, f64);
  check(sigmoids, weighted(sigmoid(sigmoids.score.forward(x)), sigmoids.value.forward(x)));

  SoftmaxAttention softmaxes(C, r);
  randomised(softmaxes, f64);
  const Tensor scores = exp(softmaxes.score.forward(x));
  check(softmaxes, weighted(scores / sum(scores, {1}, Keep::yes), softmaxes.value.forward(x)));

  QueryKeyMemory query_key(C, r);
  randomised(query_key, f64);
  const Tensor q = reshape(query_key.attention.query.forward(at(x, T - 1)), {B, 1, C});
  const Tensor agreement =
      exp(sum(q * query_key.attention.key.forward(x), {2}, Keep::yes) * (1 / std::sqrt(6.0)));
  check(query_key,
        weighted(agreement / sum(agreement, {1}, Keep::yes), query_key.attention.value.forward(x)));

  MultiHeadMemory heads(C, 2, r);
  randomised(heads, f64);
  check(heads, at(heads.attention.forward(x, x), T - 1));
}

TEST_CASE("layers: the weights that a memory tells are those it used") {
  constexpr std::int64_t B = 2, T = 5, C = 6;
  Random r = init();
  const Tensor x = normal({B, T, C});
  for (const std::string& kind : memory_kinds()) {
    CAPTURE(kind);
    const auto memory = make_memory({.kind = kind, .width = C, .heads = 3}, r);
    randomised(*memory, f64);
    const Tensor weights = memory->weights(x);
    const bool attends = kind.ends_with("attention") || kind == "query-key" || kind == "multi-head";
    REQUIRE(weights.value().empty() == !attends);
    if (!attends) continue;
    const std::int64_t H = kind == "multi-head" ? 3 : 1;
    REQUIRE(weights.shape() == Shape{B, H, T});
    if (kind != "sigmoid-attention")
      for (const double total : doubles(sum(weights, {2}).value()))
        CHECK(total == doctest::Approx(1));
  }
  // Σ w v, head by head, is what the memory gives.
  QueryKeyMemory one(C, r);
  randomised(one, f64);
  const Tensor values = one.attention.value.forward(x);
  CHECK(distance(matmul(one.weights(x), values).value().reshaped({B, C}), one.forward(x).value()) <=
        1e-12);
  MultiHeadMemory three(C, 3, r);
  randomised(three, f64);
  const Tensor packed = slice(three.attention.key_value->forward(x), 2, C, 2 * C);
  const Tensor split = permute(reshape(packed, {B, T, 3, C / 3}), {0, 2, 1, 3});  // (B, H, T, D)
  const Tensor mixed = matmul(reshape(three.weights(x), {B, 3, 1, T}), split);    // (B, H, 1, D)
  CHECK(distance(three.attention.output.forward(reshape(mixed, {B, C})).value(),
                 three.forward(x).value()) <= 1e-12);
}

TEST_CASE("layers: what a memory forgets, and what it does not") {
  Random r = init();
  const Array late = normal({1, 1, 4}), early = normal({1, 1, 4}), other = normal({1, 6, 4});
  const auto kept = [&](const Memory& memory) {  // of the first element after six more
    const Tensor a = memory.forward(concat({early, other, late}, 1));
    const Tensor b = memory.forward(concat({-Tensor(early), other, late}, 1));
    return distance(a.value(), b.value());
  };
  CompositeSum everything(4, r);
  randomised(everything, f64);
  ExponentialForgetting little(4, r, {.gamma = 0.1});
  randomised(little, f64);
  CHECK(kept(everything) > 0.1);
  CHECK(kept(little) < 1e-5);
  // Attention to what was said does not care when it was said.
  QueryKeyMemory attention(4, r);
  randomised(attention, f64);
  CHECK(distance(attention.forward(concat({early, other, late}, 1)).value(),
                 attention.forward(concat({other, early, late}, 1)).value()) <= 1e-12);
}

TEST_CASE("layers: a recurrent layer walked in steps or in parts is the whole") {
  constexpr std::int64_t B = 3, T = 7;
  Random r = init();
  for (const DType dtype : {f32, f64}) {
    Recurrent layer(5, 4, r);
    randomised(layer, dtype);
    const Tensor x = normal({B, T, 5}, dtype), initial = normal({B, 4}, dtype);
    for (const Tensor& start : {Tensor(), initial}) {
      const Tensor whole = layer.forward(x, start);
      Tensor state = start.value().empty() ? Tensor(Array::zeros({B, 4}, dtype)) : start;
      std::vector<Tensor> states;
      for (std::int64_t t = 0; t < T; ++t) {
        state = layer.step(reshape(slice(x, 1, t, t + 1), {B, 5}), state);
        states.push_back(reshape(state, {B, 1, 4}));
      }
      CHECK(distance(concat(states, 1).value(), whole.value()) <= (dtype == f32 ? 1e-6 : 1e-14));
      const Tensor first = layer.forward(slice(x, 1, 0, 3), start);
      const Tensor rest = layer.forward(slice(x, 1, 3, T), reshape(slice(first, 1, 2, 3), {B, 4}));
      CHECK(distance(concat({first, rest}, 1).value(), whole.value()) <=
            (dtype == f32 ? 1e-6 : 1e-14));
    }
  }
}

// --- random features ---

// unit rows (…, T, D) · √D: scaled_dot_product_attention divides the products by √D.
Tensor spread(const Tensor& x) { return unit_rows(x) * std::sqrt(static_cast<double>(x.dim(-1))); }

// How far attention by features is from the softmax, in root mean square over a few draws of w.
double feature_error(const RandomFeaturesOptions& options, const AttentionOptions& attention) {
  constexpr std::int64_t H = 2, D = 8;
  // Of long vectors the exponentials' variance is large: few features see none of their mass.
  const Tensor q = 0.5 * Tensor(normal({3, H, 40, D})), k = 0.5 * Tensor(normal({3, H, 40, D})),
               v = normal({3, 40, H * D});
  const bool unit = options.map == FeatureMap::trigonometric;
  const Tensor values = permute(reshape(v, {3, 40, H, D}), {0, 2, 1, 3});
  const Tensor exact = scaled_dot_product_attention(unit ? spread(q) : q, unit ? unit_rows(k) : k,
                                                    values, attention);
  double squares = 0;
  constexpr int draws = 6;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    Random r = init(seed);
    RandomFeatures layer(H, D, r, options);
    layer.convert(f64);
    const Features keys = layer.forward(k);
    const Tensor y = linear_attention(layer.forward(q).values, keys.values, v, {},
                                      {.causal = attention.causal,
                                       .key_padding = attention.key_padding,
                                       .key_log_scales = keys.log_scales,
                                       .floor = layer.floor()});
    const Tensor difference = permute(reshape(y, {3, 40, H, D}), {0, 2, 1, 3}) - exact;
    squares += mean(difference * difference).item() / draws;
  }
  return std::sqrt(squares);
}

TEST_CASE("layers: attention by random features nears the softmax as 1/√D") {
  Array padding = Array::zeros({3, 40}, DType::int32);
  for (std::size_t i = 0; i < 120; i += 3) padding.mutable_values<std::int32_t>()[i] = 1;
  const AttentionOptions forms[] = {{}, {.causal = true}, {.key_padding = padding}};
  for (const AttentionOptions& form : forms)
    for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
      std::vector<double> errors;
      for (const std::int64_t features : {16, 64, 256, 1024})
        errors.push_back(feature_error({.features = features, .map = map}, form));
      INFO(fmt::format("{}: {:.3f} {:.3f} {:.3f} {:.3f}",
                       map == FeatureMap::trigonometric ? "trigonometric" : "positive", errors[0],
                       errors[1], errors[2], errors[3]));
      for (std::size_t i = 1; i < errors.size(); ++i)
        CHECK(errors[i - 1] / errors[i] > 1.3);  // of 2
      CHECK(errors[0] / errors[3] > 4);          // of 8
      CHECK(errors[3] < 0.1);
    }
}

// Within four deviations of the mean of so many: (1 - k²)/√2 of one trigonometric product and
// k √(e^|x' + y'|² - 1) of one positive (Choromanski et al. 2020, lemma 2), which orthogonal
// directions lower.
TEST_CASE("layers: products of random features are the kernel's on average") {
  constexpr std::int64_t D = 4;
  constexpr double draws = 200000;
  const Tensor x = 0.5 * Tensor(normal({1, 5, D})), y = 0.5 * Tensor(normal({1, 5, D}));
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
    Random r = init();
    RandomFeatures layer(1, D, r, {.features = static_cast<std::int64_t>(draws), .map = map});
    layer.convert(f64);
    const bool unit = map == FeatureMap::trigonometric;
    const Tensor sigma = Array::of<double>({0.5, 1, 1.5, 0.8}, {1, D});
    if (unit) set(*layer.sigma, doubles(sigma.value()));
    const auto features = [&](const Tensor& z) {
      const Features f = layer.forward(z);
      return unit ? f.values : f.values * exp(Tensor(f.log_scales.reshaped({1, 1, 5})));
    };
    const Tensor products = matmul(features(x), features(y), {.transpose_a = true});
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        const Tensor a = slice(x, 1, i, i + 1), b = slice(y, 1, j, j + 1);
        const Tensor difference = (unit_rows(a) - unit_rows(b)) * sigma;
        const double wanted = unit ? std::exp(-0.5 * sum(difference * difference).item())
                                   : std::exp(0.5 * sum(a * b).item());
        const double found = products.value().values<double>()[i * 5 + j];
        const double square = sum((a + b) * (a + b)).item() / std::sqrt(static_cast<double>(D));
        const double deviation = unit ? (1 - wanted * wanted) / std::numbers::sqrt2
                                      : wanted * std::sqrt(std::expm1(square));
        CHECK(std::abs(found - wanted) <= 4 * deviation / std::sqrt(draws) + 1e-12);
      }
  }
}

TEST_CASE("layers: positive features are drawn in orthogonal groups, all of them from the seed") {
  Random r = init(5), again = init(5), other = init(6);
  const RandomFeaturesOptions options{.features = 10, .map = FeatureMap::positive};
  const RandomFeatures layer(2, 4, r, options);
  const Tensor w = layer.projection.tensor;
  CHECK(w.id() == 0);
  const std::vector<double> products = doubles(matmul(w, w, {.transpose_b = true}).value());
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 10; ++i)
      for (std::int64_t j = 0; j < i; ++j)
        if (i / 4 == j / 4) CHECK(std::abs(products[(h * 10 + i) * 10 + j]) <= 1e-5);
  CHECK(same_bits(w.value(), RandomFeatures(2, 4, again, options).projection.value()));
  CHECK_FALSE(same_bits(w.value(), RandomFeatures(2, 4, other, options).projection.value()));
  CHECK_THROWS_AS(RandomFeatures(2, 4, r, {.features = 0}), std::invalid_argument);
}

TEST_CASE("layers: attention by random features has no weights to record") {
  Random r = init();
  const MultiHeadAttention layer(
      4, 2, r, {.input = {}, .output = {}, .random_features = RandomFeaturesOptions{}});
  const AttentionRecorder recorder;
  CHECK_THROWS_WITH_AS(layer.forward(Tensor(Array::zeros({1, 2, 4}))),
                       "random-feature attention has no weights to look at", InputError);
}

TEST_CASE("layers: padding never leaks through random features") {
  const Array hidden = ints({0, 0, 1, 0, 1, 1, 0, 0, 0, 1}, {2, 5});
  const auto spoil = [&](const Array& x) {
    Array spoiled = x.clone();
    for (std::int64_t i = 0; i < spoiled.size(); ++i)
      if (hidden.values<std::int32_t>()[i / x.dim(2)]) spoiled.mutable_values<double>()[i] *= -50;
    return spoiled;
  };
  const auto visible = [&](const Array& x) {  // the rows of visible tokens
    std::vector<double> rows;
    for (std::int64_t i = 0; i < x.size(); ++i)
      if (!hidden.values<std::int32_t>()[i / x.dim(2)]) rows.push_back(doubles(x)[i]);
    return rows;
  };
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive}) {
    Random r = init();
    const RandomFeaturesOptions options{.map = map};
    MultiHeadAttention self(4, 2, r, {.input = {}, .output = {}, .random_features = options});
    MultiHeadAttention other(
        4, 2, r, {.source_width = 3, .input = {}, .output = {}, .random_features = options});
    randomised(self, f64), randomised(other, f64);
    const Array x = normal({2, 5, 4}), source = normal({2, 5, 3});
    for (const bool causal : {false, true}) {
      const AttentionOptions padded{.causal = causal, .key_padding = hidden};
      CHECK(visible(self.forward(x, padded).value()) ==
            visible(self.forward(spoil(x), padded).value()));
      CHECK(visible(self.forward(x).value()) != visible(self.forward(spoil(x)).value()));
    }
    CHECK(same_bits(other.forward(x, source, {.key_padding = hidden}).value(),
                    other.forward(x, spoil(source), {.key_padding = hidden}).value()));
  }
}

TEST_CASE("layers: a feed-forward has the activation that was asked for") {
  Random r = init();
  const Tensor x = normal({3, 4});
  const std::vector<std::pair<Activation, Tensor (*)(const Tensor&)>> rows = {
      {Activation::relu, relu}, {Activation::gelu, gelu}, {Activation::gelu_tanh, gelu_tanh}};
  for (const auto& [activation, op] : rows) {
    FeedForward layer(4, 5, r, {activation, {}, {}});
    randomised(layer, f64);
    const Tensor y = layer.contract.forward(op(layer.expand.forward(x)));
    CHECK(same_bits(layer.forward(x).value(), y.value()));
  }
}

TEST_CASE("layers: blocks are the equations of their two norms, with dropout on both branches") {
  Random r = init();
  for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
    TransformerBlock block(
        {.width = 6, .heads = 2, .norm = norm, .dropout = 0.3, .input = {}, .residual = {}}, r);
    randomised(block, f64);
    CHECK(block.feed_forward.expand.weight.tensor.shape() == Shape{24, 6});  // 4 · width
    const Tensor x = normal({2, 4, 6});
    Random noise(1, Stream::dropout), same_noise = noise;
    const auto D = [&](const Tensor& y) { return block.dropout.forward(y, &noise); };
    const auto A = [&](const Tensor& y) { return D(block.attention.forward(y, {.causal = true})); };
    const auto F = [&](const Tensor& y) { return D(block.feed_forward.forward(y)); };
    const auto N1 = [&](const Tensor& y) { return block.attention_norm.forward(y); };
    const auto N2 = [&](const Tensor& y) { return block.feed_forward_norm.forward(y); };
    Tensor y;
    if (norm == NormPlacement::pre)
      y = x + A(N1(x)), y = y + F(N2(y));
    else
      y = N1(x + A(x)), y = N2(y + F(y));
    const Tensor z = block.forward(x, {.attention = {.causal = true}, .noise = &same_noise});
    CHECK(same_bits(z.value(), y.value()));
    CHECK(noise.bits() == same_noise.bits());
  }
}

TEST_CASE("layers: a transformer is its parts, with dropout on the embeddings too") {
  Random r = init();
  for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post}) {
    TransformerOptions options = tiny;
    options.norm = norm;
    options.dropout = 0.3;
    Transformer model(options, r);
    randomised(model, f64);
    const Array tokens = ints({1, 2, 3, 4, 0, 1}, {2, 3});
    Random noise(1, Stream::dropout), same_noise = noise;
    Tensor x = model.position_embedding->forward(model.token_embedding.forward(tokens));
    x = model.dropout.forward(x, &noise);
    for (const TransformerBlock& block : model.blocks)
      x = block.forward(x, {.attention = {.causal = true}, .noise = &noise});
    CHECK(model.final_norm.has_value() == (norm == NormPlacement::pre));
    if (model.final_norm) x = model.final_norm->forward(x);
    x = matmul(x, model.token_embedding.weight, {.transpose_b = true});
    CHECK(distance(model.forward(tokens, &same_noise).value(), x.value()) <= 1e-14);
    CHECK(distance(model.forward(tokens).value(), x.value()) > 0.01);
  }
}

TEST_CASE("layers: recomputing blocks changes no bit, dropout included, and holds less memory") {
  const auto train_once = [](bool recompute_blocks) {
    Random r = init();
    Transformer model({.vocabulary = 20,
                       .context = 64,
                       .layers = 6,
                       .heads = 2,
                       .width = 32,
                       .dropout = 0.2,
                       .recompute_blocks = recompute_blocks},
                      r);
    const Array tokens = random_tokens({8, 64}, 20), targets = random_tokens({8, 64}, 20, 3);
    Random noise(7, Stream::dropout);
    reset_peak_memory();
    const std::int64_t before = memory_use().bytes_in_use;
    Tape tape;
    const Gradients gradients =
        tape.backward(cross_entropy(model.forward(tokens, &noise), targets));
    std::vector<Array> found;
    for (const Parameter* parameter : model.parameters()) found.push_back(gradients[*parameter]);
    return std::pair(found, memory_use().peak_bytes_in_use - before);
  };
  const auto [kept, kept_bytes] = train_once(false);
  const auto [recomputed, recomputed_bytes] = train_once(true);
  for (std::size_t i = 0; i < kept.size(); ++i)
    CHECK(std::memcmp(kept[i].raw(), recomputed[i].raw(), kept[i].bytes()) == 0);
  CHECK(recomputed_bytes < kept_bytes / 2);
}

TEST_CASE("layers: a transformer sees no later token") {
  Random r = init();
  Transformer model(tiny, r);
  randomised(model, f64);
  const std::vector<double> before = doubles(model.forward(ints({1, 2, 3, 4}, {1, 4})).value());
  const std::vector<double> after = doubles(model.forward(ints({1, 2, 0, 1}, {1, 4})).value());
  CHECK(std::equal(before.begin(), before.begin() + 10, after.begin()));
  CHECK_FALSE(std::equal(before.begin() + 10, before.begin() + 15, after.begin() + 10));
}

// --- generation ---

// tokens (B, T)[:, begin : end].
Array columns_of(const Array& tokens, std::int64_t begin, std::int64_t end) {
  Array part({tokens.dim(0), end - begin}, DType::int32);
  for (std::int64_t b = 0, i = 0; b < tokens.dim(0); ++b)
    for (std::int64_t t = begin; t < end; ++t, ++i)
      part.mutable_values<std::int32_t>()[i] = tokens.values<std::int32_t>()[b * tokens.dim(1) + t];
  return part;
}

// Feeds (B, T) tokens to cached models in chunks, and to the same model uncached.
void check_cached(const Transformer& model, const Array& tokens, double tolerance) {
  const std::int64_t B = tokens.dim(0), T = tokens.dim(1);
  const std::vector<std::vector<std::int64_t>> chunkings = {
      {8}, {1, 1, 1, 1, 1, 1, 1, 1}, {5, 1, 1, 1}, {1, 7}, {3, 5}, {2, 4, 1, 1}};
  const Tensor whole = model.forward(tokens);  // (B, T, V)
  for (const std::vector<std::int64_t>& chunks : chunkings) {
    std::vector<KeyValueCache> caches = model.make_caches(B);
    std::vector<Tensor> logits;
    std::int64_t t = 0;
    for (const std::int64_t chunk : chunks) {
      logits.push_back(model.forward(columns_of(tokens, t, t + chunk), caches));
      t += chunk;
    }
    CHECK(caches.back().length == T);
    CHECK(distance(concat(logits, 1).value(), whole.value()) <= tolerance);
  }
}

TEST_CASE("layers: cached logits are the uncached ones, whatever the chunks") {
  const Array tokens = random_tokens({3, 8}, 11);
  for (const Positions positions :
       {Positions::learned, Positions::sinusoidal, Positions::rotary, Positions::none})
    for (const NormPlacement norm : {NormPlacement::pre, NormPlacement::post})
      for (const DType dtype : {f32, f64}) {
        Random r = init();
        Transformer model({.vocabulary = 11,
                           .context = 10,
                           .layers = 2,
                           .heads = 2,
                           .width = 12,
                           .positions = positions,
                           .window = positions == Positions::none ? 3 : 0,
                           .norm = norm,
                           .dropout = 0.5},
                          r);
        randomised(model, dtype);
        check_cached(model, tokens, dtype == f32 ? 1e-5 : 1e-12);
      }
}

TEST_CASE("layers: cached logits of random features are the uncached ones, from sums of one size") {
  const Array tokens = random_tokens({3, 8}, 11);
  for (const Positions positions : {Positions::learned, Positions::rotary})
    for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive})
      for (const bool gated : {false, true})
        for (const DType dtype : {f32, f64}) {
          Random r = init();
          TransformerOptions options{
              .vocabulary = 11,
              .context = 10,
              .layers = 2,
              .heads = 2,
              .width = 12,
              .positions = positions,
              .random_features = RandomFeaturesOptions{.map = map, .gate = gated}};
          Transformer model(options, r);
          randomised(model, dtype);
          check_cached(model, tokens, dtype == f32 ? 1e-4 : 1e-11);

          const auto bytes = [](const KeyValueCache& cache) {
            return cache.sums->sums.bytes() + cache.sums->weights.bytes();
          };
          options.context = 100000;
          Transformer longer(options, r);
          longer.convert(dtype);
          CHECK(bytes(longer.make_caches(3)[0]) == bytes(model.make_caches(3)[0]));
        }
}

TEST_CASE("layers: a recurrent network's logits are the same whatever the chunks") {
  constexpr std::int64_t B = 3, T = 6, V = 11;
  const Array tokens = random_tokens({B, T}, V);
  for (const std::int64_t layers : {1, 2})
    for (const DType dtype : {f32, f64}) {
      Random r = init();
      RecurrentNetwork model({.vocabulary = V, .layers = layers, .width = 12, .dropout = 0.5}, r);
      randomised(model, dtype);
      const Tensor whole = model.forward(tokens);  // (B, T, V)
      CHECK(whole.shape() == Shape{B, T, V});
      for (const std::vector<std::int64_t>& chunks :
           {std::vector<std::int64_t>{6}, {1, 1, 1, 1, 1, 1}, {4, 1, 1}, {2, 4}}) {
        std::vector<Tensor> states = model.make_states(B), logits;
        std::int64_t t = 0;
        for (const std::int64_t chunk : chunks) {
          logits.push_back(model.forward(columns_of(tokens, t, t + chunk), states));
          t += chunk;
        }
        CHECK(distance(concat(logits, 1).value(), whole.value()) <= (dtype == f32 ? 1e-5 : 1e-12));
      }
    }
}

TEST_CASE("layers: a cache is full at the model's context") {
  Random r = init();
  const Transformer model(tiny, r);
  std::vector<KeyValueCache> caches = model.make_caches(1);
  CHECK(caches.size() == 2);
  model.forward(ints({1, 2, 3}, {1, 3}), caches);
  CHECK_THROWS_WITH_AS(model.forward(ints({1, 2}, {1, 2}), caches),
                       "transformer: tokens (1, 2) after 3 with a context of 4",
                       std::invalid_argument);
  CHECK(caches[0].length == 3);
  KeyValueCache small(1, 2, 4, f32);
  CHECK_THROWS_WITH_AS(
      model.blocks[0].attention.forward(Array::zeros({1, 3, 4}), small),
      "multi-head attention: x (1, 3, 4) float32 after 0 in a cache of (1, 2, 4) float32",
      std::invalid_argument);
}

TEST_CASE("bug: a cache of another batch, width or dtype was written past its end") {
  Random r = init();
  const MultiHeadAttention attention(4, 2, r);
  const Array x = Array::zeros({2, 3, 4});
  for (KeyValueCache cache :
       {KeyValueCache(1, 3, 4, f32), KeyValueCache(2, 3, 2, f32), KeyValueCache(2, 3, 4, f64)}) {
    CHECK_THROWS_AS(attention.forward(x, cache), std::invalid_argument);
    CHECK(cache.length == 0);
  }
  KeyValueCache fits(2, 3, 4, f32);
  attention.forward(x, fits);
  CHECK(fits.length == 3);
}

TEST_CASE("bug: a transformer read past the end of too few caches") {
  Random r = init();
  const Transformer model(tiny, r);
  std::vector<KeyValueCache> none, one;
  one.emplace_back(1, 4, 4, f32);
  for (auto* caches : {&none, &one})
    CHECK_THROWS_WITH_AS(model.forward(ints({1}, {1, 1}), *caches),
                         fmt::format("transformer: {} caches for 2 blocks", caches->size()).c_str(),
                         std::invalid_argument);
}

// The likeliest continuation of a prompt by the logits of the whole text so far.
template <class Model>
std::vector<std::int32_t> continued(const Model& model, std::vector<std::int32_t> text,
                                    std::int64_t tokens) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int64_t T = std::ssize(text);
    const Tensor logits = model.forward(Array::of(text, {1, T}));
    const std::vector<double> last = doubles(slice(logits, 1, T - 1, T).value());
    text.push_back(static_cast<std::int32_t>(std::ranges::max_element(last) - last.begin()));
  }
  return {text.end() - tokens, text.end()};
}

TEST_CASE("generate: reads on as if it read the whole text again") {
  Random r = init(), chance(0, Stream::sample);
  Transformer transformer({.vocabulary = 9, .context = 20, .layers = 2, .heads = 2, .width = 8}, r);
  RecurrentNetwork recurrent({.vocabulary = 9, .layers = 2, .width = 8}, r);
  randomised(transformer, f32);
  randomised(recurrent, f32);
  const std::vector<std::int32_t> prompt = {3, 1, 4, 1, 5};
  const SampleOptions greedy{.temperature = 0};
  CHECK(generate(transformer, prompt, 15, greedy, chance) == continued(transformer, prompt, 15));
  CHECK(generate(recurrent, prompt, 40, greedy, chance) == continued(recurrent, prompt, 40));
  CHECK(generate(recurrent, prompt, 0, greedy, chance).empty());
  CHECK_THROWS_WITH_AS(generate(recurrent, {}, 1, greedy, chance), "generate: an empty prompt",
                       std::invalid_argument);
}

TEST_CASE("generate: a transformer whose context is full reads its later half again") {
  Random r = init(), chance(0, Stream::sample);
  Transformer model({.vocabulary = 9, .context = 6, .layers = 1, .heads = 2, .width = 8}, r);
  randomised(model, f32);
  const SampleOptions greedy{.temperature = 0};
  std::vector<std::int32_t> text = {8, 7, 0, 3, 1, 4, 1, 5};  // of which it sees the last six
  const auto given = generate(model, text, 8, greedy, chance);
  for (const std::size_t seen : {6u, 3u, 4u, 5u, 6u, 3u, 4u, 5u}) {
    const std::vector<std::int32_t> part(text.end() - static_cast<std::ptrdiff_t>(seen),
                                         text.end());
    text.push_back(continued(model, part, 1).front());
  }
  CHECK(std::equal(given.begin(), given.end(), text.end() - 8));
}

// --- misuse ---

TEST_CASE("layers: a misuse is std::invalid_argument that says what is wrong") {
  Random r = init();
  const Transformer model(tiny, r);
  const MultiHeadAttention self(4, 2, r);
  const MultiHeadAttention other(4, 2, r, {.source_width = 3, .input = {}, .output = {}});
  const Array x = Array::zeros({1, 2, 4}), source = Array::zeros({1, 5, 3});
  KeyValueCache cache(1, 4, 4, f32);
  const MultiHeadAttention by_features(
      4, 2, r, {.input = {}, .output = {}, .random_features = RandomFeaturesOptions{.gate = true}});
  const std::vector<std::pair<std::string, std::function<void()>>> rows = {
      {"embedding: token 5 with table (5, 4)",
       [&] {
         model.forward(ints({0, 5}, {1, 2}));
       }},
      {"embedding: token -1 with table (5, 4)",
       [&] {
         model.forward(ints({-1}, {1, 1}));
       }},
      {"transformer: tokens (1, 5) after 0 with a context of 4",
       [&] {
         model.forward(ints({0, 0, 0, 0, 0}, {1, 5}));
       }},
      {"transformer: tokens (2,) after 0 with a context of 4",
       [&] {
         model.forward(ints({0, 1}, {2}));
       }},
      {"multi-head attention: 3 heads do not divide width 4", [&] { MultiHeadAttention(4, 3, r); }},
      {"multi-head attention: 0 heads do not divide width 4", [&] { MultiHeadAttention(4, 0, r); }},
      {"multi-head attention: rotary positions need self-attention and an even head width, not 3",
       [&] { MultiHeadAttention(6, 2, r, {.input = {}, .output = {}, .rotary_positions = true}); }},
      {"multi-head attention: a gate needs self-attention",
       [&] {
         MultiHeadAttention(4, 2, r,
                            {.source_width = 3,
                             .input = {},
                             .output = {},
                             .random_features = RandomFeaturesOptions{.gate = true}});
       }},
      {"multi-head attention: random features know no mask, window or first keys",
       [&] { by_features.forward(x, {.window = 2}); }},
      {"multi-head attention: a cache of keys for attention by random features",
       [&] { by_features.forward(x, cache, {.causal = true}); }},
      {"linear_attention: a gate without causality", [&] { by_features.forward(x); }},
      {"multi-head attention: self-attention takes no source", [&] { self.forward(x, source); }},
      {"multi-head attention: cross-attention needs a source", [&] { other.forward(x); }},
      {"multi-head attention: cross-attention has no cache", [&] { other.forward(x, cache); }},
      {"linear: x (1, 5, 3) with weight (12, 4)", [&] { self.forward(source); }},
      {"linear: x (1, 2, 4) with weight (8, 3)", [&] { other.forward(x, x); }},
      {"mlp: needs at least an input and an output width", [&] { Mlp({3}, r); }},
      {"memory: x (2, 4)",
       [&] {
         CompositeSum(4, r).forward(Array::zeros({2, 4}));
       }},
      {"memory: x (2, 0, 4)",
       [&] {
         CompositeSum(4, r).forward(Array::zeros({2, 0, 4}));
       }},
      {"memory: no kind sun", [&] { make_memory({.kind = "sun"}, r); }},
      {"memory: γ = 1, expected between 0 and 1",
       [&] { ExponentialForgetting(4, r, {.gamma = 1}); }},
      {"multi-head attention: 3 heads do not divide width 4", [&] { MultiHeadMemory(4, 3, r); }},
      {"vision transformer: patches of 5 × 5 do not tile images of 28 × 28",
       [&] { VisionTransformer({.patch = 5}, r); }},
      {"vision transformer: images (2, 783) for 28 × 28 pixels",
       [&] {
         VisionTransformer({.layers = 1}, r).forward(Array::zeros({2, 783}));
       }},
      {"forecaster: patches of 10 every 4 steps do not end with a context of 96",
       [&] { Forecaster({.patch = 10, .stride = 4}, r); }},
      {"forecaster: x (1, 2, 4) with a context of 96",
       [&] { Forecaster({.layers = 0}, r).forward(x); }},
      {"patch encoder: x (1, 2, 4) for 49 patches of 16 values",
       [&] { PatchEncoder({.layers = 1}, r).forward(x); }},
      {"recurrent network: 0 states for 1 layers",
       [&] {
         std::vector<Tensor> none;
         RecurrentNetwork({.vocabulary = 5, .width = 4}, r).forward(ints({1}, {1, 1}), none);
       }},
      {"recurrent network: tokens (1, 0)",
       [&] {
         RecurrentNetwork({.vocabulary = 5, .width = 4}, r).forward(ints({}, {1, 0}));
       }},
      {"tanh_recurrence: x (1, 2, 4) after (3, 4)",
       [&] {
         Recurrent(4, 4, r).forward(x, Array::zeros({3, 4}));
       }},
  };
  for (const auto& [message, misuse] : rows)
    CHECK_THROWS_WITH_AS(misuse(), message.c_str(), std::invalid_argument);
}

TEST_CASE("layers: a value that is not finite names the module it arose in") {
  struct Checking {
    Checking() { set_check_finite(true); }
    ~Checking() { set_check_finite(false); }
  } checking;
  const auto message = [](Module& module, const std::string& poisoned,
                          const std::function<void()>& forward_pass) -> std::string {
    for (Parameter* parameter : module.parameters())
      if (parameter->name == poisoned)
        parameter->value().mutable_values<float>()[1] = std::numeric_limits<float>::quiet_NaN();
    try {
      forward_pass();
    } catch (const NonFiniteError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  Random r = init();
  for (const auto& [poisoned, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"token_embedding.weight", "embedding in token_embedding"},
           {"position_embedding.weight", "in position_embedding"},
           {"blocks.0.attention.query_key_value.weight",
            "linear in blocks.0.attention.query_key_value"},
           {"blocks.1.attention_norm.bias", "layer_norm in blocks.1.attention_norm"},
           {"blocks.1.feed_forward.expand.weight", "linear in blocks.1.feed_forward.expand"},
           {"final_norm.weight", "layer_norm in final_norm"}}) {
    Transformer model(tiny, r);
    const std::string said = message(model, poisoned, [&] {
      model.forward(ints({0, 1, 2, 3}, {1, 4}));
    });
    CAPTURE(said);
    CHECK(said.find("the output of ") == 0);
    CHECK(said.find(wanted + " is not finite: ") != std::string::npos);
  }
  // After a model has moved its modules keep their names.
  Vae first({.height = 1, .width = 4, .hidden = {3}, .latent = 2}, r);
  Vae vae = std::move(first);
  const std::string said = message(vae, "decoder.1.weight", [&] {
    Random noise(0, Stream::data);
    vae.elbo(Array::zeros({2, 4}), noise);
  });
  CHECK(said.find("the output of linear in decoder.1 is not finite: ") == 0);
}

// --- the variational autoencoder by hand ---

TEST_CASE("layers: recon and kl of a VAE are what a hand computes, in nats") {
  const double ln2 = std::numbers::ln2, ln3 = std::log(3.0);
  for (const DType dtype : {f32, f64}) {
    Random r = init(), noise(0, Stream::data);
    VaeOptions options{.height = 1, .width = 2, .hidden = {1}, .latent = 2};
    const auto make = [&] {
      Vae vae(options, r);
      for (Parameter* parameter : vae.parameters())
        parameter->value().copy_from(Array::zeros(parameter->tensor.shape()));
      set(vae.mean.bias, {1, 0});                             // μ
      if (vae.log_sigma) set(vae.log_sigma->bias, {0, ln2});  // σ = 1, 2
      set(vae.decoder.layers[1].bias, {0, ln3});              // p = 1/2, 3/4
      vae.convert(dtype);
      return vae;
    };
    const Tensor x = Array::of<double>({1, 0, 0, 1}, {2, 2}).to(dtype);
    const Vae::Elbo bernoulli = make().elbo(x, noise);
    // an image: ½ (1 + 1 - 1) - 0 and ½ (0 + 4 - 1) - ln 2
    CHECK(bernoulli.kl.item() == doctest::Approx(2 * (2 - ln2)));
    // (1, 0): ln 2 + ln 4; (0, 1): ln 2 + ln (4/3)
    CHECK(bernoulli.recon.item() == doctest::Approx(6 * ln2 - ln3));
    const std::vector<double> p =
        doubles(make().expected_image(Array::zeros({1, 2}, dtype)).value());
    CHECK(p[0] == doctest::Approx(0.5));
    CHECK(p[1] == doctest::Approx(0.75));

    options.likelihood = Likelihood::gaussian;
    const Vae::Elbo gaussian = make().elbo(x, noise);
    CHECK(gaussian.kl.item() == doctest::Approx(2 * (2 - ln2)));
    const double squares = 1 + ln3 * ln3 + 0 + (1 - ln3) * (1 - ln3);
    CHECK(gaussian.recon.item() == doctest::Approx(squares / 2 + 4 * 0.9189385332046727));
    CHECK(make().expected_image(Array::zeros({1, 2}, dtype)).value().to(f64).values<double>()[1] ==
          doctest::Approx(ln3));

    options.sigma = Sigma::shared;
    Vae shared = make();
    set(*shared.shared_log_sigma, {ln2});
    CHECK(shared.encode(x).log_sigma.shape() == Shape{2, 2});
    CHECK(shared.elbo(x, noise).kl.item() == doctest::Approx(2 * (0.5 + 3 - 2 * ln2)));
  }
}

TEST_CASE("layers: a VAE's sample is μ + σ ε, and its elbo is made of its parts") {
  Random r = init();
  Vae vae({.height = 1, .width = 5, .hidden = {4}, .latent = 2}, r);
  randomised(vae, f64);
  const Tensor x = pixels({3, 5});
  const Vae::Posterior posterior = vae.encode(x);
  Array epsilon({3, 2}, f64);
  Random(7, Stream::data).fill_normal(epsilon, 0, 1);
  Random again(7, Stream::data), once_more(7, Stream::data);
  const Tensor z = posterior.mean + exp(posterior.log_sigma) * epsilon;
  CHECK(distance(vae.sample(posterior, again).value(), z.value()) <= 1e-15);
  const Vae::Elbo elbo = vae.elbo(x, once_more);
  CHECK(elbo.recon.item() == sum(binary_cross_entropy(vae.decode(z), x)).item());
  CHECK(elbo.kl.item() == sum(gaussian_kl(posterior.mean, posterior.log_sigma)).item());
}

TEST_CASE("layers: a plain autoencoder has no noise, no KL and no log σ") {
  Random r = init(), noise(7, Stream::data);
  Vae model({.height = 1, .width = 5, .hidden = {4}, .latent = 2, .sigma = Sigma::none}, r);
  randomised(model, f64);
  for (const std::string& name : names(model)) CHECK(name.find("sigma") == std::string::npos);
  const Tensor x = pixels({3, 5});
  const Vae::Posterior posterior = model.encode(x);
  CHECK(same_bits(model.sample(posterior, noise).value(), posterior.mean.value()));
  const Vae::Elbo elbo = model.elbo(x, noise);
  CHECK(elbo.kl.item() == 0);
  CHECK(elbo.recon.item() == sum(binary_cross_entropy(model.decode(posterior.mean), x)).item());
  CHECK(distance(model.mean_of(elbo.decoded).value(),
                 model.expected_image(posterior.mean).value()) == 0);
}

TEST_CASE("layers: convolutions start as PyTorch's do") {
  Random r = init();
  const Convolution2d forth(8, 32, r);
  const TransposedConvolution2d back(32, 8, r);
  const double bound = 1 / std::sqrt(8 * 9.0);
  for (const Array& values : {forth.weight.value(), forth.bias.value(), back.weight.value()}) {
    double largest = 0;
    for (const double value : doubles(values)) largest = std::max(largest, std::abs(value));
    CHECK(largest <= bound);
    CHECK(largest > 0.8 * bound);
  }
}

TEST_CASE("layers: a stack of convolutions halves images, and its mirror restores their size") {
  Random r = init();
  for (const auto& [height, width, features] :
       {std::tuple{28, 28, 5 * 7 * 7}, {27, 30, 5 * 7 * 8}, {1, 3, 5 * 1 * 1}}) {
    const ConvolutionStackOptions options{.height = height, .width = width, .channels = {2, 5}};
    CHECK(stack_features(options) == features);
    const Tensor y = ConvolutionStack(options, r).forward(pixels({3, height * width}, f32));
    CHECK(y.shape() == Shape{3, features});
    CHECK(TransposedConvolutionStack(options, r).forward(y).shape() == Shape{3, height * width});
  }
}

// --- the same bits on any number of threads ---

// The loss, clipped gradient norm and every gradient of two steps, and the parameters after them.
std::vector<Array> train(Module& module, const std::function<Tensor(Random&)>& loss) {
  const std::vector<Parameter*> parameters = module.parameters();
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  std::vector<Array> result;
  for (std::uint64_t step = 0; step < 2; ++step) {
    Random noise(0, Stream::dropout, step);
    Tape tape;
    const Tensor value = loss(noise);
    const Gradients gradients = tape.backward(value);
    const Clip clipped = clip(gradients, parameters, 0.5);
    result.insert(result.end(), {value.value(), Array::full({}, clipped.norm, f64)});
    for (const Parameter* parameter : parameters)
      if (parameter->role != Role::fixed) result.push_back(gradients[*parameter]);
    optimizer.step(gradients, 1e-2, clipped.scale);
  }
  for (const Parameter* parameter : parameters) result.push_back(parameter->value());
  return result;
}

void check_threads(const std::function<std::vector<Array>()>& steps) {
  const int before = num_threads();
  std::vector<Array> first;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const std::vector<Array> result = steps();
    if (first.empty()) first = result;
    bool same = result.size() == first.size();
    for (std::size_t i = 0; same && i < result.size(); ++i) same = same_bits(result[i], first[i]);
    CAPTURE(threads);
    CHECK(same);
  }
  set_num_threads(before);
}

TEST_CASE("threads: training steps of a transformer have the same bits on 1, 2, 3 and 8 threads") {
  for (const DType dtype : {f32, f64})
    for (const bool tied : {true, false})
      check_threads([&] {
        Random r = init();
        Transformer model({.vocabulary = 65,
                           .context = 50,
                           .layers = 2,
                           .heads = 4,
                           .width = 96,
                           .dropout = 0.1,
                           .tied_embeddings = tied},
                          r);
        model.convert(dtype);
        const Array tokens = random_tokens({5, 50}, 65), targets = random_tokens({5, 50}, 65, 3);
        return train(model, [&](Random& noise) {
          return cross_entropy(model.forward(tokens, &noise), targets);
        });
      });
}

TEST_CASE("threads: training steps of recurrent networks and memories have the same bits") {
  for (const DType dtype : {f32, f64}) {
    const Array tokens = random_tokens({19, 40}, 65), targets = random_tokens({19, 40}, 65, 3),
                answers = random_tokens({19}, 10, 4);
    check_threads([&] {
      Random r = init();
      RecurrentNetwork model({.vocabulary = 65, .layers = 2, .width = 130, .dropout = 0.1}, r);
      model.convert(dtype);
      return train(model, [&](Random& noise) {
        return cross_entropy(model.forward(tokens, &noise), targets);
      });
    });
    for (const std::string& kind : memory_kinds())
      check_threads([&] {
        Random r = init();
        MemoryNetwork model(
            {.vocabulary = 65, .classes = 10, .memory = {.kind = kind, .width = 130, .heads = 2}},
            r);
        model.convert(dtype);
        const Array items = tokens.reshaped({19, 20, 2});
        return train(model, [&](Random&) { return cross_entropy(model.forward(items), answers); });
      });
  }
}

TEST_CASE(
    "threads: training steps by random features have the same bits on 1, 2, 3 and 8 threads") {
  for (const DType dtype : {f32, f64})
    for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive})
      check_threads([&] {
        Random r = init();
        Transformer model({.vocabulary = 65,
                           .context = 150,
                           .layers = 2,
                           .heads = 4,
                           .width = 96,
                           .random_features = RandomFeaturesOptions{.map = map, .gate = true}},
                          r);
        model.convert(dtype);
        const Array tokens = random_tokens({3, 150}, 65), targets = random_tokens({3, 150}, 65, 3);
        return train(model, [&](Random& noise) {
          return cross_entropy(model.forward(tokens, &noise), targets);
        });
      });
}

TEST_CASE("threads: training steps of graph networks have the same bits on 1, 2, 3 and 8 threads") {
  Random random(1, Stream::data);
  std::vector<Edge> edges;
  for (int i = 0; i < 3000; ++i)
    edges.push_back({static_cast<std::int32_t>(random.below(500)),
                     static_cast<std::int32_t>(random.below(500))});
  const Adjacency graph(500, edges);
  const Array first_nodes = ints({0, 3, 3, 200, 500}, {5}), targets = ints({1, 0, 2, 1}, {4});
  for (const DType dtype : {f32, f64})
    for (const Pooling pooling : {Pooling::sum, Pooling::mean, Pooling::max})
      for (const bool attention : {false, true})
        check_threads([&] {
          Random r = init();
          GraphNetwork model({.inputs = 70,
                              .classes = 3,
                              .width = 66,
                              .attention = attention,
                              .heads = 2,
                              .dropout = 0.1,
                              .pooling = pooling},
                             r);
          model.convert(dtype);
          const Tensor x = pixels({500, 70}, dtype);
          return train(model, [&](Random& noise) {
            return cross_entropy(model.forward(graph, x, first_nodes, &noise), targets);
          });
        });
}

TEST_CASE("threads: training steps of a VAE have the same bits on 1, 2, 3 and 8 threads") {
  for (const DType dtype : {f32, f64})
    for (const Sigma sigma : {Sigma::per_dimension, Sigma::shared})
      check_threads([&] {
        Random r = init();
        Vae model({.hidden = {200, 70}, .sigma = sigma}, r);
        model.convert(dtype);
        const Tensor x = pixels({67, 784}, dtype);
        return train(model, [&](Random& noise) {
          const Vae::Elbo elbo = model.elbo(x, noise);
          return (elbo.recon + elbo.kl) * (1 / 67.0);
        });
      });
}

TEST_CASE("threads: training steps of a convolutional VAE have the same bits on any threads") {
  for (const DType dtype : {f32, f64})
    check_threads([&] {
      Random r = init();
      Vae model({.channels = {8, 5}, .hidden = {30}, .latent = 3}, r);
      model.convert(dtype);
      const Tensor x = pixels({37, 784}, dtype);
      return train(model, [&](Random& noise) {
        const Vae::Elbo elbo = model.elbo(x, noise);
        return (elbo.recon + elbo.kl) * (1 / 37.0);
      });
    });
}

}  // namespace
}  // namespace tapestry
