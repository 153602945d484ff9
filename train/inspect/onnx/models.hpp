#pragma once

#include "layers/models/convolutional_classifier.hpp"
#include "layers/models/decoder_classifier.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "layers/models/forecaster.hpp"
#include "layers/models/graph_network.hpp"
#include "layers/models/memory_network.hpp"
#include "layers/models/recurrent_network.hpp"
#include "layers/models/tabular_network.hpp"
#include "layers/models/text_classifier.hpp"
#include "layers/models/transformer.hpp"
#include "layers/models/vae.hpp"
#include "layers/models/vision_transformer.hpp"
#include "train/inspect/onnx/ops.hpp"

// forward(model, x) adds the nodes of a whole model. Tokens are int64.
namespace tapestry::onnx {

Value forward(const Transformer& model, const Value& tokens);        // (B, T) -> (B, T, V)
Value forward(const RecurrentNetwork& model, const Value& tokens);   // (B, T) -> (B, T, V)
Value forward(const TextClassifier& model, const Value& tokens);     // (B, T) -> (B, classes)
Value forward(const DecoderClassifier& model, const Value& tokens);  // the same

// Return the padding mask (B, S) bool of a source (B, S), the encoded source (B, S, C), and the
// logits (B, T, V) of the tokens after those of a target (B, T).
Value padding_of(const Value& source, std::int64_t padding_token);
Value encode(const EncoderDecoder& model, const Value& source, const Value& padding);
Value decode(const EncoderDecoder& model, const Value& target, const Value& encoded,
             const std::optional<Value>& padding = {});
// Returns the encoded source (B, S, C) of images (B, C · H · W), cut as `options` says.
Value encode_images(const EncoderDecoder& model, const VisionTransformerOptions& options,
                    const Value& images);

struct Posterior {
  Value mean;                           // (B, Z)
  std::optional<Value> log_variance{};  // (B, Z); none of a plain autoencoder
};
Posterior encode(const Vae& model, const Value& x);      // (B, F)
Value expected_image(const Vae& model, const Value& z);  // (B, Z) -> (B, F)

Value forward(const VisionTransformer& model,
              const Value& images);  // (B, C · H · W) -> (B, classes)
Value forward(const ConvolutionalClassifier& model, const Value& images);  // the same
// (B, T, M) -> (B, horizon, K or M). `first_step` (B) int64 is only for models with a cycle.
Value forward(const Forecaster& model, const Value& x, const std::optional<Value>& first_step = {});

// Graphs with features (B, N, F) and adjacency matrices (B, N, N): 1 where an edge leads from the
// column's node to the row's, else 0. `node_mask` (B, N) bool is true for the nodes of each graph.
// forward returns logits of the nodes (B, N, classes), or, with pooling, of the graphs (B,
// classes).
struct DenseGraphs {
  Value features, adjacency;
  std::optional<Value> node_mask{};  // only with pooling
};
Value forward(const GraphNetwork& model, const DenseGraphs& graphs);

Value forward(const MemoryNetwork& model, const Value& symbols);  // (B, T, S) -> (B, classes)
Value forward(const MemoryRegressor& model, const Value& x);      // (B, T, F) -> (B)

// Rows of a table: scaled numbers (B, N), and indices of categories (B, K) int64; nothing for no
// columns. forward returns (B, members, outputs).
struct TableRows {
  std::optional<Value> numbers{}, categories{};
};
Value forward(const TabularNetwork& model, const TableRows& rows);

}  // namespace tapestry::onnx
