#include <doctest/doctest.h>

#include <set>

#include "layers/convolution.hpp"
#include "layers/graph_layers.hpp"
#include "layers/mlp.hpp"
#include "tests/support/graphs.hpp"
#include "tests/support/layer_table.hpp"
#include "tests/support/reference.hpp"

// The values of layers compared with expressions of xtensor, and the list of those that are not.
namespace tapestry {
namespace {

struct LayerReference {
  const char* layer;
  std::function<std::pair<Tensor, Values>(Random& init)> values;  // the layer's and the expected
};

Values linear_of(const Values& x, const Linear& layer) {
  const Values y = product(x, transposed(values_of(layer.weight.value())));
  return layer.bias.value().empty() ? y : Values(y + values_of(layer.bias.value()));
}

// softmax(q kᵀ / √D) v of one head.
Values attention_of(const Values& q, const Values& k, const Values& v) {
  return product(softmax_of(product(q, transposed(k)) / std::sqrt(double(q.shape().back()))), v);
}

template <class M>
M random_layer(M layer) {
  randomised(layer, f64);
  return layer;
}

std::vector<LayerReference> layer_references() {
  static const Array x = normal({2, 3, 6}), source = normal({2, 5, 4});
  std::vector<LayerReference> rows;
  const auto row = [&](const char* layer, std::pair<Tensor, Values> (*values)(Random&)) {
    rows.push_back({layer, values});
  };
  row("Linear", [](Random& r) {
    const auto layer = random_layer(Linear(6, 4, r));
    return std::pair(layer.forward(x), linear_of(values_of(x), layer));
  });
  row("Embedding", [](Random& r) {
    const auto layer = random_layer(Embedding(5, 6, r));
    const Values table = values_of(layer.weight.value());
    return std::pair(layer.forward(ints({4, 0, 4}, {3})),
                     Values(xt::view(table, xt::keep(4, 0, 4))));
  });
  row("Norm", [](Random&) {
    const auto layer = random_layer(Norm(6));
    return std::pair(layer.forward(x),
                     Values(layer_norm_of(values_of(x), 1e-5) * values_of(layer.weight.value()) +
                            values_of(layer.bias->value())));
  });
  row("Norm", [](Random&) {
    const auto layer = random_layer(Norm(6, {.kind = NormKind::rms, .epsilon = 0.1}));
    return std::pair(layer.forward(x),
                     Values(rms_norm_of(values_of(x), 0.1) * values_of(layer.weight.value())));
  });
  row("FeedForward", [](Random& r) {
    const auto layer = random_layer(FeedForward(6, r, {.hidden = 9}));
    return std::pair(layer.forward(x),
                     linear_of(gelu_of(linear_of(values_of(x), layer.expand)), layer.contract));
  });
  row("FeedForward", [](Random& r) {
    const auto layer = random_layer(
        FeedForward(6, r, {.hidden = 9, .activation = Activation::silu, .gated = true}));
    const Values both = linear_of(values_of(x), layer.expand), gate = columns_of(both, 0, 9);
    return std::pair(layer.forward(x),
                     linear_of(gate * sigmoid_of(gate) * columns_of(both, 9, 18), layer.contract));
  });
  row("Mlp", [](Random& r) {
    const auto layer = random_layer(Mlp({6, 5, 3}, r));
    const Values hidden = linear_of(values_of(x), layer.layers[0]);
    return std::pair(layer.forward(x), linear_of(xt::maximum(hidden, 0.0), layer.layers[1]));
  });
  row("PositionalEncoding", [](Random& r) {
    const PositionalEncoding layer({.kind = Positions::sinusoidal, .input_scale = 3}, r);
    const Values angles = xt::expand_dims(xt::arange<double>(2, 5), 1) *
                          xt::pow(1e4, -xt::arange<double>(0, 6, 2) / 6.0);
    Values y = 3 * values_of(x);
    xt::view(y, xt::all(), xt::all(), xt::range(0, 6, 2)) += xt::sin(angles);
    xt::view(y, xt::all(), xt::all(), xt::range(1, 6, 2)) += xt::cos(angles);
    return std::pair(layer.forward(x, {2}), y);
  });
  row("Attention", [](Random& r) {
    const auto layer = random_layer(Attention(6, 4, 8, r));
    return std::pair(
        layer.forward(x, source),
        attention_of(linear_of(values_of(x), layer.query), linear_of(values_of(source), layer.key),
                     linear_of(values_of(source), layer.value)));
  });
  row("SelfAttention", [](Random& r) {
    auto layer = SelfAttention(6, r, {.heads = 1});
    randomised(layer, f64);
    const Values qkv = linear_of(values_of(x), layer.query_key_value);
    return std::pair(layer.forward(x),
                     linear_of(attention_of(columns_of(qkv, 0, 6), columns_of(qkv, 6, 12),
                                            columns_of(qkv, 12, 18)),
                               layer.output));
  });
  row("CrossAttention", [](Random& r) {
    auto layer = CrossAttention(6, 4, r, {.heads = 1});
    randomised(layer, f64);
    const Values kv = linear_of(values_of(source), layer.key_value);
    return std::pair(layer.forward(x, source),
                     linear_of(attention_of(linear_of(values_of(x), layer.query),
                                            columns_of(kv, 0, 6), columns_of(kv, 6, 12)),
                               layer.output));
  });
  row("GraphConvolution", [](Random& r) {
    const auto layer = random_layer(GraphConvolution(
        4, 3, r, {.normalization = Normalization::symmetric, .activation = Activation::none}));
    const Adjacency graph = Adjacency::undirected(5, {{0, 1}, {1, 2}, {3, 1}});
    const Array nodes = normal({5, 4});
    const Values a = values_of(dense(graph, 1, 0)) + xt::eye<double>(5),
                 root = 1 / xt::sqrt(column_sum(a));
    return std::pair(layer.forward(graph, nodes),
                     Values(root * product(a, root * linear_of(values_of(nodes), layer.neighbors)) +
                            values_of(layer.bias.value())));
  });
  row("GraphConvolution", [](Random& r) {
    const auto layer = random_layer(GraphConvolution(4, 3, r, {.activation = Activation::relu}));
    const Adjacency graph = random_graph(5, 9, 1);
    const Array nodes = normal({5, 4});
    const Values y =
        product(values_of(dense(graph, 1, 0)), linear_of(values_of(nodes), layer.neighbors)) +
        linear_of(values_of(nodes), *layer.own) + values_of(layer.bias.value());
    return std::pair(layer.forward(graph, nodes), Values(xt::maximum(y, 0.0)));
  });
  row("GraphConvolution", [](Random& r) {
    const auto layer = random_layer(GraphConvolution(
        4, 3, r, {.normalization = Normalization::mean, .activation = Activation::none}));
    const Adjacency graph = random_graph(5, 9, 1);
    const Array nodes = normal({5, 4});
    const Values a = values_of(dense(graph, 1, 0));
    return std::pair(
        layer.forward(graph, nodes),
        Values(product(a / xt::maximum(column_sum(a), 1.0),
                       linear_of(values_of(nodes), layer.neighbors)) +
               linear_of(values_of(nodes), *layer.own) + values_of(layer.bias.value())));
  });
  row("GraphAttention", [](Random& r) {
    const auto layer = random_layer(GraphAttention(4, 3, r, {.activation = Activation::none}));
    const Adjacency graph = random_graph(5, 60, 1);
    const Array nodes = normal({5, 4});
    const auto map = [&](const Linear& of) { return linear_of(values_of(nodes), of); };
    const Values scores = product(map(layer.query), transposed(map(layer.key))) / std::sqrt(3.0);
    return std::pair(layer.forward(graph, nodes),
                     Values(product(softmax_of(scores + values_of(dense(graph, 0, -infinity))),
                                    map(layer.value)) +
                            map(*layer.own) + values_of(layer.bias.value())));
  });
  return rows;
}

// Layers and models whose values need more than three lines, and the test that holds them.
const std::map<std::string, std::string> layers_held_elsewhere = {
    {"Adapter", "test_adapters.cpp merges it into the weight"},
    {"CompositeSum", "test_memory.cpp compares with its sum, step by step"},
    {"Convolution2d", "autograd/test_integer_images.cpp compares its op with the definition"},
    {"ConvolutionalClassifier", "a composition: test_convolution.cpp"},
    {"ConvolutionStack", "a composition: test_convolution.cpp"},
    {"DecoderClassifier", "test_fine_tuning.cpp compares with transformers' values"},
    {"Dropout", "random numbers: test_simple.cpp counts and scales them"},
    {"Encoder", "test_golden_models.cpp: PyTorch's values"},
    {"EncoderDecoder", "test_golden_models.cpp: PyTorch's values"},
    {"ExponentialForgetting", "test_memory.cpp compares with its sum, step by step"},
    {"Forecaster", "a composition: layer_rows_encoder.cpp"},
    {"ForgettingGate", "test_memory.cpp compares with its sum, step by step"},
    {"GroupNorm", "its op group_norm has a row in autograd/test_reference.cpp"},
    {"GraphNetwork", "a composition: test_graph.cpp"},
    {"MemoryNetwork", "a composition: test_memory.cpp"},
    {"MultiHeadMemory", "test_memory.cpp compares with SelfAttention"},
    {"PatchEncoder", "a composition: layer_rows_encoder.cpp"},
    {"QueryKeyMemory", "test_memory.cpp compares with its sum, step by step"},
    {"RandomFeatures", "test_random_features.cpp compares with the kernel that it estimates"},
    {"Recurrent", "its op tanh_recurrence has a row in autograd/test_reference.cpp"},
    {"RecurrentMemory", "test_memory.cpp compares with its sum, step by step"},
    {"RecurrentNetwork", "a composition: test_memory.cpp"},
    {"ResidualConvolution", "a composition: test_convolution.cpp"},
    {"SigmoidAttention", "test_memory.cpp compares with its sum, step by step"},
    {"SoftmaxAttention", "test_memory.cpp compares with its sum, step by step"},
    {"TextClassifier", "a composition: layer_rows_encoder.cpp"},
    {"Transformer", "test_golden_models.cpp: PyTorch's and transformers' values"},
    {"TransformerBlock", "test_golden_models.cpp: PyTorch's and transformers' values"},
    {"TransposedConvolution2d",
     "autograd/test_integer_images.cpp compares its op with the definition"},
    {"TransposedConvolutionStack", "a composition: test_convolution.cpp"},
    {"Vae", "test_golden_models.cpp: PyTorch's values"},
    {"VisionTransformer", "a composition: layer_rows_encoder.cpp"},
};

TEST_SUITE_BEGIN("reference");

TEST_CASE("reference: layers have the values of xtensor's expressions") {
  for (const LayerReference& row : layer_references()) {
    CAPTURE(std::string(row.layer));
    Random r = init();
    const auto [found, expected] = row.values(r);
    CHECK(distance(found.value(), array_of(expected)) <= 1e-12);
  }
}

TEST_CASE("reference: every layer has a row, or a test that is named instead") {
  std::set<std::string> rows;
  for (const LayerReference& row : layer_references()) rows.insert(row.layer);
  for (const std::string& layer : declared_layers())
    CHECK_MESSAGE(rows.contains(layer) != layers_held_elsewhere.contains(layer), layer);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
