#include "layers/models/encoder_decoder.hpp"

#include <cmath>

#include "autograd/check.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

// Returns the standard deviation 1/√C: Glorot's for a square matrix, and 1 after scaling by √C.
double embedding_deviation(const TransformerBlockOptions& block) {
  return 1 / std::sqrt(static_cast<double>(block.width));
}

std::optional<Embedding> make_target_embedding(const EncoderDecoderOptions& options, Random& init) {
  require(!options.shared_embeddings || options.source_vocabulary == options.target_vocabulary,
          "encoder-decoder: shared embeddings with vocabularies of {} and {} tokens; expected "
          "equal sizes",
          options.source_vocabulary, options.target_vocabulary);
  if (options.shared_embeddings) return std::nullopt;
  return Embedding(options.target_vocabulary, options.block.width, init,
                   embedding_deviation(options.block));
}

PositionalEncodingOptions position_options(const TransformerBlockOptions& block,
                                           std::int64_t context) {
  return {.kind = block.attention.positions, .context = context, .width = block.width};
}

PositionalEncodingOptions source_position_options(const EncoderDecoderOptions& options) {
  PositionalEncodingOptions own = position_options(options.block, options.source_context);
  if (options.patches) own.kind = Positions::none;  // the encoder of patches has them
  return own;
}

}  // namespace

EncoderDecoder::EncoderDecoder(const EncoderDecoderOptions& wanted, Random& init)
    : options(wanted),
      source_embedding(options.source_vocabulary, options.block.width, init,
                       embedding_deviation(options.block)),
      target_embedding(make_target_embedding(options, init)),
      source_positions(source_position_options(options), init),
      target_positions(position_options(options.block, options.target_context), init),
      dropout(options.block.dropout) {
  const std::int64_t C = options.block.width;
  TransformerBlockOptions block = options.block;
  require(!options.patches || (options.shared_embeddings && options.encoder_layers == 0),
          "encoder-decoder: patches with {} encoder layers of tokens; expected none, and shared "
          "embeddings",
          options.encoder_layers);
  if (options.patches) patches.emplace(*options.patches, init);
  for (std::int64_t i = 0; i < options.encoder_layers; ++i)
    encoder.blocks.emplace_back(block, init);
  block.source_width = C;
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) decoder.emplace_back(block, init);
  if (block.norm == NormPlacement::pre) {
    if (!patches) encoder_norm.emplace(C, block.norms);
    decoder_norm.emplace(C, block.norms);
  }
  if (options.tied_embeddings) return;
  head.emplace(C, options.target_vocabulary, init, LinearOptions{.bias = false});
  head->weight.role = Role::head;
}

const Embedding& EncoderDecoder::target_table() const {
  return target_embedding ? *target_embedding : source_embedding;
}

// Returns embeddings multiplied by √C, which makes them as large as sinusoidal positions (Vaswani
// et al. 2017, §3.4).
Tensor EncoderDecoder::embed(const Embedding& embedding, const Array& tokens) const {
  return std::sqrt(static_cast<double>(options.block.width)) * embedding.forward(tokens);
}

EncoderDecoder::EncodedSource EncoderDecoder::encode(const Array& source, const Array& padding,
                                                     Random* noise) const {
  const Scope scope(path());
  Tensor x = source_positions.forward(embed(source_embedding, source));  // (B, S, C)
  x = dropout.forward(x, noise);
  x = encoder.forward(x, {.attention = {.key_padding = padding}, .noise = noise});
  return project(encoder_norm ? encoder_norm->forward(x) : x, padding, noise);
}

EncoderDecoder::EncodedSource EncoderDecoder::encode_patches(const Tensor& x, Random* noise) const {
  require(patches.has_value(), "encoder-decoder: the source is tokens; expected patches");
  const Scope scope(path());
  return project(patches->forward(x, noise), {}, noise);
}

// Returns the keys and values of an encoded source x (B, S, C).
EncoderDecoder::EncodedSource EncoderDecoder::project(const Tensor& x, const Array& padding,
                                                      Random* noise) const {
  EncodedSource encoded{.padding = padding};
  for (const TransformerBlock& block : decoder)
    encoded.projected.push_back(block.cross_attention->project(x, noise));
  return encoded;
}

EncoderDecoder::EncodedSource EncoderDecoder::EncodedSource::select(
    const std::vector<std::int64_t>& rows) const {
  EncodedSource selected{.padding = padding.empty() ? padding : padding.select(rows)};
  for (const KeyValue& source : projected)
    selected.projected.push_back(
        {.packed = source.packed.value().select(rows), .width = source.width});
  return selected;
}

Tensor EncoderDecoder::decode(const Array& target, const EncodedSource& encoded,
                              Random* noise) const {
  return logits(hidden(target, encoded, noise));
}

Tensor EncoderDecoder::decode(const Array& target, const EncodedSource& encoded,
                              AttentionCaches& caches) const {
  require(!caches.empty() && caches.size() == decoder.size(),
          "encoder-decoder: {} caches for {} blocks; expected at least one block, and a cache for "
          "each",
          caches.size(), decoder.size());
  return logits(hidden(target, encoded, nullptr, &caches));
}

Tensor EncoderDecoder::hidden(const Array& target, const EncodedSource& encoded,
                              Random* noise) const {
  return hidden(target, encoded, noise, nullptr);
}

Tensor EncoderDecoder::logits(const Tensor& hidden) const {
  const Scope scope(path());
  return head ? head->forward(hidden) : linear(hidden, target_table().weight);
}

Tensor EncoderDecoder::hidden(const Array& target, const EncodedSource& encoded, Random* noise,
                              AttentionCaches* caches) const {
  const Scope scope(path());
  Tensor x = embed(target_table(), target);  // (B, T, C)
  x = caches ? target_positions.forward(x, caches->front()->lengths())
             : target_positions.forward(x);
  x = dropout.forward(x, noise);
  for (std::size_t i = 0; i < decoder.size(); ++i)
    x = decoder[i].forward(x, {.attention = {.causal = true},
                               .noise = noise,
                               .cache = caches ? (*caches)[i].get() : nullptr,
                               .source = encoded.projected[i],
                               .source_attention = {.key_padding = encoded.padding}});
  return decoder_norm ? decoder_norm->forward(x) : x;
}

AttentionCaches EncoderDecoder::make_caches(std::int64_t batch) const {
  return tapestry::make_caches(decoder, batch, options.target_context);
}

TAPESTRY_FIELDS(EncoderDecoder, source_embedding, target_embedding, source_positions,
                target_positions, dropout, encoder, encoder_norm, decoder, decoder_norm, head,
                patches)

}  // namespace tapestry
