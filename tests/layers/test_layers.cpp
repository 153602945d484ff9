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

namespace tapestry {
namespace {

const std::vector<LayerRow>& table() {
  static const std::vector<LayerRow> rows = [] {
    std::vector<LayerRow> all = simple_layers();
    for (auto& group : {attention_layers(), random_feature_layers(), memory_layers(),
                        graph_layers(), convolution_layers(), encoder_layers(),
                        transformer_layers(), vae_layers(), adapter_layers()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return rows;
}

TEST_SUITE_BEGIN("layers");

// One direction of each array is enough for a sanitizer, which looks at memory and not at numbers.
GradcheckOptions thoroughness() {
  if (TAPESTRY_ADDRESS_SANITIZER || TAPESTRY_THREAD_SANITIZER)
    return {.directions = 1, .jacobian_limit = 0};
  return {};
}

TEST_CASE("layers: every row holds as many bytes when it is rehearsed by shapes alone") {
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
    CHECK(of([=](auto& o) { o.block.attention.positions = positions; }) == wanted({token}, norm));
  CHECK(of([](auto& o) { o.block.norm = NormPlacement::post; }) == wanted({token, position}, {}));

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

  const TransformerBlockOptions block{.width = 4, .attention = {.heads = 2}};
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
  const auto classifier = [&](const ConvolutionalClassifierOptions& options) {
    ConvolutionalClassifier model(options, r);
    return names(model);
  };
  CHECK(classifier({.hidden = {3}}) == Strings{"convolutions.0.weight", "convolutions.0.bias",
                                               "convolutions.1.weight", "convolutions.1.bias",
                                               "head.0.weight", "head.0.bias", "head.1.weight",
                                               "head.1.bias"});
  CHECK(classifier({.channels = {2}, .blocks = 1, .groups = 1}) ==
        Strings{"convolutions.0.weight", "convolutions.0.bias", "norms.0.weight", "norms.0.bias",
                "blocks.0.first.weight", "blocks.0.first.bias", "blocks.0.first_norm.weight",
                "blocks.0.first_norm.bias", "blocks.0.second.weight", "blocks.0.second.bias",
                "blocks.0.second_norm.weight", "blocks.0.second_norm.bias", "head.0.weight",
                "head.0.bias"});
  ResidualConvolution strided(2, 2, r, {.stride = 2});
  CHECK(names(strided) == Strings{"first.weight", "first.bias", "second.weight", "second.bias",
                                  "shortcut.weight", "shortcut.bias"});
  Forecaster forecaster({.layers = 1, .block = block}, r), line({.layers = 0}, r);
  CHECK(names(forecaster) == encoded({"patches.projection.weight", "patches.projection.bias",
                                      "patches.position_embedding.weight"},
                                     {"head.weight", "head.bias"}));
  CHECK(shapes(line) == Strings{"head.weight (96, 96)", "head.bias (96,)"});

  CrossAttention cross_attention(4, 3, r, {.heads = 2});
  CHECK(names(cross_attention) == Strings{"query.weight", "query.bias", "key_value.weight",
                                          "key_value.bias", "output.weight", "output.bias"});
  RecurrentNetwork recurrent({.vocabulary = 5, .layers = 2, .width = 3}, r);
  CHECK(shapes(recurrent) ==
        Strings{"token_embedding.weight (5, 3)", "layers.0.input.weight (3, 3)",
                "layers.0.input.bias (3,)", "layers.0.hidden.weight (3, 3)",
                "layers.1.input.weight (3, 3)", "layers.1.input.bias (3,)",
                "layers.1.hidden.weight (3, 3)", "head.weight (5, 3)", "head.bias (5,)"});
  const auto memory = [&](MemoryKind kind, bool learn = false) {
    return names(*make_memory({.kind = kind, .width = 4, .decay = {.learn = learn}}, r));
  };
  CHECK(memory(MemoryKind::sum) == Strings{"value.weight", "value.bias"});
  CHECK(memory(MemoryKind::forgetting) == Strings{"value.weight"});
  CHECK(memory(MemoryKind::forgetting, true) == Strings{"value.weight", "decay"});
  CHECK(memory(MemoryKind::recurrent) ==
        Strings{"network.input.weight", "network.input.bias", "network.hidden.weight"});
  CHECK(memory(MemoryKind::gated) ==
        Strings{"gate.weight", "gate.bias", "value.weight", "value.bias"});
  CHECK(memory(MemoryKind::sigmoid_attention) ==
        Strings{"score.weight", "score.bias", "value.weight"});
  CHECK(memory(MemoryKind::softmax_attention) == Strings{"score.weight", "value.weight"});
  CHECK(memory(MemoryKind::query_key).size() == 6);
  CHECK(memory(MemoryKind::multi_head).front() == "attention.query.weight");
  SelfAttention features(4, r,
                         {.heads = 2, .random_features = RandomFeaturesOptions{.gate = true}});
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
  CHECK(
      graph_network({.inputs = 5, .classes = 3, .layers = 1, .layer = GraphLayerKind::attention}) ==
      Strings{"layers.0.own.weight (3, 5)", "layers.0.bias (3,)", "layers.0.query.weight (3, 5)",
              "layers.0.key.weight (3, 5)", "layers.0.value.weight (3, 5)"});

  Attention attention(4, 4, 2, r, {.bias = false});
  CHECK(names(attention) == Strings{"query.weight", "key.weight", "value.weight"});
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

TEST_CASE("layers: a misuse is std::invalid_argument that says what is wrong") {
  Random r = init();
  const auto refuses = [](const char* message, const std::function<void()>& misuse) {
    CHECK_THROWS_WITH_AS(misuse(), doctest::Contains(message), std::invalid_argument);
  };
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
  refuses("embedding: token 5 with table (5, 4)", [&] { model.forward(tokens(0, 5)); });
  refuses("embedding: token -1 with table (5, 4)", [&] { model.forward(tokens(-1)); });
  refuses("transformer: tokens (1, 5) after 0 in the caches",
          [&] { model.forward(tokens(0, 0, 0, 0, 0)); });
  refuses("transformer: tokens (2,) after 0 in the caches", [&] {
    model.forward(ints({0, 1}, {2}));
  });
  refuses("multi-head attention: 3 heads do not divide width 4",
          [&] { SelfAttention(4, r, {.heads = 3}); });
  refuses("multi-head attention: 3 heads do not divide width 4",
          [&] { CrossAttention(4, 3, r, {.heads = 3}); });
  refuses("multi-head attention: 0 heads do not divide width 4",
          [&] { SelfAttention(4, r, {.heads = 0}); });
  refuses("multi-head attention: 3 key-value heads do not divide 4 heads",
          [&] { SelfAttention(4, r, {.heads = 4, .key_value_heads = 3}); });
  refuses("multi-head attention: head width 5; expected an even width for rotary positions", [&] {
    SelfAttention(6, r, {.heads = 2, .head_width = 5, .positions = Positions::rotary});
  });
  refuses(
      "multi-head attention: 1 key-value heads for 2 heads; random features need equally many",
      [&] { SelfAttention(4, r, {.heads = 2, .key_value_heads = 1, .random_features = gated}); });
  refuses("multi-head attention: cross-attention does not support key_value_heads",
          [&] { CrossAttention(4, 3, r, {.heads = 2, .key_value_heads = 1}); });
  refuses("norm: x (2, 8); expected (..., 4)",
          [&] { Norm(4, {.kind = NormKind::rms}).forward(zeros(2, 8)); });
  refuses("multi-head attention: head width 3; expected an even width for rotary positions",
          [&] { SelfAttention(6, r, {.heads = 2, .positions = Positions::rotary}); });
  refuses("multi-head attention: cross-attention does not support the gate",
          [&] { CrossAttention(4, 3, r, {.heads = 2, .random_features = gated}); });
  refuses("multi-head attention: random features support no mask, window",
          [&] { by_features.forward(x, {.window = 2}); });
  refuses("multi-head attention: random features support no mask, window", [&] {
    SelfAttention(4, r, {.heads = 2, .window = 2, .random_features = gated}).forward(x);
  });
  refuses(
      "multi-head attention: random features support no mask, window, document_starts, keys or "
      "key_counts; leave them unset",
      [&] { by_features.forward(x, {.causal = true, .key_counts = ints({1}, {1})}); });
  refuses("multi-head attention: the cache contains keys and values; expected sums",
          [&] { by_features.forward(x, *keys, {.causal = true}); });
  refuses("multi-head attention: the cache contains sums; expected keys and values",
          [&] { self.forward(x, *sums, {.causal = true}); });
  refuses("linear_attention: a gate needs causal attention", [&] { by_features.forward(x); });
  refuses("linear: x (1, 5, 3) with weight (12, 4)", [&] { self.forward(source); });
  refuses("linear: x (1, 2, 4) with weight (8, 3)", [&] { other.forward(x, x); });
  refuses("mlp: 1 widths", [&] { Mlp({3}, r); });
  refuses("memory: x (2, 4)", [&] { CompositeSum(4, r).forward(zeros(2, 4)); });
  refuses("memory: x (2, 0, 4)", [&] { CompositeSum(4, r).forward(zeros(2, 0, 4)); });
  refuses("memory: gamma = 1; expected a number above 0 and below 1",
          [&] { ExponentialForgetting(4, r, {.gamma = 1}); });
  refuses("multi-head attention: 3 heads do not divide width 4", [&] { MultiHeadMemory(4, 3, r); });
  refuses("vision transformer: patches of 5 × 5 do not tile images of 28 × 28",
          [&] { VisionTransformer({.patch = 5}, r); });
  refuses("vision transformer: images (2, 783); expected (B, 1 · 28 · 28)",
          [&] { VisionTransformer({.layers = 1}, r).forward(zeros(2, 783)); });
  refuses("convolutional classifier: channels is empty",
          [&] { ConvolutionalClassifier({.channels = {}}, r); });
  refuses("convolutional classifier: 1 paddings; expected one for each of 2 stages",
          [&] { ConvolutionalClassifier({.padding = {1}}, r); });
  refuses("convolutional classifier: images of 28 × 28 are too small for 5 stages", [&] {
    ConvolutionalClassifier({.channels = {1, 1, 1, 1, 1}}, r);
  });
  refuses("convolutional classifier: images (2, 783); expected (B, 1 · 28 · 28)",
          [&] { ConvolutionalClassifier({}, r).forward(zeros(2, 783)); });
  refuses("residual convolution: kernel 2; expected an odd number",
          [&] { ResidualConvolution(3, 3, r, {.kernel = 2}); });
  refuses("group_norm: 3 groups do not divide 4 channels",
          [&] { GroupNorm(4, {.groups = 3}).forward(zeros(2, 4, 1, 1)); });
  refuses("forecaster: patches of 10 with stride 4 do not cover a context of 96 exactly",
          [&] { Forecaster({.patch = 10, .stride = 4}, r); });
  refuses("forecaster: x (1, 2, 4); expected (B, 96, M)",
          [&] { Forecaster({.layers = 0}, r).forward(x); });
  refuses("forecaster: x (1, 2, 4); expected (B, 2, 3)", [&] {
    Forecaster({.context = 2, .layers = 0, .series = 3, .targets = {1}}, r).forward(x);
  });
  refuses("patch encoder: x (1, 2, 4); expected (B, 49, 16)",
          [&] { PatchEncoder({.layers = 1}, r).forward(x); });
  refuses("recurrent network: 0 states for 1 layers", [&] {
    std::vector<Tensor> none;
    RecurrentNetwork({.vocabulary = 5, .width = 4}, r).forward(tokens(1), none);
  });
  refuses("recurrent network: tokens (1, 0)",
          [&] { RecurrentNetwork({.vocabulary = 5, .width = 4}, r).forward(tokens()); });
  refuses("tanh_recurrence: initial is float32 (3, 4); expected float32 (1, 4)",
          [&] { Recurrent(4, 4, r).forward(x, zeros(3, 4)); });
}

TEST_CASE("layers: a value that is not finite names the module it arose in") {
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
