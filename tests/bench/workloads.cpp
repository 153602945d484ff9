#include "tests/bench/workloads.hpp"

#include <set>

#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/activations.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/losses.hpp"
#include "autograd/ops/reduce.hpp"
#include "data/dataset.hpp"
#include "layers/models/convolutional_classifier.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "layers/models/forecaster.hpp"
#include "layers/models/graph_network.hpp"
#include "layers/models/transformer.hpp"
#include "layers/models/vae.hpp"
#include "layers/recurrent.hpp"
#include "optim/adam.hpp"
#include "optim/clip.hpp"
#include "train/generate/generate.hpp"
#include "train/measure/step_speed.hpp"
#include "train/tasks/token_loss.hpp"

// Training steps (forward, backward, optimizer; transformers with clipping) on random batches of
// the true shapes, attention layers of several lengths, and generation.
namespace tapestry {
namespace {

Array random_tokens(std::int64_t B, std::int64_t T, std::int64_t V) {
  Array tokens({B, T}, DType::int32);
  Random random(1, Stream::data);
  for (std::int32_t& token : tokens.mutable_values<std::int32_t>())
    token = static_cast<std::int32_t>(random.below(V));
  return tokens;
}

// 6 · weights · tokens, and 12 · C · T a token and layer for attention's two products (halved by
// the causal mask), forward and backward. Embedding look-ups are no arithmetic.
double transformer_flops(Transformer& model, std::int64_t B, std::int64_t T) {
  double weights = 0;
  for (const Parameter* parameter : model.parameters())
    if (is_weight(parameter->role)) weights += static_cast<double>(parameter->tensor.size());
  if (model.options.tied_embeddings)
    weights += static_cast<double>(model.options.vocabulary * model.options.block.width);
  const auto tokens = static_cast<double>(B * T);
  const double attention =
      6.0 * static_cast<double>(model.options.layers * model.options.block.width * T);
  return tokens * (6 * weights + attention);
}

StepSpeed transformer_step(const TransformerOptions& options, std::int64_t B) {
  Random init(1, Stream::init);
  Transformer model(options, init);
  const std::vector<Parameter*> parameters = model.parameters();
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  const std::int64_t T = options.context;
  const Array tokens = random_tokens(B, T, options.vocabulary);
  const Array targets = random_tokens(B, T, options.vocabulary);
  StepSpeed result = step_speed([&] {
    Random noise(1, Stream::dropout);
    Tape tape;
    const Tensor loss = cross_entropy(model.forward(tokens, &noise), targets);
    const Gradients gradients = tape.backward(loss);
    optimizer.step(gradients, 1e-4, clip(gradients, parameters, 1).scale);
  });
  result.units = static_cast<double>(B * T);
  result.unit = "tokens";
  result.flops = transformer_flops(model, B, T);
  return result;
}

// Matrix products of operands rounded to bfloat16.
StepSpeed transformer_step_bfloat16(const TransformerOptions& options, std::int64_t B) {
  const UseMatmulPrecision rounded(MatmulPrecision::bfloat16);
  return transformer_step(options, B);
}

// Forward and backward passes of the head of a large vocabulary, for 512 positions of which every
// fifth has a target, as in conversations.
StepSpeed head_step() {
  constexpr std::int64_t T = 512, C = 640, V = 262'144;
  Random init(1, Stream::init);
  Linear head(C, V, init, {.bias = false});
  Array hidden({1, T, C});
  init.fill_normal(hidden, 0, 1);
  const Parameter states(hidden, Role::weight);
  Batch batch{.inputs = hidden, .targets = random_tokens(1, T, V), .count = 0};
  for (std::int64_t t = 0; t < T; ++t)
    if (t % 5 == 0)
      ++batch.count;
    else
      batch.targets.mutable_values<std::int32_t>()[t] = ignored_target;
  StepSpeed result = step_speed([&] {
    Tape tape;
    const auto [rows, targets] = counted_rows(states.tensor, batch);
    tape.backward(cross_entropy(head.forward(rows), targets));
  });
  result.units = static_cast<double>(T);
  result.unit = "tokens";
  result.flops = 6.0 * batch.count * C * V;
  return result;
}

// Training steps of the shipped dates: sources of 32 characters, of which the last 8 are padding,
// and targets of 11.
StepSpeed dates_step() {
  constexpr std::int64_t B = 64, S = 32, T = 11, V = 72;
  Random init(1, Stream::init);
  EncoderDecoder model({.source_vocabulary = V,
                        .target_vocabulary = V,
                        .encoder_layers = 2,
                        .decoder_layers = 2,
                        .block = {.width = 64,
                                  .attention = {.heads = 4, .positions = Positions::sinusoidal},
                                  .dropout = 0.1},
                        .shared_embeddings = true},
                       init);
  const std::vector<Parameter*> parameters = model.parameters();
  AdamW optimizer(parameters, {});
  const Array source = random_tokens(B, S, V), target = random_tokens(B, T, V);
  const Array wanted = random_tokens(B, T, V);
  Array padding = Array::zeros({B, S}, DType::int32);
  for (std::int64_t i = 0; i < B * S; ++i)
    padding.mutable_values<std::int32_t>()[i] = i % S >= S - 8;
  StepSpeed result = step_speed([&] {
    Random noise(1, Stream::dropout);
    Tape tape;
    const Tensor logits = model.decode(target, model.encode(source, padding, &noise), &noise);
    const Gradients gradients = tape.backward(cross_entropy(logits, wanted));
    optimizer.step(gradients, 1e-3, clip(gradients, parameters, 1).scale);
  });
  result.units = static_cast<double>(B * T);
  result.unit = "tokens";
  return result;
}

// Training steps of the shipped etth1: windows of 7 series, 96 steps from which 96 are forecast.
StepSpeed forecast_step() {
  constexpr std::int64_t B = 128, T = 96, M = 7;
  Random init(1, Stream::init), data(1, Stream::data);
  Forecaster model({.block = {.width = 16,
                              .attention = {.heads = 4},
                              .feed_forward = {.hidden = 128},
                              .dropout = 0.3}},
                   init);
  Adam optimizer(model.parameters(), {});
  Array x({B, T, M}), y({B, T, M});
  data.fill_normal(x, 0, 1);
  data.fill_normal(y, 0, 1);
  StepSpeed result = step_speed([&] {
    Random noise(1, Stream::dropout);
    Tape tape;
    optimizer.step(tape.backward(mean(squared_error(model.forward(x, &noise), y))), 1e-3);
  });
  result.units = B;
  result.unit = "windows";
  return result;
}

// Full-batch training steps of a network with tanh on a table of 10,000 rows.
StepSpeed table_step() {
  constexpr std::int64_t B = 10'000;
  Random init(1, Stream::init);
  Linear first(4, 32, init), second(32, 16, init), last(16, 4, init);
  std::vector<Parameter*> parameters;
  for (Linear* layer : {&first, &second, &last})
    for (Parameter* parameter : layer->parameters()) parameters.push_back(parameter);
  Adam optimizer(parameters, {});
  Array x({B, 4}), y({B, 4});
  init.fill_normal(x, 0, 1);
  init.fill_normal(y, 0, 1);
  StepSpeed result = step_speed([&] {
    Tape tape;
    const Tensor hidden = tanh(second.forward(tanh(first.forward(x))));
    optimizer.step(tape.backward(mean(squared_error(last.forward(hidden), y))), 1e-3);
  });
  result.units = B;
  result.unit = "examples";
  result.flops = 6.0 * B * (4 * 32 + 32 * 16 + 16 * 4) - 2.0 * B * 4 * 32;
  return result;
}

// So little work that threads can only slow it down.
StepSpeed mlp_step() {
  constexpr std::int64_t B = 32;
  Random init(1, Stream::init);
  Mlp model({16, 16, 16, 1}, init);
  const std::vector<Parameter*> parameters = model.parameters();
  AdamW optimizer(parameters, {});
  Array x({B, 16}), y({B, 1});
  init.fill_normal(x, 0, 1);
  init.fill_normal(y, 0, 1);
  StepSpeed result = step_speed([&] {
    Tape tape;
    const Gradients gradients = tape.backward(mean(squared_error(model.forward(x), y)));
    optimizer.step(gradients, 1e-3, clip(gradients, parameters, 1).scale);
  });
  result.units = B;
  result.unit = "examples";
  result.flops = 6.0 * B * (2 * 16 * 16 + 16) - 2.0 * B * 16 * 16;
  return result;
}

// Products with a weight for one image; a convolution's weights stand at each place of the smaller
// of its two planes. The first layer's input needs no gradient: two of its three are made.
double vae_flops(Vae& model) {
  double products = 0;
  for (const Parameter* parameter : model.parameters())
    if (is_weight(parameter->role)) products += static_cast<double>(parameter->tensor.size());
  if (!model.convolutions)
    return 6 * products - 2.0 * static_cast<double>(model.encoder.layers[0].weight.tensor.size());
  const auto& down = model.convolutions->layers;
  const auto& up = model.transposed_convolutions->layers;
  std::int64_t height = model.options.height, width = model.options.width;
  double first = 0;
  for (std::size_t i = 0; i < down.size(); ++i) {
    height = (height + 1) / 2;
    width = (width + 1) / 2;
    const auto places = static_cast<double>(height * width);
    if (i == 0) first = places * static_cast<double>(down[i].weight.tensor.size());
    products += (places - 1) * static_cast<double>(down[i].weight.tensor.size() +
                                                   up[up.size() - 1 - i].weight.tensor.size());
  }
  return 6 * products - 2 * first;
}

StepSpeed vae_step(const VaeOptions& options, std::int64_t B) {
  Random init(1, Stream::init);
  Vae model(options, init);
  const std::vector<Parameter*> parameters = model.parameters();
  Adam optimizer(parameters, {});
  Array images({B, model.options.values()});
  Random(1, Stream::data).fill_uniform(images, 0, 1);
  StepSpeed result = step_speed([&] {
    Random noise(1, Stream::dropout);
    Tape tape;
    const Vae::Elbo elbo = model.elbo(images, noise);
    const Gradients gradients = tape.backward(elbo.recon + elbo.kl, 1.0 / static_cast<double>(B));
    optimizer.step(gradients, 1e-3);
  });
  result.units = static_cast<double>(B);
  result.unit = "images";
  result.flops = static_cast<double>(B) * vae_flops(model);
  return result;
}

// LeNet-5 of PyTorch's tutorials on images of 28 × 28. A kernel's weights are multiplied at each
// of its places; the first layer's input needs no gradient.
StepSpeed lenet_step() {
  constexpr std::int64_t B = 128;
  Random init(1, Stream::init);
  ConvolutionalClassifier model(
      {.channels = {6, 16}, .kernel = 5, .padding = {2, 0}, .hidden = {120, 84}}, init);
  const std::vector<Parameter*> parameters = model.parameters();
  Adam optimizer(parameters, {});
  Array images({B, 28 * 28});
  Random(1, Stream::data).fill_uniform(images, 0, 1);
  const Array targets = random_tokens(B, 1, 10).reshaped({B});
  StepSpeed result = step_speed([&] {
    Tape tape;
    const Tensor loss = cross_entropy(model.forward(images), targets);
    optimizer.step(tape.backward(loss), 1e-3);
  });
  const double first = 28 * 28 * 6 * 25, second = 10 * 10 * 16 * 6 * 25;
  const double linear = 400 * 120 + 120 * 84 + 84 * 10;
  result.units = static_cast<double>(B);
  result.unit = "images";
  result.flops = static_cast<double>(B) * (4 * first + 6 * (second + linear));
  return result;
}

// A graph of Cora's sizes, drawn: papers that cite each other, and the words of each.
Adjacency citations(std::int64_t N, std::int64_t edges, Random& random) {
  std::set<Edge> drawn;
  while (std::ssize(drawn) < edges) {
    const auto from = static_cast<std::int32_t>(random.below(N)),
               to = static_cast<std::int32_t>(random.below(N));
    if (from < to) drawn.insert({from, to});
  }
  return Adjacency::undirected(N, {drawn.begin(), drawn.end()});
}

Array words(std::int64_t N, std::int64_t F, std::int64_t count, Random& random) {
  Array features = Array::zeros({N, F});
  const std::span<float> values = features.mutable_values<float>();
  for (std::int64_t i = 0; i < count; ++i) values[random.below(N * F)] = 1.0f / 18;
  return features;
}

// Training steps of Kipf & Welling's network: dropout of all that it reads, 140 nodes to learn
// from.
StepSpeed graph_step() {
  constexpr std::int64_t N = 2708, F = 1433, classes = 7, labeled = 140;
  Random init(1, Stream::init), data(1, Stream::data);
  GraphNetwork model({.inputs = F, .classes = classes, .dropout = 0.5}, init);
  const std::vector<Parameter*> parameters = model.parameters();
  const auto first = std::ranges::find_if(
      parameters, [](const Parameter* parameter) { return is_weight(parameter->role); });
  Adam optimizer(parameters, {});
  const Adjacency graph = citations(N, 5278, data);
  const SparseMatrix features = sparse_matrix(words(N, F, 49'216, data));
  Array targets = Array::full({N}, ignored_target, DType::int32);
  for (std::int64_t i = 0; i < labeled; ++i)
    targets.mutable_values<std::int32_t>()[i] = static_cast<std::int32_t>(i % classes);
  StepSpeed result = step_speed([&] {
    Random noise(1, Stream::dropout);
    Tape tape;
    const Tensor logits =
        model.forward(graph, NodeFeatures(features.values, features.entries), {}, &noise);
    const Tensor loss = cross_entropy(logits, targets, {.ignore_index = ignored_target}) +
                        (5e-4 / 2) * sum((*first)->tensor * (*first)->tensor);
    optimizer.step(tape.backward(loss), 1e-2);
  });
  result.units = N;
  result.unit = "nodes";
  return result;
}

// One causal multi-head attention layer, 8 heads of 64, forward and backward.
StepSpeed attention_step(std::int64_t T,
                         const std::optional<RandomFeaturesOptions>& random_features = {}) {
  constexpr std::int64_t C = 512;
  Random init(1, Stream::init);
  const SelfAttention layer(C, init, {.heads = 8, .random_features = random_features});
  Array values({1, T, C});
  init.fill_normal(values, 0, 1);
  const Tensor x = Tensor::variable(values);
  StepSpeed result = step_speed([&] {
    Tape tape;
    tape.backward(sum(layer.forward(x, {.causal = true})));
  });
  const auto length = static_cast<double>(T);
  result.units = length;
  result.unit = "tokens";
  result.flops = length * (6 * 4.0 * C * C + 6.0 * C * length);
  return result;
}

// Two recurrent layers forward and backward, their input's gradient included. A token has two
// products with each weight forward and four backward.
StepSpeed recurrent_step(RecurrentKind kind) {
  constexpr std::int64_t B = 32, T = 64, C = 256, layers = 2;
  Random init(1, Stream::init);
  const RecurrentStack stack({.kind = kind, .layers = layers, .inputs = C, .width = C}, init);
  Array values({B, T, C});
  init.fill_normal(values, 0, 1);
  const Tensor x = Tensor::variable(values);
  StepSpeed result = step_speed([&] {
    Tape tape;
    tape.backward(sum(stack.forward(x)));
  });
  const double gates = kind == RecurrentKind::lstm ? 4 : 3;
  result.units = B * T;
  result.unit = "tokens";
  result.flops = B * T * layers * 6.0 * 2 * gates * C * C;
  return result;
}

// attention_step() by 64 random features a head: two projections to them, and in place of the
// length half a chunk of 64 and, twice, sums of 2 · 64 by 64 a head.
StepSpeed random_feature_step(std::int64_t T) {
  constexpr double C = 512, D = 64;
  StepSpeed result = attention_step(T, RandomFeaturesOptions{});
  const double chunks = 32 * (2 * D + D) * C / D, sums = 2 * 2 * D * C;
  result.flops = static_cast<double>(T) * 6 * (4 * C * C + 2 * C * D + chunks + sums);
  return result;
}

// Generates 256 tokens after a prompt of one, with cached keys and values, for several texts, or
// with weights in q8_0.
StepSpeed generation(const TransformerOptions& options, std::int64_t texts = 1,
                     DType weights = DType::float32) {
  constexpr std::int64_t tokens = 256;
  TransformerOptions longer = options;
  longer.context = std::max<std::int64_t>(options.context, tokens + 1);
  Random init(1, Stream::init);
  Transformer model(longer, init);
  if (weights == DType::q8_0) quantize_weights(model);
  const auto alone = [&] {
    Random random(1, Stream::sample);
    generate(model, {1}, tokens, {.temperature = 0}, random);
  };
  const auto together = [&] {
    std::vector<Request> requests;
    for (std::int64_t i = 0; i < texts; ++i)
      requests.push_back({{static_cast<std::int32_t>(i)}, tokens, Random(1, Stream::sample, i)});
    generate(model, requests, {.temperature = 0});
  };
  const TimingOptions few{.warm_up = 1, .least_steps = 3};
  StepSpeed result = texts == 1 ? step_speed(alone, few) : step_speed(together, few);
  result.units = static_cast<double>(texts * tokens);
  result.unit = "tokens";
  return result;
}

constexpr TransformerOptions sort{.vocabulary = 11,
                                  .context = 16,
                                  .layers = 2,
                                  .block = {.width = 64, .attention = {.heads = 4}}};
constexpr TransformerOptions names{.vocabulary = 27,
                                   .context = 16,
                                   .layers = 4,
                                   .block = {.width = 64,
                                             .attention = {.heads = 4},
                                             .feed_forward = {.activation = Activation::gelu_tanh},
                                             .dropout = 0.1}};
constexpr TransformerOptions nano{.vocabulary = 65};
constexpr TransformerOptions character{.vocabulary = 65,
                                       .context = 256,
                                       .layers = 6,
                                       .block = {.width = 384, .attention = {.heads = 6}}};
constexpr TransformerOptions gpt2{.vocabulary = 50257,
                                  .context = 64,
                                  .layers = 12,
                                  .block = {.width = 768, .attention = {.heads = 12}}};
// The shape of a small model of nanochat: two wide heads, and an untied output layer.
constexpr TransformerOptions v8192{.vocabulary = 8192,
                                   .context = 512,
                                   .layers = 4,
                                   .block = {.width = 256, .attention = {.heads = 2}},
                                   .tied_embeddings = false};

// gpt-char in a current architecture: 3 of its 6 heads share keys and values, with about as many
// weights.
TransformerOptions llama_char() {
  const LinearOptions plain{.bias = false};
  TransformerOptions options = character;
  options.block.attention = {.heads = 6,
                             .key_value_heads = 2,
                             .positions = Positions::rotary,
                             .rotary = {.pairs = RotaryPairs::halves},
                             .input = plain,
                             .output = plain};
  options.block.feed_forward = {.hidden = 1024,
                                .activation = Activation::silu,
                                .gated = true,
                                .expand = plain,
                                .contract = plain};
  options.block.norms.kind = NormKind::rms;
  return options;
}

TransformerOptions gpt2_long() {
  TransformerOptions options = gpt2;
  options.context = 1024;
  return options;
}

TransformerOptions recomputed(TransformerOptions options) {
  options.recompute_blocks = true;
  return options;
}

}  // namespace

const std::map<std::string, Workload>& workloads() {
  static const std::map<std::string, Workload> all = {
      {"sort",
       {"2 layers of width 64, context 16, batch 64", [] { return transformer_step(sort, 64); }}},
      {"names",
       {"4 layers of width 64, context 16, batch 128, dropout",
        [] { return transformer_step(names, 128); }}},
      {"dates", {"encoder and decoder of 2 layers of width 64, batch 64, dropout", dates_step}},
      {"etth1", {"patch transformer of 3 layers of width 16, batch 128, dropout", forecast_step}},
      {"table", {"4-32-16-4 with tanh, all 10,000 rows", table_step}},
      {"gpt-nano",
       {"4 layers of width 128, context 64, batch 12", [] { return transformer_step(nano, 12); }}},
      {"gpt-char",
       {"6 layers of width 384, context 256, batch 4",
        [] { return transformer_step(character, 4); }}},
      {"gpt-char-16", {"gpt-char, batch 16", [] { return transformer_step(character, 16); }}},
      {"gpt2-124m",
       {"12 layers of width 768, context 64, batch 4", [] { return transformer_step(gpt2, 4); }}},
      {"gpt2-124m-16", {"gpt2-124m, batch 16", [] { return transformer_step(gpt2, 16); }}},
      {"gpt2-124m-t1024",
       {"gpt2-124m, context 1024, batch 1", [] { return transformer_step(gpt2_long(), 1); }}},
      {"gpt-v8192",
       {"4 layers of width 256, context 512, batch 4, 8,192 tokens, untied",
        [] { return transformer_step(v8192, 4); }}},
      {"gpt-char-bf16",
       {"gpt-char with bfloat16 operands", [] { return transformer_step_bfloat16(character, 4); }}},
      {"gpt2-124m-bf16",
       {"gpt2-124m with bfloat16 operands", [] { return transformer_step_bfloat16(gpt2, 4); }}},
      {"llama-char",
       {"gpt-char with RMS norms, SwiGLU, shared heads and rotary positions",
        [] { return transformer_step(llama_char(), 4); }}},
      {"gpt-char-recompute",
       {"gpt-char with checkpointed activations",
        [] { return transformer_step(recomputed(character), 4); }}},
      {"gpt2-124m-t1024-recompute",
       {"gpt2-124m-t1024 with checkpointed activations",
        [] { return transformer_step(recomputed(gpt2_long()), 1); }}},
      {"mlp-16", {"16-16-16-1, batch 32", mlp_step}},
      {"head-262144",
       {"the head of 262,144 tokens, width 640, 512 positions, a fifth with a target", head_step}},
      {"vae", {"784-400-20-400-784, batch 128", [] { return vae_step({}, 128); }}},
      {"conv-vae",
       {"two convolutions before 3136-400-3-400-3136, two after, batch 100",
        [] {
          return vae_step({.channels = {32, 64}, .latent = 3, .activation = Activation::gelu}, 100);
        }}},
      {"lenet", {"two convolutions of 5 × 5 and three linear layers, batch 128", lenet_step}},
      {"gcn-cora", {"two graph convolutions, 1433-16-7, of 2708 nodes, 5278 edges", graph_step}},
      {"lstm",
       {"two layers of width 256, T 64, batch 32",
        [] { return recurrent_step(RecurrentKind::lstm); }}},
      {"gru",
       {"two layers of width 256, T 64, batch 32",
        [] { return recurrent_step(RecurrentKind::gru); }}},
      {"attention-256", {"one causal layer, 8 heads of 64", [] { return attention_step(256); }}},
      {"attention-1024", {"one causal layer, 8 heads of 64", [] { return attention_step(1024); }}},
      {"attention-4096", {"one causal layer, 8 heads of 64", [] { return attention_step(4096); }}},
      {"attention-8192", {"one causal layer, 8 heads of 64", [] { return attention_step(8192); }}},
      {"attention-16384",
       {"one causal layer, 8 heads of 64", [] { return attention_step(16384); }}},
      {"random-features-1024",
       {"attention-1024 by 64 random features a head", [] { return random_feature_step(1024); }}},
      {"random-features-4096",
       {"attention-4096 by 64 random features a head", [] { return random_feature_step(4096); }}},
      {"random-features-8192",
       {"attention-8192 by 64 random features a head", [] { return random_feature_step(8192); }}},
      {"random-features-16384",
       {"attention-16384 by 64 random features a head", [] { return random_feature_step(16384); }}},
      {"generate-char", {"256 tokens with gpt-char", [] { return generation(character); }}},
      {"generate-gpt2", {"256 tokens with gpt2-124m", [] { return generation(gpt2); }}},
      {"generate-llama", {"256 tokens with llama-char", [] { return generation(llama_char()); }}},
      {"generate-char-8",
       {"256 tokens of 8 texts together with gpt-char", [] { return generation(character, 8); }}},
      {"generate-char-q8_0",
       {"256 tokens with gpt-char in q8_0", [] { return generation(character, 1, DType::q8_0); }}},
      {"generate-gpt2-q8_0",
       {"256 tokens with gpt2-124m in q8_0", [] { return generation(gpt2, 1, DType::q8_0); }}},
      {"generate-gpt2-8",
       {"256 tokens of 8 texts together with gpt2-124m", [] { return generation(gpt2, 8); }}},
  };
  return all;
}

}  // namespace tapestry
