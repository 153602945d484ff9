#pragma once

#include "layers/embedding.hpp"
#include "layers/encoder.hpp"

namespace tapestry {

struct EncoderDecoderOptions {
  std::int64_t source_vocabulary = 0, target_vocabulary = 0;
  std::int64_t source_context = 64, target_context = 64;  // with learned positions: at most
  std::int64_t encoder_layers = 3, decoder_layers = 3;
  TransformerBlockOptions block{.attention = {.positions = Positions::sinusoidal}};
  bool shared_embeddings = false;  // one table for both languages, whose vocabularies are one
  bool tied_embeddings = true;     // the head reads out with the target's embedding
};

// The encoder–decoder transformer (Vaswani et al. 2017, arXiv 1706.03762, figure 1): the logits of
// a target's next token, given a source and the target so far.
//   source (B, S), target (B, T) int32 -> (B, T, V)
class EncoderDecoder final : public Module {
 public:
  EncoderDecoderOptions options;
  Embedding source_embedding;
  std::optional<Embedding> target_embedding;  // without shared embeddings
  PositionalEncoding source_positions, target_positions;
  Dropout dropout;
  Encoder encoder;
  std::vector<TransformerBlock> decoder;
  std::optional<Norm> encoder_norm, decoder_norm;  // with pre-norm
  std::optional<Linear> head;                      // without tied embeddings

  EncoderDecoder(const EncoderDecoderOptions& wanted, Random& init);

  // What the decoder attends to: each of its blocks' keys and values (B, S, 2C) of the source.
  struct EncodedSource {
    std::vector<KeyValue> projected{};
    Array padding{};  // (B, S) int32, nonzero hides; or empty

    EncodedSource select(const std::vector<std::int64_t>& rows) const;  // of the batch
  };
  EncodedSource encode(const Array& source, const Array& padding, Random* noise = nullptr) const;

  // `noise` is dropout's; null: evaluate.
  Tensor decode(const Array& target, const EncodedSource& encoded, Random* noise = nullptr) const;

  // The same for tokens that follow those in the caches, one cache a decoder block.
  AttentionCaches make_caches(std::int64_t batch) const;
  Tensor decode(const Array& target, const EncodedSource& encoded, AttentionCaches& caches) const;

  void fields(FieldVisitor& visit) override;

 private:
  Tensor embed(const Embedding& embedding, const Array& tokens) const;
  const Embedding& target_table() const;
  Tensor decode(const Array& target, const EncodedSource& encoded, Random* noise,
                AttentionCaches* caches) const;
};

}  // namespace tapestry
