#pragma once

#include "layers/embedding.hpp"
#include "layers/patch_encoder.hpp"
#include "layers/transformer_block.hpp"

namespace tapestry {

struct EncoderDecoderOptions {
  std::int64_t source_vocabulary = 0, target_vocabulary = 0;
  // Number of learned positions; target_context is also the capacity of caches.
  std::int64_t source_context = 64, target_context = 64;
  std::int64_t encoder_layers = 3, decoder_layers = 3;
  TransformerBlockOptions block{.attention = {.positions = Positions::sinusoidal}};
  // Whether both languages, which share a vocabulary, use one embedding table.
  bool shared_embeddings = false;
  bool tied_embeddings = true;  // the head uses the target's embedding
  // The source is these patches instead of tokens, which an encoder of their own encodes: there is
  // no other, and embeddings are shared.
  std::optional<PatchEncoderOptions> patches{};
};

// An encoder-decoder transformer (Vaswani et al. 2017, arXiv 1706.03762, figure 1), which computes
// the logits of the next target token: source (B, S), target (B, T) int32 -> (B, T, V). Throws
// std::invalid_argument for shared embeddings of vocabularies of different sizes. With patches of
// an image as source it describes the image (Xu et al. 2015, arXiv 1502.03044, with this decoder).
class EncoderDecoder final : public Module {
 public:
  EncoderDecoderOptions options;
  Embedding source_embedding;
  std::optional<Embedding> target_embedding;  // null with shared embeddings
  PositionalEncoding source_positions, target_positions;
  Dropout dropout;
  Encoder encoder;
  std::vector<TransformerBlock> decoder;
  std::optional<Norm> encoder_norm, decoder_norm;  // only with pre-norm
  std::optional<Linear> head;                      // null with tied embeddings
  std::optional<PatchEncoder> patches;             // only of patches

  EncoderDecoder(const EncoderDecoderOptions& wanted, Random& init);

  // The source as the decoder uses it: keys and values (B, S, 2C) for each of its blocks.
  struct EncodedSource {
    std::vector<KeyValue> projected{};
    Array padding{};  // (B, S) int32, nonzero masks the token; or empty

    EncodedSource select(const std::vector<std::int64_t>& rows) const;  // returns rows of the batch
  };
  // Return the encoded source, and logits (B, T, V) of the tokens after each of the target's.
  // `noise` is for dropout; null: evaluation.
  EncodedSource encode(const Array& source, const Array& padding, Random* noise = nullptr) const;
  EncodedSource encode_patches(const Tensor& x, Random* noise = nullptr) const;  // (B, S, P)
  Tensor decode(const Array& target, const EncodedSource& encoded, Random* noise = nullptr) const;

  // Return the hidden states (B, T, C) that the head reads, and the logits (…, V) of such states.
  Tensor hidden(const Array& target, const EncodedSource& encoded, Random* noise = nullptr) const;
  Tensor logits(const Tensor& hidden) const;

  // Return empty caches, one per decoder block, and the logits of tokens that follow those in the
  // caches, to which the tokens are appended. Throws std::invalid_argument for another number of
  // caches, and for a model without decoder blocks.
  AttentionCaches make_caches(std::int64_t batch) const;
  Tensor decode(const Array& target, const EncodedSource& encoded, AttentionCaches& caches) const;

  void fields(FieldVisitor& visit) override;

 private:
  Tensor embed(const Embedding& embedding, const Array& tokens) const;
  EncodedSource project(const Tensor& x, const Array& padding, Random* noise) const;
  const Embedding& target_table() const;
  Tensor hidden(const Array& target, const EncodedSource& encoded, Random* noise,
                AttentionCaches* caches) const;
};

}  // namespace tapestry
