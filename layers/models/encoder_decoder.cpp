#include "layers/models/encoder_decoder.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Glorot's for a square projection, and unit variance after the embedding is scaled by √C.
double embedding_deviation(const TransformerBlockOptions& block) {
  return 1 / std::sqrt(static_cast<double>(block.width));
}

}  // namespace

EncoderDecoder::EncoderDecoder(const EncoderDecoderOptions& wanted, Random& init)
    : options(wanted),
      source_embedding(options.source_vocabulary, options.block.width, init,
                       embedding_deviation(options.block)),
      dropout(options.block.dropout) {
  const std::int64_t C = options.block.width;
  require(!options.shared_embeddings || options.source_vocabulary == options.target_vocabulary,
          "encoder-decoder: shared embeddings of {} and {} tokens", options.source_vocabulary,
          options.target_vocabulary);
  if (!options.shared_embeddings)
    target_embedding.emplace(options.target_vocabulary, C, init,
                             embedding_deviation(options.block));
  if (options.positions == Positions::learned) {
    source_positions.emplace(options.source_context, C, init);
    target_positions.emplace(options.target_context, C, init);
  }
  TransformerBlockOptions block = options.block;
  block.rotary_positions = options.positions == Positions::rotary;
  for (std::int64_t i = 0; i < options.encoder_layers; ++i)
    encoder.blocks.emplace_back(block, init);
  block.source_width = C;
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) decoder.emplace_back(block, init);
  if (block.norm == NormPlacement::pre) {
    encoder_norm.emplace(C);
    decoder_norm.emplace(C);
  }
  if (!options.tied_embeddings)
    head.emplace(C, options.target_vocabulary, init, LinearOptions{.bias = false});
  parameters();  // names the modules
}

const Embedding& EncoderDecoder::target_table() const {
  return target_embedding ? *target_embedding : source_embedding;
}

// √C keeps tokens as loud as the positions' waves: Vaswani et al., §3.4.
Tensor EncoderDecoder::embed(const Embedding& embedding,
                             const std::optional<LearnedPositions>& positions, const Array& tokens,
                             std::int64_t first, Random* noise) const {
  Tensor x = std::sqrt(static_cast<double>(options.block.width)) * embedding.forward(tokens);
  if (positions) x = positions->forward(x, first);
  if (options.positions == Positions::sinusoidal) x = sinusoidal_positions.forward(x, first);
  return dropout.forward(x, noise);
}

EncoderDecoder::EncodedSource EncoderDecoder::encode(const Array& source, const Array& padding,
                                                     Random* noise) const {
  const Scope scope(path());
  Tensor x = embed(source_embedding, source_positions, source, 0, noise);  // (B, S, C)
  x = encoder.forward(
      x, {.attention = {.window = options.window, .key_padding = padding}, .noise = noise});
  if (encoder_norm) x = encoder_norm->forward(x);
  EncodedSource encoded{{}, padding};
  for (const TransformerBlock& block : decoder)
    encoded.projected.push_back(block.cross_attention->project_source(x));
  return encoded;
}

EncoderDecoder::EncodedSource EncoderDecoder::EncodedSource::select(
    const std::vector<std::int64_t>& rows) const {
  EncodedSource selected{{}, padding.empty() ? padding : padding.select(rows)};
  for (const Tensor& tensor : projected) selected.projected.push_back(tensor.value().select(rows));
  return selected;
}

Tensor EncoderDecoder::decode(const Array& target, const EncodedSource& encoded,
                              Random* noise) const {
  return decode(target, encoded, noise, nullptr);
}

Tensor EncoderDecoder::decode(const Array& target, const EncodedSource& encoded,
                              std::vector<KeyValueCache>& caches) const {
  require(caches.size() == decoder.size(), "encoder-decoder: {} caches for {} blocks",
          caches.size(), decoder.size());
  return decode(target, encoded, nullptr, &caches);
}

Tensor EncoderDecoder::decode(const Array& target, const EncodedSource& encoded, Random* noise,
                              std::vector<KeyValueCache>* caches) const {
  const Scope scope(path());
  const std::int64_t seen = caches ? caches->front().length : 0;
  Tensor x = embed(target_table(), target_positions, target, seen, noise);  // (B, T, C)
  for (std::size_t i = 0; i < decoder.size(); ++i)
    x = decoder[i].forward(x, {.attention = {.causal = true, .window = options.window},
                               .noise = noise,
                               .cache = caches ? &(*caches)[i] : nullptr,
                               .source = encoded.projected[i],
                               .source_attention = {.key_padding = encoded.padding}});
  if (decoder_norm) x = decoder_norm->forward(x);
  return head ? head->forward(x) : linear(x, target_table().weight);  // (B, T, V)
}

std::vector<KeyValueCache> EncoderDecoder::make_caches(std::int64_t batch) const {
  return tapestry::make_caches(decoder, batch, options.target_context);
}

void EncoderDecoder::fields(FieldVisitor& visit) {
  visit("source_embedding", source_embedding);
  if (target_embedding) visit("target_embedding", *target_embedding);
  visit("sinusoidal_positions", sinusoidal_positions);
  if (source_positions) visit("source_positions", *source_positions);
  if (target_positions) visit("target_positions", *target_positions);
  visit("dropout", dropout);
  visit("encoder", encoder);
  if (encoder_norm) visit("encoder_norm", *encoder_norm);
  for (std::size_t i = 0; i < decoder.size(); ++i)
    visit("decoder." + std::to_string(i), decoder[i]);
  if (decoder_norm) visit("decoder_norm", *decoder_norm);
  if (head) visit("head", *head);
}

}  // namespace tapestry
