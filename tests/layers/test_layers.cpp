#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <set>

#include "autograd/gradcheck.hpp"
#include "autograd/ops.hpp"
#include "autograd/sanitizer.hpp"
#include "layers/models/convolutional_classifier.hpp"
#include "layers/models/forecaster.hpp"
#include "layers/models/graph_network.hpp"
#include "layers/models/memory_network.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/vae.hpp"
#include "layers/models/vision_transformer.hpp"
#include "tests/support/held.hpp"
#include "tests/support/layer_table.hpp"
#include "tests/support/process.hpp"

namespace tapestry {
namespace {

const std::vector<LayerRow>& table() {
  static const std::vector<LayerRow> rows = [] {
    std::vector<LayerRow> all = simple_layers();
    for (auto& group : {attention_layers(), random_feature_layers(), memory_layers(),
                        graph_layers(), convolution_layers(), encoder_layers(),
                        transformer_layers(), vae_layers(), adapter_layers(), tabular_layers()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return rows;
}

TEST_SUITE_BEGIN("layers");

// One direction of each array is enough for a sanitizer, which checks memory and not numbers.
GradcheckOptions thoroughness() {
  if (TAPESTRY_ADDRESS_SANITIZER || TAPESTRY_THREAD_SANITIZER)
    return {.directions = 1, .jacobian_limit = 0};
  return {};
}

TEST_CASE("layers: a dry run of each row holds as many bytes as the computation") {
  for (const LayerRow& row : table()) {
    CAPTURE(row.name);
    const std::vector<Tensor> constants(row.inputs.begin(), row.inputs.end());
    const auto run = [&] { differentiate([&] { return row.f(constants); }); };
    CHECK(bytes_in_dry_run(run) == bytes_held_by(run));
  }
}

TEST_CASE("layers: every row of the table has the gradient of its function") {
  for (const LayerRow& row : table()) {
    CAPTURE(row.name);
    const std::vector<Tensor> constants(row.inputs.begin(), row.inputs.end());
    std::vector<GradcheckResult> results = gradcheck(row.f, row.inputs, thoroughness());
    for (const GradcheckResult& result : gradcheck_parameters(
             [&] { return row.f(constants); }, row.module->parameters(), thoroughness()))
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
  for (const LayerRow& row : table()) {
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
  const std::set<std::string> declared = declared_layers();
  std::set<std::string> tested;
  for (const LayerRow& row : table()) tested.insert(row.layer());
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

// "a b" -> {"a.weight", "a.bias", "b.weight", "b.bias"}
Strings weights_and_biases(const Words& names) {
  Strings all;
  for (const std::string& name : names) all.insert(all.end(), {name + ".weight", name + ".bias"});
  return all;
}

const Words block_layers =
    "attention_norm attention.query_key_value attention.output feed_forward_norm "
    "feed_forward.expand feed_forward.contract";

// The names in `before`, those of blocks, and those in `after`.
Strings with_blocks(const Words& before, const Words& blocks, const Words& after) {
  Words inside;
  for (const std::string& block : blocks)
    for (const std::string& name : weights_and_biases(block_layers)) inside.push_back(block + name);
  return before + inside + after;
}

TEST_CASE("layers: parameter names are the keys of checkpoints") {
  Random r = init();
  const Words two = "blocks.0. blocks.1.", norm = "final_norm.weight final_norm.bias",
              token = "token_embedding.weight", embeddings = token + "position_embedding.weight";
  const auto of = [&](auto change) {
    TransformerOptions options = tiny;
    change(options);
    Transformer model(options, r);
    return names(model);
  };
  CHECK(of([](auto&) {}) == with_blocks(embeddings, two, norm));
  CHECK(of([](auto& o) { o.tied_embeddings = false; }) ==
        with_blocks(embeddings, two, norm + "head.weight"));
  for (const Positions positions : {Positions::sinusoidal, Positions::rotary, Positions::none})
    CHECK(of([=](auto& o) { o.block.attention.positions = positions; }) ==
          with_blocks(token, two, norm));
  CHECK(of([](auto& o) { o.block.norm = NormPlacement::post; }) ==
        with_blocks(embeddings, two, {}));

  TransformerOptions llama = tiny;
  llama.block = llama_block;
  llama.layers = 1;
  llama.block.attention.query_key_norm = 1e-6;
  llama.block.attention.head_width = 6;
  llama.tied_embeddings = false;
  Transformer shared(llama, r);
  CHECK(shapes(shared) ==
        Strings{
            "token_embedding.weight (5, 4)", "blocks.0.attention_norm.weight (4,)",
            "blocks.0.attention.query_key_value.weight (24, 4)",
            "blocks.0.attention.query_norm.weight (6,)", "blocks.0.attention.key_norm.weight (6,)",
            "blocks.0.attention.output.weight (4, 12)", "blocks.0.feed_forward_norm.weight (4,)",
            "blocks.0.feed_forward.expand.weight (12, 4)",
            "blocks.0.feed_forward.contract.weight (4, 6)", "final_norm.weight (4,)",
            "head.weight (5, 4)"});

  Vae shared_sigma({.height = 1, .width = 6, .hidden = {5, 4}, .latent = 2, .sigma = Sigma::shared},
                   r);
  CHECK(names(shared_sigma) == weights_and_biases("encoder.0 encoder.1 mean") + Words("log_sigma") +
                                   weights_and_biases("decoder.0 decoder.1 decoder.2"));
  Vae convolutional({.height = 6, .width = 6, .channels = {2}, .hidden = {4}, .sigma = Sigma::none},
                    r);
  CHECK(names(convolutional) ==
        weights_and_biases(
            "convolutions.0 encoder.0 mean decoder.0 decoder.1 transposed_convolutions.0"));
  Vae per_dimension({.height = 1, .width = 6, .hidden = {5, 4}, .latent = 2}, r);
  CHECK(shapes(per_dimension) ==
        Strings{"encoder.0.weight (5, 6)", "encoder.0.bias (5,)", "encoder.1.weight (4, 5)",
                "encoder.1.bias (4,)", "mean.weight (2, 4)", "mean.bias (2,)",
                "log_sigma.weight (2, 4)", "log_sigma.bias (2,)", "decoder.0.weight (4, 2)",
                "decoder.0.bias (4,)", "decoder.1.weight (5, 4)", "decoder.1.bias (5,)",
                "decoder.2.weight (6, 5)", "decoder.2.bias (6,)"});

  const TransformerBlockOptions block{.width = 4, .attention = {.heads = 2}};
  const Words last = "patches.final_norm.weight patches.final_norm.bias head.weight head.bias",
              projection = "patches.projection.weight patches.projection.bias";
  VisionTransformer vision({.layers = 1, .block = block}, r);
  CHECK(names(vision) ==
        with_blocks(projection + "patches.class_token patches.position_embedding.weight",
                    "patches.encoder.0.", last));
  const auto classifier = [&](const ConvolutionalClassifierOptions& options) {
    ConvolutionalClassifier model(options, r);
    return names(model);
  };
  CHECK(classifier({.hidden = {3}}) ==
        weights_and_biases("convolutions.0 convolutions.1 head.0 head.1"));
  CHECK(classifier({.channels = {2}, .blocks = 1, .groups = 1}) ==
        weights_and_biases("convolutions.0 norms.0 blocks.0.first blocks.0.first_norm "
                           "blocks.0.second blocks.0.second_norm head.0"));
  ResidualConvolution strided(2, 2, r, {.stride = 2});
  CHECK(names(strided) == weights_and_biases("first second shortcut"));
  Forecaster forecaster({.layers = 1, .block = block}, r), line({.layers = 0}, r);
  CHECK(names(forecaster) ==
        with_blocks(projection + "patches.position_embedding.weight", "patches.encoder.0.", last));
  CHECK(shapes(line) == Strings{"head.weight (96, 96)", "head.bias (96,)"});

  CrossAttention cross_attention(4, 3, r, {.heads = 2});
  CHECK(names(cross_attention) == weights_and_biases("query key_value output"));
  RecurrentNetwork recurrent({.vocabulary = 5, .layers = 2, .width = 3}, r);
  CHECK(shapes(recurrent) ==
        Strings{"token_embedding.weight (5, 3)", "layers.0.input.weight (3, 3)",
                "layers.0.input.bias (3,)", "layers.0.hidden.weight (3, 3)",
                "layers.1.input.weight (3, 3)", "layers.1.input.bias (3,)",
                "layers.1.hidden.weight (3, 3)", "head.weight (5, 3)", "head.bias (5,)"});
  RecurrentStackOptions stack{.kind = RecurrentKind::lstm, .inputs = 2, .width = 3};
  CHECK(shapes(*RecurrentStack(stack, r).layers[0]) ==
        Strings{"input.weight (12, 2)", "input.bias (12,)", "hidden.weight (12, 3)"});
  stack.kind = RecurrentKind::gru;
  CHECK(shapes(*RecurrentStack(stack, r).layers[0]) ==
        Strings{"input.weight (9, 2)", "input.bias (9,)", "hidden.weight (9, 3)",
                "candidate_bias (3,)"});
  const auto memory = [&](MemoryKind kind, bool learn = false) {
    return names(*make_memory({.kind = kind, .width = 4, .decay = {.learn = learn}}, r));
  };
  CHECK(memory(MemoryKind::sum) == weights_and_biases("value"));
  CHECK(memory(MemoryKind::forgetting) == Words("value.weight"));
  CHECK(memory(MemoryKind::forgetting, true) == Words("value.weight decay"));
  CHECK(memory(MemoryKind::recurrent) ==
        Words("network.input.weight network.input.bias network.hidden.weight"));
  CHECK(memory(MemoryKind::gated) == weights_and_biases("gate value"));
  CHECK(memory(MemoryKind::sigmoid_attention) == Words("score.weight score.bias value.weight"));
  CHECK(memory(MemoryKind::softmax_attention) == Words("score.weight value.weight"));
  CHECK(memory(MemoryKind::linear_attention) ==
        Words("attention.query.weight attention.key.weight attention.value.weight"));
  CHECK(memory(MemoryKind::query_key).size() == 6);
  CHECK(memory(MemoryKind::multi_head).front() == "attention.query.weight");
  SelfAttention features(4, r,
                         {.heads = 2, .random_features = RandomFeaturesOptions{.gate = true}});
  CHECK(shapes(features) == Strings{"query_key_value.weight (12, 4)", "query_key_value.bias (12,)",
                                    "features.projection (2, 64, 2)", "features.sigma (2, 2)",
                                    "gate.weight (2, 4)", "gate.bias (2,)", "output.weight (4, 4)",
                                    "output.bias (4,)"});

  TransformerBlock bare({.width = 4,
                         .attention = {.heads = 2},
                         .feed_forward = {.hidden = -1},
                         .norms = {.kind = NormKind::none}},
                        r);
  CHECK(names(bare) == Words("attention.query_key_value.weight attention.query_key_value.bias "
                             "attention.output.weight attention.output.bias"));
  Forecaster cyclic({.context = 6, .horizon = 2, .layers = 0, .series = 3, .cycle = 4}, r);
  CHECK(shapes(cyclic) == Strings{"head.weight (2, 6)", "head.bias (2,)", "cycle (4, 3)"});

  const auto graph_network = [&](const GraphNetworkOptions& options) {
    GraphNetwork model(options, r);
    return shapes(model);
  };
  CHECK(graph_network({.inputs = 5, .classes = 3, .width = 4}) ==
        Strings{"layers.0.bias (4,)", "layers.0.neighbours.weight (4, 5)", "layers.1.bias (3,)",
                "layers.1.neighbours.weight (3, 4)"});
  GraphNetworkOptions one{.inputs = 5, .classes = 3, .layers = 1, .width = 4};
  one.layer = GraphLayerKind::attention;
  CHECK(graph_network(one) == Strings{"layers.0.own.weight (3, 5)", "layers.0.bias (3,)",
                                      "layers.0.query.weight (3, 5)", "layers.0.key.weight (3, 5)",
                                      "layers.0.value.weight (3, 5)"});
  one.layer = GraphLayerKind::additive_attention;
  one.output_heads = 2;
  CHECK(graph_network(one) == Strings{"layers.0.bias (3,)", "layers.0.value.weight (6, 5)",
                                      "layers.0.target (2, 3)", "layers.0.source (2, 3)"});
  one.layer = GraphLayerKind::gcnii;
  CHECK(graph_network(one) == Strings{"input.weight (4, 5)", "input.bias (4,)",
                                      "layers.0.map.weight (4, 4)", "head.weight (3, 4)",
                                      "head.bias (3,)"});
  one = {.inputs = 5, .classes = 3, .layers = 1, .width = 4};
  one.normalization = Normalization::sum;
  one.pooling = Pooling::sum;
  CHECK(graph_network(one) == Strings{"layers.0.own.weight (4, 5)", "layers.0.bias (4,)",
                                      "layers.0.neighbours.weight (4, 5)", "head.weight (3, 4)",
                                      "head.bias (3,)"});

  Attention attention(4, 4, 2, r, {.bias = false});
  CHECK(names(attention) == Words("query.weight key.weight value.weight"));
}

// --- misuse ---

// Self-attention takes no source; cross-attention needs one, and has no cache.
template <class Layer, class... Inputs>
concept Attends = requires(const Layer& layer, Inputs&... inputs) {
  layer.forward(inputs...);
};
static_assert(Attends<SelfAttention, Tensor> && Attends<SelfAttention, Tensor, AttentionCache>);
static_assert(!Attends<SelfAttention, Tensor, Tensor>);
static_assert(Attends<CrossAttention, Tensor, Tensor> && !Attends<CrossAttention, Tensor>);
static_assert(!Attends<CrossAttention, Tensor, AttentionCache>);

#define REFUSES(message, ...) \
  CHECK_THROWS_WITH_AS((void)(__VA_ARGS__), doctest::Contains(message), std::invalid_argument)

TEST_CASE("layers: wrong arguments throw std::invalid_argument with the cause") {
  Random r = init();
  const auto tokens = [](auto... of) { return ints({of...}, {1, sizeof...(of)}); };
  const auto zeros = [](auto... dims) { return Array::zeros(Shape{dims...}); };
  const Transformer model(tiny, r);
  const SelfAttention self(4, r, {.heads = 2});
  const CrossAttention other(4, 3, r, {.heads = 2});
  const Array x = Array::zeros({1, 2, 4}), source = Array::zeros({1, 5, 3});
  const auto keys = self.make_cache(1, 4);
  const RandomFeaturesOptions gated{.gate = true};
  const SelfAttention by_features(4, r, {.heads = 2, .random_features = gated});
  const auto sums = by_features.make_cache(1, 4);
  REFUSES("embedding: token 5 with table (5, 4)", model.forward(tokens(0, 5)));
  REFUSES("embedding: token -1 with table (5, 4)", model.forward(tokens(-1)));
  REFUSES("transformer: tokens (1, 5) after 0 in the caches", model.forward(tokens(0, 0, 0, 0, 0)));
  REFUSES("transformer: tokens (2,) after 0 in the caches", model.forward(ints({0, 1}, {2})));
  REFUSES("multi-head attention: 3 heads do not divide width 4", SelfAttention(4, r, {.heads = 3}));
  REFUSES("multi-head attention: 3 heads do not divide width 4",
          CrossAttention(4, 3, r, {.heads = 3}));
  REFUSES("multi-head attention: 0 heads do not divide width 4", SelfAttention(4, r, {.heads = 0}));
  REFUSES("multi-head attention: 3 key-value heads do not divide 4 heads",
          SelfAttention(4, r, {.heads = 4, .key_value_heads = 3}));
  REFUSES("multi-head attention: head width 5; expected an even width for rotary positions",
          SelfAttention(6, r, {.heads = 2, .head_width = 5, .positions = Positions::rotary}));
  REFUSES("multi-head attention: 1 key-value heads for 2 heads; random features need equally many",
          SelfAttention(4, r, {.heads = 2, .key_value_heads = 1, .random_features = gated}));
  REFUSES("multi-head attention: cross-attention does not support key_value_heads",
          CrossAttention(4, 3, r, {.heads = 2, .key_value_heads = 1}));
  REFUSES("norm: x (2, 8); expected (..., 4)",
          Norm(4, {.kind = NormKind::rms}).forward(zeros(2, 8)));
  REFUSES("multi-head attention: head width 3; expected an even width for rotary positions",
          SelfAttention(6, r, {.heads = 2, .positions = Positions::rotary}));
  REFUSES("multi-head attention: cross-attention does not support the gate",
          CrossAttention(4, 3, r, {.heads = 2, .random_features = gated}));
  REFUSES("multi-head attention: random features support no mask, window",
          by_features.forward(x, {.window = 2}));
  REFUSES("multi-head attention: random features support no mask, window",
          SelfAttention(4, r, {.heads = 2, .window = 2, .random_features = gated}).forward(x));
  REFUSES(
      "multi-head attention: random features support no mask, window, document_starts, keys or "
      "key_counts; leave them unset",
      by_features.forward(x, {.causal = true, .key_counts = ints({1}, {1})}));
  REFUSES("multi-head attention: the cache contains keys and values; expected sums",
          by_features.forward(x, *keys, {.causal = true}));
  REFUSES("multi-head attention: the cache contains sums; expected keys and values",
          self.forward(x, *sums, {.causal = true}));
  REFUSES("linear_attention: a gate needs causal attention", by_features.forward(x));
  REFUSES("linear: x (1, 5, 3) with weight (12, 4)", self.forward(source));
  REFUSES("linear: x (1, 2, 4) with weight (8, 3)", other.forward(x, x));
  REFUSES("mlp: 1 widths", Mlp({3}, r));
  REFUSES("memory: x (2, 4)", CompositeSum(4, r).forward(zeros(2, 4)));
  REFUSES("memory: x (2, 0, 4)", CompositeSum(4, r).forward(zeros(2, 0, 4)));
  REFUSES("memory: gamma = 1; expected a number above 0 and below 1",
          ExponentialForgetting(4, r, {.gamma = 1}));
  REFUSES("multi-head attention: 3 heads do not divide width 4", MultiHeadMemory(4, 3, r));
  REFUSES("vision transformer: patches of 5 × 5 do not tile images of 28 × 28",
          VisionTransformer({.patch = 5}, r));
  REFUSES("vision transformer: images (2, 783); expected (B, 1 · 28 · 28)",
          VisionTransformer({.layers = 1}, r).forward(zeros(2, 783)));
  REFUSES("convolutional classifier: channels is empty",
          ConvolutionalClassifier({.channels = {}}, r));
  REFUSES("convolutional classifier: 1 paddings; expected one for each of 2 stages",
          ConvolutionalClassifier({.padding = {1}}, r));
  REFUSES("convolutional classifier: images of 28 × 28 are too small for 5 stages",
          ConvolutionalClassifier({.channels = {1, 1, 1, 1, 1}}, r));
  REFUSES("convolutional classifier: images (2, 783); expected (B, 1 · 28 · 28)",
          ConvolutionalClassifier({}, r).forward(zeros(2, 783)));
  REFUSES("residual convolution: kernel 2; expected an odd number",
          ResidualConvolution(3, 3, r, {.kernel = 2}));
  REFUSES("group_norm: 3 groups do not divide 4 channels",
          GroupNorm(4, {.groups = 3}).forward(zeros(2, 4, 1, 1)));
  REFUSES("forecaster: patches of 10 with stride 4 do not cover a context of 96 exactly",
          Forecaster({.patch = 10, .stride = 4}, r));
  REFUSES("forecaster: places () in the cycle; expected one for each of 2 windows",
          Forecaster({.context = 6, .layers = 0, .series = 3, .cycle = 4}, r)
              .forward(Array::zeros({2, 6, 3})));
  REFUSES("forecaster: x (1, 2, 4); expected (B, 96, M)", Forecaster({.layers = 0}, r).forward(x));
  REFUSES("forecaster: x (1, 2, 4); expected (B, 2, 3)",
          Forecaster({.context = 2, .layers = 0, .series = 3, .targets = {1}}, r).forward(x));
  REFUSES("patch encoder: x (1, 2, 4); expected (B, 49, 16)",
          PatchEncoder({.layers = 1}, r).forward(x));
  std::vector<Tensor> none;
  REFUSES("recurrent network: 0 states for 1 layers",
          RecurrentNetwork({.vocabulary = 5, .width = 4}, r).forward(tokens(1), none));
  REFUSES("recurrent network: tokens (1, 0)",
          RecurrentNetwork({.vocabulary = 5, .width = 4}, r).forward(tokens()));
  REFUSES("tanh_recurrence: initial is float32 (3, 4); expected float32 (1, 4)",
          Recurrent(4, 4, r).forward(x, zeros(3, 4)));
}

TEST_CASE("layers: the error for a value that is not finite names its module") {
  const RestoreSetting checking(set_check_finite, true, false);
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

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
