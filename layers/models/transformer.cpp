#include "layers/models/transformer.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/ops/recompute.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

constexpr double initial_deviation = 0.02;

TransformerBlockOptions block_options(const TransformerOptions& options) {
  const double branches = 2.0 * static_cast<double>(options.layers);
  return {.width = options.width,
          .heads = options.heads,
          .hidden = options.hidden,
          .norm = options.norm,
          .activation = options.activation,
          .dropout = options.dropout,
          .rotary_positions = options.positions == Positions::rotary,
          .random_features = options.random_features,
          .input = {options.bias, initial_deviation},
          .residual = {options.bias, initial_deviation / std::sqrt(branches)}};
}

}  // namespace

Transformer::Transformer(const TransformerOptions& wanted, Random& init)
    : options(wanted),
      token_embedding(options.vocabulary, options.width, init, initial_deviation),
      dropout(options.dropout) {
  if (options.positions == Positions::learned)
    position_embedding.emplace(options.context, options.width, init, initial_deviation);
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks.emplace_back(block_options(options), init);
  if (options.norm == NormPlacement::pre) final_norm.emplace(options.width);
  if (!options.tied_embeddings)
    head.emplace(options.width, options.vocabulary, init, LinearOptions{false, initial_deviation});
  parameters();  // names the modules
}

Tensor Transformer::forward(const Array& tokens, Random* noise) const {
  return forward(tokens, noise, nullptr);
}

Tensor Transformer::forward(const Array& tokens, std::vector<KeyValueCache>& caches) const {
  return forward(tokens, nullptr, &caches);
}

Tensor Transformer::forward(const Array& tokens, Random* noise,
                            std::vector<KeyValueCache>* caches) const {
  const Scope scope(path());
  require(!caches || (!caches->empty() && caches->size() == blocks.size()),
          "transformer: {} caches for {} blocks", caches ? caches->size() : 0, blocks.size());
  const std::int64_t seen = caches ? caches->front().length : 0;
  require(tokens.rank() == 2 && seen + tokens.dim(1) <= options.context,
          "transformer: tokens {} after {} with a context of {}", to_string(tokens.shape()), seen,
          options.context);
  Tensor x = token_embedding.forward(tokens);  // (B, T, C)
  if (position_embedding) x = position_embedding->forward(x, seen);
  // Waves of amplitude 1 would drown embeddings as small as ours start: Vaswani et al., §3.4.
  const double loudness = std::sqrt(static_cast<double>(options.width));
  if (options.positions == Positions::sinusoidal)
    x = sinusoidal_positions.forward(loudness * x, seen);
  x = dropout.forward(x, noise);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    x = forward(i, x, noise, caches ? &(*caches)[i] : nullptr);
  if (final_norm) x = final_norm->forward(x);
  return head ? head->forward(x) : linear(x, token_embedding.weight);  // (B, T, V)
}

Tensor Transformer::forward(std::size_t block, const Tensor& input, Random* dropout_noise,
                            KeyValueCache* cache) const {
  const auto run = [this, block, cache](const Tensor& x, Random* noise) {
    return blocks[block].forward(
        x,
        {.attention = {.causal = true, .window = options.window}, .noise = noise, .cache = cache});
  };
  return options.recompute_blocks ? recompute(input, dropout_noise, run)
                                  : run(input, dropout_noise);
}

std::vector<KeyValueCache> Transformer::make_caches(std::int64_t batch) const {
  return tapestry::make_caches(blocks, batch, options.context);
}

void Transformer::fields(FieldVisitor& visit) {
  visit("token_embedding", token_embedding);
  if (position_embedding) visit("position_embedding", *position_embedding);
  visit("sinusoidal_positions", sinusoidal_positions);
  visit("dropout", dropout);
  for (std::size_t i = 0; i < blocks.size(); ++i) visit("blocks." + std::to_string(i), blocks[i]);
  if (final_norm) visit("final_norm", *final_norm);
  if (head) visit("head", *head);
}

}  // namespace tapestry
