#include <doctest/doctest.h>

#include <cmath>

#include "autograd/ops.hpp"
#include "layers/additive_graph_attention.hpp"
#include "layers/graph_layers.hpp"
#include "layers/models/memory_network.hpp"
#include "layers/models/vae.hpp"
#include "layers/random_features.hpp"
#include "tests/support/graphs.hpp"

// The programs that the pages of train/guide/learn/ quote, and the solutions of their exercises.
namespace tapestry {
namespace {

TEST_SUITE_BEGIN("course");

const auto about = [](double value) { return doctest::Approx(value).epsilon(1e-4); };

TEST_CASE("course: the derivative of (a b + sin a)² by the tape is the one by hand") {
  const Tensor a = Tensor::variable(row({2})), b = Tensor::variable(row({3}));
  Tape tape;
  const Tensor u = a * b;
  const Tensor v = sin(a);
  const Tensor w = u + v;
  const Tensor f = w * w;
  const Gradients gradients = tape.backward(sum(f));
  CHECK(doubles(f.value())[0] == about(47.7384));
  CHECK(doubles(gradients[a])[0] == about(35.7051));  // 2w (b + cos a)
  CHECK(doubles(gradients[b])[0] == about(27.6372));  // 2w a
}

TEST_CASE("course: the derivative of x σ(x) at 1") {
  const Tensor x = Tensor::variable(row({1}));
  Tape tape;
  const Gradients gradients = tape.backward(sum(x * sigmoid(x)));
  CHECK(doubles(gradients[x])[0] == about(0.9277));
}

TEST_CASE("course: half of an item is forgotten after 6.6 items with γ = 0.9") {
  constexpr std::int64_t n = 21;
  Array x = Array::zeros({1, n, 1}, f64);
  x.mutable_values<double>()[0] = 1;  // an item of age 20
  const Tensor memory = linear_recurrence(Array::full({}, 0.9, f64), x);
  CHECK(doubles(memory.value())[n - 1] == about(std::pow(0.9, 20)));
  CHECK(std::pow(0.9, 20) == about(0.1216));
  CHECK(std::log(0.5) / std::log(0.9) == about(6.5788));
}

TEST_CASE("course: attention of three tokens has the weights and the outputs computed by hand") {
  const Array q = Array::of(std::vector<double>{1, 0}, {1, 1, 2});
  const Array k = Array::of(std::vector<double>{1, 0, 0, 1, 2, 0}, {1, 3, 2});
  const Array v = Array::of(std::vector<double>{10, 0, 0, 10, 4, 4}, {1, 3, 2});
  const std::vector<double> a = doubles(attention_weights(q, k, {}));
  CHECK(a[0] == about(0.2840));
  CHECK(a[1] == about(0.1400));
  CHECK(a[2] == about(0.5760));
  const std::vector<double> y = doubles(scaled_dot_product_attention(q, k, v).value());
  CHECK(y[0] == about(5.1439));
  CHECK(y[1] == about(3.7042));
  const Array longer = Array::of(std::vector<double>{0, std::sqrt(2) * std::log(198)}, {1, 1, 2});
  CHECK(doubles(attention_weights(longer, k, {}))[1] == about(0.99));
}

// Returns the mean of the largest weight of each query, for 64 queries and 16 keys of width D.
double largest_weight(std::int64_t D, bool has_root, std::uint64_t seed) {
  const Array q = normal({1, 64, D}, 2 * seed), k = normal({1, 16, D}, 2 * seed + 1);
  const double factor = has_root ? 1 : std::sqrt(static_cast<double>(D));  // undoes 1/√D
  const Array weights = attention_weights((factor * Tensor(q)).value(), k, {});
  return mean(max(weights, {-1})).item();
}

TEST_CASE("course: without √D the softmax gives nearly all weight to one key") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    for (const std::int64_t D : {4, 16, 64, 256}) {
      const double with = largest_weight(D, true, seed), without = largest_weight(D, false, seed);
      CAPTURE(D);
      CAPTURE(seed);
      CHECK(with < 0.4);
      CHECK(without > with);
      if (D >= 64) CHECK(without > 0.75);
    }
}

// Returns how many pairs of query and key a mask leaves.
std::int64_t visible_pairs(std::int64_t T, const AttentionOptions& options) {
  const std::vector<double> weights =
      doubles(attention_weights(normal({1, T, 2}, 1), normal({1, T, 2}, 2), options));
  return std::ranges::count_if(weights, [](double weight) { return weight > 0; });
}

TEST_CASE("course: the numbers of pairs that masks of eight tokens leave") {
  CHECK(visible_pairs(8, {}) == 64);
  CHECK(visible_pairs(8, {.causal = true}) == 36);               // T (T + 1) / 2
  CHECK(visible_pairs(8, {.causal = true, .window = 3}) == 21);  // w T - w (w - 1) / 2
}

TEST_CASE("course: the product of two sinusoidal encodings depends on their distance alone") {
  Random unused(1, Stream::init);
  const PositionalEncoding encoding({.kind = Positions::sinusoidal, .width = 8}, unused);
  const Tensor p(encoding.forward(Array::zeros({1, 40, 8}, f64)).value().reshaped({40, 8}));
  const std::vector<double> products = doubles(matmul(p, p, {.transpose_b = true}).value());
  double expected = 0;  // Σ cos(k / 10000^(2i/C)) for a distance of k = 3
  for (int i = 0; i < 4; ++i) expected += std::cos(3 / std::pow(10000.0, 2 * i / 8.0));
  for (std::int64_t pos = 0; pos + 3 < 40; ++pos)
    CHECK(products[pos * 40 + pos + 3] == about(expected));
}

TEST_CASE("course: cross-attention of width 64 has 16640 parameters") {
  Random init(1, Stream::init);
  CrossAttention attention(64, 64, init, {.heads = 4});
  std::int64_t count = 0;
  for (const Parameter* parameter : attention.parameters()) count += parameter->tensor.size();
  CHECK(count == 4 * 64 * 64 + 4 * 64);
}

TEST_CASE("course: a uniform prediction of 11 tokens has a loss of log 11 and a perplexity of 11") {
  const Tensor logits(Array::zeros({1, 11}, f64));
  const double loss = cross_entropy(logits, ints({3}, {1})).item();
  CHECK(loss == about(2.3979));
  CHECK(std::exp(loss) == about(11));
}

TEST_CASE("course: the mean of many positive features is the exponential of the product") {
  Random random(1, Stream::init);
  const RandomFeatures map(1, 2, random, {.features = 100'000, .map = FeatureMap::positive});
  const Array x = Array::of(std::vector<float>{1, 0.5}, {1, 1, 1, 2});
  const Array y = Array::of(std::vector<float>{0.5, -1}, {1, 1, 1, 2});
  const Features of_x = map.forward(x), of_y = map.forward(y);
  const double scales = doubles(of_x.log_scales)[0] + doubles(of_y.log_scales)[0];
  const double estimate = sum(of_x.values * of_y.values).item() * std::exp(scales);
  CHECK(estimate == doctest::Approx(1).epsilon(0.02));  // e^(x·y/√2), x·y = 0
}

TEST_CASE("course: the KL of N(1, 0.5²) from N(0, 1) is 0.818 nats") {
  CHECK(gaussian_kl(row({1}), row({std::log(0.5)})).item() == about(0.8181));
  CHECK(gaussian_kl(row({1}), row({0})).item() == about(0.5));
}

TEST_CASE("course: a graph convolution of three nodes in a row by hand") {
  Random init(1, Stream::init);
  GraphConvolution layer(
      1, 1, init, {.normalization = Normalization::symmetric, .activation = Activation::none});
  layer.neighbors.weight.value().copy_from(Array::full({1, 1}, 1));
  const Adjacency path = Adjacency::undirected(3, {{0, 1}, {1, 2}});
  const Array x = Array::of(std::vector<float>{1, 0, 0}, {3, 1});
  const std::vector<double> y = doubles(layer.forward(path, Tensor(x)).value());
  CHECK(y[0] == about(0.5));
  CHECK(y[1] == about(1 / std::sqrt(6)));
  CHECK(y[2] == about(0));
  const std::vector<double> twice =
      doubles(layer.forward(path, layer.forward(path, Tensor(x))).value());
  CHECK(twice[0] == about(5.0 / 12));
  CHECK(twice[1] == about(5 / (6 * std::sqrt(6))));
  CHECK(twice[2] == about(1.0 / 6));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
