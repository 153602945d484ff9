#include "layers/models/text_classifier.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

std::int64_t embedding_rows(const TextClassifierOptions& options) {
  return options.tokens + (options.readout == Readout::class_token ? 2 : 1);
}

// Sinusoidal positions have amplitude 1, so embeddings are multiplied by √C, as in Transformer.
PositionalEncodingOptions position_options(const TextClassifierOptions& options) {
  return {.kind = options.layers > 0 ? options.block.attention.positions : Positions::none,
          .context = options.context,
          .width = options.block.width,
          .input_scale = std::sqrt(static_cast<double>(options.block.width))};
}

// Returns 1 where a token is padding, else 0: (B, T) int32 -> (B, T) int32.
Array padding_of(const Array& tokens, std::int32_t padding) {
  Array mask = Array::zeros(tokens.shape(), DType::int32);
  if (!is_dry_run())
    std::ranges::transform(tokens.values<std::int32_t>(),
                           mask.mutable_values<std::int32_t>().begin(),
                           [&](std::int32_t token) { return token == padding; });
  return mask;
}

// Returns 1/n for the n tokens of a row that are no padding, else 0: (B, T) int32 -> (B, T, 1).
Array shares_of(const Array& padding, DType dtype) {
  const std::int64_t B = padding.dim(0), T = padding.dim(1);
  Array shares = Array::zeros({B, T, 1}, DType::float64);
  for (std::int64_t b = 0; b < B && !is_dry_run(); ++b) {
    const auto row = padding.values<std::int32_t>().subspan(b * T, T);
    const auto n = static_cast<double>(std::ranges::count(row, 0));
    for (std::int64_t t = 0; t < T; ++t)
      if (row[t] == 0) shares.mutable_values<double>()[b * T + t] = 1 / n;
  }
  return shares.to(dtype);
}

}  // namespace

TextClassifier::TextClassifier(const TextClassifierOptions& wanted, Random& init)
    : options(wanted),
      token_embedding(embedding_rows(options), options.block.width, init),
      position_embedding(position_options(options), init),
      dropout(options.block.dropout),
      encoder(options.layers, options.block, init),
      head(options.block.width, options.classes, init) {
  if (options.recurrent) recurrent.emplace(*options.recurrent, init);
  if (options.layers > 0 && options.block.norm == NormPlacement::pre)
    final_norm.emplace(options.block.width, options.block.norms);
  head.weight.role = Role::head;
}

std::optional<std::int32_t> TextClassifier::first_token() const {
  if (options.readout == Readout::mean) return std::nullopt;
  return static_cast<std::int32_t>(options.tokens + 1);
}

Tensor TextClassifier::forward(const Array& tokens, Random* noise) const {
  const Scope scope(path());
  require(tokens.rank() == 2 && tokens.dim(1) >= 1 && tokens.dim(1) <= options.context,
          "text classifier: tokens {}; expected (B, 1 to {})", tokens.shape(), options.context);
  const Array padding = padding_of(tokens, this->padding());
  Tensor x = token_embedding.forward(tokens);  // (B, T, C)
  if (recurrent) return head.forward(pooled(recurrent->forward(x, noise), padding));
  x = dropout.forward(position_embedding.forward(x), noise);
  x = encoder.forward(x, {.attention = {.key_padding = padding}, .noise = noise});
  if (final_norm) x = final_norm->forward(x);
  return head.forward(pooled(x, padding));  // (B, C) -> (B, classes)
}

Tensor TextClassifier::pooled(const Tensor& x, const Array& padding) const {
  if (options.readout == Readout::class_token)
    return reshape(slice(x, 1, 0, 1), {x.dim(0), x.dim(2)});
  return sum(x * shares_of(padding, x.dtype()), {1});
}

TAPESTRY_FIELDS(TextClassifier, token_embedding, position_embedding, dropout, encoder, recurrent,
                final_norm, head)

}  // namespace tapestry
