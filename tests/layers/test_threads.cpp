#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "autograd/parallel.hpp"
#include "layers/models/convolutional_classifier.hpp"
#include "layers/models/graph_network.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/vae.hpp"
#include "optim/adam.hpp"
#include "optim/clip.hpp"
#include "tests/support/labels.hpp"
#include "tests/support/memories.hpp"
#include "tests/support/modules.hpp"

namespace tapestry {
namespace {

TEST_SUITE_BEGIN("threads");

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
                           .block = {.width = 96, .attention = {.heads = 4}, .dropout = 0.1},
                           .tied_embeddings = tied},
                          r);
        model.convert(dtype);
        const Array tokens = random_tokens({5, 50}, 65), targets = random_tokens({5, 50}, 65, 3);
        return train(model, [&](Random& noise) {
          return cross_entropy(model.forward(tokens, &noise), targets);
        });
      });
}

TEST_CASE("threads: training steps of a model like Llama have the same bits") {
  for (const DType dtype : {f32, f64})
    check_threads([&] {
      Random r = init();
      TransformerOptions options{
          .vocabulary = 65, .context = 150, .layers = 2, .block = llama_block};
      options.block.width = 96;
      options.block.attention.heads = 6;
      options.block.attention.key_value_heads = 2;
      options.block.attention.query_key_norm = 1e-6;
      options.block.feed_forward.hidden = 200;
      Transformer model(options, r);
      model.convert(dtype);
      const Array tokens = random_tokens({3, 150}, 65), targets = random_tokens({3, 150}, 65, 3);
      return train(model, [&](Random&) { return cross_entropy(model.forward(tokens), targets); });
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
    for (const auto& [kind, name] : memory_kinds)
      check_threads([&, memory = kind] {
        Random r = init();
        MemoryNetwork model(
            {.vocabulary = 65, .classes = 10, .memory = {.kind = memory, .width = 130, .heads = 2}},
            r);
        model.convert(dtype);
        const Array items = tokens.reshaped({19, 20, 2});
        return train(model, [&](Random&) { return cross_entropy(model.forward(items), answers); });
      });
  }
}

TEST_CASE("threads: training steps by random features have the same bits on 1, 2, 3 and 8 threads" *
          not_sanitized("a minute there")) {
  for (const DType dtype : {f32, f64})
    for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive})
      check_threads([&] {
        Random r = init();
        Transformer model(
            {.vocabulary = 65,
             .context = 150,
             .layers = 2,
             .block = {.width = 96,
                       .attention = {.heads = 4,
                                     .random_features =
                                         RandomFeaturesOptions{.map = map, .gate = true}}}},
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
      for (const GraphLayerKind layer : {GraphLayerKind::convolution, GraphLayerKind::attention})
        check_threads([&] {
          Random r = init();
          GraphNetwork model({.inputs = 70,
                              .classes = 3,
                              .width = 66,
                              .layer = layer,
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

TEST_CASE("threads: training steps of a residual network have the same bits on any threads") {
  const Array targets = random_tokens({37}, 10);
  for (const DType dtype : {f32, f64})
    check_threads([&] {
      Random r = init();
      ConvolutionalClassifier model(
          {.channels = {8, 12}, .blocks = 1, .groups = 4, .hidden = {30}, .dropout = 0.1}, r);
      model.convert(dtype);
      const Tensor x = pixels({37, 784}, dtype);
      return train(model,
                   [&](Random& noise) { return cross_entropy(model.forward(x, &noise), targets); });
    });
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
