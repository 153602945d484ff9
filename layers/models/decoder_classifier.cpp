#include "layers/models/decoder_classifier.hpp"

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

TransformerOptions without_head(TransformerOptions options) {
  options.tied_embeddings = true;
  return options;
}

// Returns the linear map with initial values even if those of the transformer are left out, because
// the checkpoint of a language model has none for it.
Linear make_score(const TransformerOptions& options, std::int64_t classes, Random& init) {
  const SkipInitialValues drawn(false);
  return {options.block.width,
          classes,
          init,
          {.bias = false, .standard_deviation = options.initial_deviation}};
}

// Rows without padding, and where each of them ends.
struct ReadRows {
  Array tokens;  // (B, T) int32, with token 0 in place of padding
  Array last;    // (B, T, 1): 1 at the last token of each row, else 0
};

ReadRows read_rows(const Array& tokens, std::int32_t padding, DType dtype) {
  const std::int64_t B = tokens.dim(0), T = tokens.dim(1);
  ReadRows rows{.tokens = Array::zeros({B, T}, DType::int32),
                .last = Array::zeros({B, T, 1}, DType::float64)};
  for (std::int64_t b = 0; b < B && !is_dry_run(); ++b) {
    std::int64_t last = b * T;
    for (std::int64_t i = last; i < (b + 1) * T; ++i) {
      const std::int32_t token = tokens.values<std::int32_t>()[i];
      if (token == padding) continue;
      rows.tokens.mutable_values<std::int32_t>()[i] = token;
      last = i;
    }
    rows.last.mutable_values<double>()[last] = 1;
  }
  rows.last = rows.last.to(dtype);
  return rows;
}

}  // namespace

DecoderClassifier::DecoderClassifier(const TransformerOptions& wanted, std::int64_t classes,
                                     Random& init)
    : transformer(without_head(wanted), init), score(make_score(wanted, classes, init)) {
  score.weight.role = Role::head;
}

Tensor DecoderClassifier::forward(const Array& tokens, Random* noise) const {
  const Scope scope(path());
  require(tokens.rank() == 2 && tokens.dim(1) >= 1,
          "decoder classifier: tokens {}; expected (B, T) with T >= 1", tokens.shape());
  const ReadRows rows = read_rows(tokens, padding(), score.weight.value().dtype());
  const Tensor x = transformer.hidden(rows.tokens, noise);  // (B, T, C)
  return score.forward(sum(x * rows.last, {1}));            // (B, C) -> (B, classes)
}

void DecoderClassifier::fields(FieldVisitor& visit) {
  transformer.fields(visit);
  visit("score", score);
}

}  // namespace tapestry
