#include <doctest/doctest.h>

#include "autograd/ops.hpp"
#include "autograd/tape.hpp"
#include "layers/gru.hpp"
#include "layers/lstm.hpp"
#include "layers/models/convolutional_classifier.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "layers/models/transformer.hpp"
#include "layers/models/vae.hpp"
#include "optim/optimizer.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/golden.hpp"

// Compares modules and optimizers with PyTorch's values. Ops are in test_ops.cpp.
namespace tapestry {
namespace {

double tolerance(DType dtype) { return dtype == f32 ? 1e-5 : 1e-10; }

void load(Module& module, const Golden& golden, DType dtype) {
  module.convert(dtype);
  for (Parameter* parameter : module.parameters())
    parameter->value().copy_from(golden[parameter->name].to(dtype));
}

// Checks that the module and the file have the same gradients.
void check_gradients(Module& module, const Gradients& gradients, const Golden& golden) {
  std::size_t expected = 0;
  for (const auto& entry : golden.header().items())
    expected += entry.key().starts_with("gradient.");
  CHECK(module.parameters().size() == expected);
  for (const Parameter* parameter : module.parameters()) {
    CAPTURE(parameter->name);
    CHECK(distance(gradients[*parameter], golden["gradient." + parameter->name]) <=
          tolerance(parameter->tensor.dtype()));
  }
}

// Checks logits and loss, and the gradients of the loss.
void check_losses(Module& model, Tape& tape, const Tensor& logits, const Tensor& loss,
                  const Golden& golden) {
  const double allowed = tolerance(model.parameters().front()->tensor.dtype());
  CHECK(distance(logits.value(), golden["logits"]) <= allowed);
  CHECK(distance(loss.value(), golden["loss"]) <= allowed);
  check_gradients(model, tape.backward(loss), golden);
}

TEST_CASE("golden: multi-head self- and cross-attention equal PyTorch's") {
  for (const DType dtype : {f32, f64})
    for (const bool cross : {false, true}) {
      INFO(std::string(to_string(dtype)));
      CAPTURE(cross);
      const Golden golden(cross ? "multi_head_attention_cross" : "multi_head_attention_self");
      Random init(0, Stream::init);
      SelfAttention self(12, init, {.heads = 3});
      CrossAttention other(12, 12, init, {.heads = 3});
      Module& layer = cross ? static_cast<Module&>(other) : self;
      load(layer, golden, dtype);
      const Tensor x = Tensor::variable(golden["x"].to(dtype));
      const Tensor source = cross ? Tensor::variable(golden["source"].to(dtype)) : Tensor();
      Tape tape;
      const Tensor y = cross ? other.forward(x, source) : self.forward(x, {.causal = true});
      CHECK(distance(y.value(), golden["y"]) <= tolerance(dtype));
      const Gradients gradients = tape.backward(y, golden["g"].to(dtype));
      CHECK(distance(gradients[x], golden["dx"]) <= tolerance(dtype));
      if (cross) CHECK(distance(gradients[source], golden["dsource"]) <= tolerance(dtype));
      check_gradients(layer, gradients, golden);
    }
}

template <class Layer>
void check_recurrent(const std::string& name) {
  for (const DType dtype : {f32, f64}) {
    CAPTURE(name);
    const Golden golden(name);
    Random init(0, Stream::init);
    Layer layer(5, 6, init);
    load(layer, golden, dtype);
    const Tensor x = Tensor::variable(golden["x"].to(dtype)),
                 initial = Tensor::variable(golden["initial"].to(dtype));
    Tape tape;
    const Tensor y = layer.forward(x, initial);
    CHECK(distance(y.value(), golden["y"]) <= tolerance(dtype));
    const Gradients gradients = tape.backward(y, golden["g"].to(dtype));
    CHECK(distance(gradients[x], golden["dx"]) <= tolerance(dtype));
    CHECK(distance(gradients[initial], golden["dinitial"]) <= tolerance(dtype));
    check_gradients(layer, gradients, golden);
  }
}

TEST_CASE("golden: layers of LSTM and GRU equal PyTorch's") {
  check_recurrent<Lstm>("lstm");
  check_recurrent<Gru>("gru");
}

// PyTorch's layers, and LlamaForCausalLM, Qwen3ForCausalLM and Qwen2ForCausalLM of transformers.
std::vector<std::pair<std::string, TransformerOptions>> published() {
  const LinearOptions plain{.bias = false};
  TransformerOptions separate{.vocabulary = 11, .context = 6, .layers = 2};
  separate.block = {.width = 8, .attention = {.heads = 2}};
  TransformerOptions tied = separate;
  separate.tied_embeddings = false;
  TransformerOptions llama = separate;
  llama.block = {.width = 16,
                 .attention = {.heads = 4,
                               .key_value_heads = 2,
                               .positions = Positions::rotary,
                               .rotary = {.pairs = RotaryPairs::halves,
                                          .base = 100,
                                          .scaling = RotaryScaling{.original_context = 16}},
                               .input = plain,
                               .output = plain},
                 .feed_forward = {.hidden = 10,
                                  .activation = Activation::silu,
                                  .gated = true,
                                  .expand = plain,
                                  .contract = plain},
                 .norms = {.kind = NormKind::rms, .epsilon = 1e-5}};
  TransformerOptions qwen3 = llama;
  qwen3.tied_embeddings = true;
  qwen3.block.width = 12;
  qwen3.block.norms.epsilon = 1e-6;
  qwen3.block.feed_forward.hidden = 7;
  qwen3.block.attention.key_value_heads = 1;
  qwen3.block.attention.head_width = 6;
  qwen3.block.attention.query_key_norm = 1e-6;
  qwen3.block.attention.rotary = {.pairs = RotaryPairs::halves, .base = 1e6};
  TransformerOptions qwen2 = qwen3;
  qwen2.layers = 1;
  qwen2.block.feed_forward.hidden = 10;
  qwen2.block.attention.heads = 3;
  qwen2.block.attention.key_value_heads = 3;
  qwen2.block.attention.head_width = 0;
  qwen2.block.attention.query_key_norm.reset();
  qwen2.block.attention.input.bias = true;
  return {{"transformer", separate},
          {"transformer_tied", tied},
          {"llama", llama},
          {"qwen3", qwen3},
          {"qwen2", qwen2}};
}

TEST_CASE(
    "golden: logits, loss and gradients equal PyTorch's; of Llama and Qwen, those of "
    "transformers") {
  for (const DType dtype : {f32, f64})
    for (const auto& [name, options] : published()) {
      INFO(std::string(to_string(dtype)));
      CAPTURE(name);
      const Golden golden(name);
      Random init(0, Stream::init);
      Transformer model(options, init);
      load(model, golden, dtype);
      Tape tape;
      const Tensor logits = model.forward(golden["tokens"]);
      const Tensor loss = cross_entropy(logits, golden["targets"]);
      check_losses(model, tape, logits, loss, golden);
    }
}

TEST_CASE("golden: an encoder-decoder's logits, loss and gradients equal PyTorch's") {
  for (const DType dtype : {f32, f64})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      INFO(std::string(to_string(dtype)));
      const Golden golden(norm == NormPlacement::pre ? "encoder_decoder_pre"
                                                     : "encoder_decoder_post");
      Random init(0, Stream::init);
      EncoderDecoder model({.source_vocabulary = 11,
                            .target_vocabulary = 11,
                            .encoder_layers = 2,
                            .decoder_layers = 2,
                            .block = {.width = 8,
                                      .attention = {.heads = 2, .positions = Positions::sinusoidal},
                                      .norm = norm},
                            .shared_embeddings = true},
                           init);
      load(model, golden, dtype);
      Tape tape;
      const EncoderDecoder::EncodedSource encoded =
          model.encode(golden["source"], golden["padding"]);
      const Tensor logits = model.decode(golden["target"], encoded);
      const Tensor loss = cross_entropy(logits, golden["wanted"], {.label_smoothing = 0.1});
      check_losses(model, tape, logits, loss, golden);
    }
}

TEST_CASE("golden: a VAE's posterior, losses and gradients equal PyTorch's") {
  for (const DType dtype : {f32, f64}) {
    INFO(std::string(to_string(dtype)));
    const Golden golden("vae");
    Random init(0, Stream::init);
    Vae model({.height = 3, .width = 4, .hidden = {10}, .latent = 3}, init);
    load(model, golden, dtype);
    const Tensor x = golden["x"].to(dtype), epsilon = golden["eps"].to(dtype);
    const double per_image = 1 / static_cast<double>(x.dim(0));
    Tape tape;
    const Vae::Posterior posterior = model.encode(x);
    const Tensor z = posterior.mean + exp(posterior.log_sigma) * epsilon;
    const Tensor logits = model.decode(z);
    const Tensor recon = sum(binary_cross_entropy(logits, x)) * per_image;
    const Tensor kl = sum(gaussian_kl(posterior.mean, posterior.log_sigma)) * per_image;
    const Tensor loss = recon + kl;
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, Tensor>>{{"mean", posterior.mean},
                                                     {"log_sigma", posterior.log_sigma},
                                                     {"z", z},
                                                     {"logits", logits},
                                                     {"recon", recon},
                                                     {"kl", kl},
                                                     {"loss", loss}}) {
      CAPTURE(name);
      CHECK(distance(value.value(), golden[name]) <= tolerance(dtype));
    }
    check_gradients(model, tape.backward(loss), golden);
  }
}

TEST_CASE("golden: a residual network's logits, loss and gradients equal PyTorch's") {
  for (const DType dtype : {f32, f64}) {
    INFO(std::string(to_string(dtype)));
    const Golden golden("convolutional_classifier");
    Random init(0, Stream::init);
    ConvolutionalClassifier model({.channels_in = 3,
                                   .height = 6,
                                   .width = 8,
                                   .classes = 3,
                                   .channels = {4, 6},
                                   .blocks = 1,
                                   .groups = 2,
                                   .hidden = {5},
                                   .activation = Activation::gelu},
                                  init);
    load(model, golden, dtype);
    Tape tape;
    const Tensor logits = model.forward(golden["x"].to(dtype));
    const Tensor loss = cross_entropy(logits, golden["targets"]);
    check_losses(model, tape, logits, loss, golden);
  }
}

TEST_CASE("golden: ten steps of every optimizer equal PyTorch's") {
  for (const DType dtype : {f32, f64})
    for (const std::string name : {"adamw", "adam", "sgd"}) {
      INFO(std::string(to_string(dtype)));
      CAPTURE(name);
      const Golden golden(name);
      const auto setting = [&](const std::string& key, std::size_t index, double otherwise) {
        return golden.has(key) ? golden[key].values<double>()[index] : otherwise;
      };
      Parameter parameter(golden["initial"].to(dtype).clone(), Role::weight);
      const auto optimizer = optimizer_registry().at(name).make(
          {&parameter}, {{"beta1", setting("betas", 0, 0.9)},
                         {"beta2", setting("betas", 1, 0.999)},
                         {"epsilon", setting("eps", 0, 1e-8)},
                         {"momentum", setting("momentum", 0, 0)},
                         {"weight_decay", setting("weight_decay", 0, 0)}});
      const Tensor gradients = golden["gradients"], wanted = golden["parameters"];  // (steps, 10)
      for (std::int64_t step = 0; step < gradients.dim(0); ++step) {
        CAPTURE(step);
        const auto row = [&](const Tensor& rows) {
          return slice(rows, 0, step, step + 1).value().reshaped({10});
        };
        const Array gradient = row(gradients).to(dtype);
        optimizer->step(Tape().backward(parameter.tensor, gradient), setting("lr", 0, 0));
        CHECK(distance(parameter.value(), row(wanted)) <= tolerance(dtype));
      }
    }
}

}  // namespace
}  // namespace tapestry
