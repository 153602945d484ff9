#include <doctest/doctest.h>

#include "autograd/ops.hpp"
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

// Trains a model with its random numbers on several numbers of threads, and compares the results.
template <class Model>
void check_threads(
    const auto& options,
    const std::function<Tensor(const Model& model, DType dtype, Random& noise)>& loss) {
  for (const DType dtype : {f32, f64}) {
    std::vector<Array> first;
    with_threads({1, 3, 8}, [&](int threads) {
      CAPTURE(threads);
      Random random = init();
      Model model(options, random);
      model.convert(dtype);
      const std::vector<Array> result =
          train(model, [&](Random& noise) { return loss(model, dtype, noise); });
      if (first.empty()) first = result;
      CHECK(std::ranges::equal(result, first, same_bits));
    });
  }
}

TEST_CASE("threads: training steps of transformers have the same bits on 1, 3 and 8 threads") {
  const Array tokens = random_tokens({5, 50}, 65), targets = random_tokens({5, 50}, 65, 3);
  const auto loss = [&](const Transformer& model, DType, Random& noise) {
    return cross_entropy(model.forward(tokens, &noise), targets);
  };
  TransformerOptions options{.vocabulary = 65,
                             .context = 50,
                             .layers = 2,
                             .block = {.width = 96, .attention = {.heads = 4}, .dropout = 0.1}};
  for (const bool tied : {true, false}) {
    options.tied_embeddings = tied;
    check_threads<Transformer>(options, loss);
  }
  options.block = llama_block;
  options.block.width = 96;
  options.block.attention.heads = 6;
  options.block.attention.key_value_heads = 2;
  options.block.attention.query_key_norm = 1e-6;
  options.block.feed_forward.hidden = 200;
  check_threads<Transformer>(options, loss);
}

TEST_CASE("threads: training steps by random features have the same bits" *
          not_sanitized("a minute there")) {
  const Array tokens = random_tokens({3, 150}, 65), targets = random_tokens({3, 150}, 65, 3);
  for (const FeatureMap map : {FeatureMap::trigonometric, FeatureMap::positive})
    check_threads<Transformer>(
        TransformerOptions{
            .vocabulary = 65,
            .context = 150,
            .layers = 2,
            .block = {.width = 96,
                      .attention = {.heads = 4,
                                    .random_features =
                                        RandomFeaturesOptions{.map = map, .gate = true}}}},
        [&](const Transformer& model, DType, Random& noise) {
          return cross_entropy(model.forward(tokens, &noise), targets);
        });
}

TEST_CASE("threads: training steps of recurrent networks and memories have the same bits") {
  const Array tokens = random_tokens({19, 40}, 65), targets = random_tokens({19, 40}, 65, 3),
              answers = random_tokens({19}, 10, 4), items = tokens.reshaped({19, 20, 2});
  for (const RecurrentKind kind : {RecurrentKind::elman, RecurrentKind::lstm, RecurrentKind::gru})
    check_threads<RecurrentNetwork>(
        RecurrentNetworkOptions{
            .vocabulary = 65, .layers = 2, .width = 130, .kind = kind, .dropout = 0.1},
        [&](const RecurrentNetwork& model, DType, Random& noise) {
          return cross_entropy(model.forward(tokens, &noise), targets);
        });
  for (const auto& [kind, name] : memory_kinds)
    check_threads<MemoryNetwork>(
        MemoryNetworkOptions{
            .vocabulary = 65, .classes = 10, .memory = {.kind = kind, .width = 130, .heads = 2}},
        [&](const MemoryNetwork& model, DType, Random&) {
          return cross_entropy(model.forward(items), answers);
        });
}

TEST_CASE("threads: training steps of graph networks have the same bits") {
  Random random(1, Stream::data);
  std::vector<Edge> edges;
  for (int i = 0; i < 3000; ++i)
    edges.push_back({static_cast<std::int32_t>(random.below(500)),
                     static_cast<std::int32_t>(random.below(500))});
  const Adjacency graph(500, edges);
  const Array first_nodes = ints({0, 3, 3, 200, 500}, {5}), targets = ints({1, 0, 2, 1}, {4});
  for (const Pooling pooling : {Pooling::sum, Pooling::mean, Pooling::max})
    for (const GraphLayerKind layer : {GraphLayerKind::convolution, GraphLayerKind::attention,
                                       GraphLayerKind::additive_attention, GraphLayerKind::gcnii})
      check_threads<GraphNetwork>(GraphNetworkOptions{.inputs = 70,
                                                      .classes = 3,
                                                      .width = 66,
                                                      .layer = layer,
                                                      .heads = 2,
                                                      .dropout = 0.1,
                                                      .pooling = pooling},
                                  [&](const GraphNetwork& model, DType dtype, Random& noise) {
                                    const Tensor logits = model.forward(
                                        graph, pixels({500, 70}, dtype), first_nodes, &noise);
                                    return cross_entropy(logits, targets);
                                  });
}

TEST_CASE("threads: training steps of image networks have the same bits") {
  const auto elbo = [](const Vae& model, DType dtype, Random& noise) {
    const Vae::Elbo parts = model.elbo(pixels({67, 784}, dtype), noise);
    return (parts.recon + parts.kl) * (1 / 67.0);
  };
  check_threads<Vae>(VaeOptions{.hidden = {200, 70}, .sigma = Sigma::per_dimension}, elbo);
  check_threads<Vae>(VaeOptions{.hidden = {200, 70}, .sigma = Sigma::shared}, elbo);
  check_threads<Vae>(VaeOptions{.channels = {8, 5}, .hidden = {30}, .latent = 3}, elbo);
  check_threads<ConvolutionalClassifier>(
      ConvolutionalClassifierOptions{
          .channels = {8, 12}, .blocks = 1, .groups = 4, .hidden = {30}, .dropout = 0.1},
      [targets = random_tokens({37}, 10)](const ConvolutionalClassifier& model, DType dtype,
                                          Random& noise) {
        return cross_entropy(model.forward(pixels({37, 784}, dtype), &noise), targets);
      });
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
