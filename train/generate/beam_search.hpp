#pragma once

#include "layers/models/encoder_decoder.hpp"

namespace tapestry {

struct TranslateOptions {
  std::int64_t beams = 1;  // hypotheses per sentence; 1: greedy decoding
  // Maximum length of a target, without its end; 0, or more than the model's context: the context.
  std::int64_t max_tokens = 0;
  // α of the score log P / ((5 + length) / 6)^α by which finished hypotheses are compared (Wu et
  // al. 2016, arXiv 1609.08144, eq. 14).
  double length_penalty = 0.6;
  std::int32_t begin = 1, end = 2;  // the tokens before and after a target
};

// Returns the target of the best score that beam search finds for each row of source (B, S),
// without begin and end; if none is finished, the most probable unfinished one. Keys and values are
// cached. `padding` is that of EncoderDecoder::encode. Throws std::invalid_argument for fewer than
// one beam, and as encode() does.
std::vector<std::vector<std::int32_t>> translate(const EncoderDecoder& model, const Array& source,
                                                 const Array& padding,
                                                 const TranslateOptions& options = {});
// The same for an encoded source of B rows.
std::vector<std::vector<std::int32_t>> translate(const EncoderDecoder& model, std::int64_t B,
                                                 const EncoderDecoder::EncodedSource& source,
                                                 const TranslateOptions& options = {});

}  // namespace tapestry
