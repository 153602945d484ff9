#pragma once

#include "layers/module.hpp"

namespace tapestry {

// Word vectors by skip-grams with negative sampling (Mikolov et al. 2013, arXiv 1310.4546): each
// word has a vector, and an output vector for when it is predicted from a word near it. Vectors
// start uniform in [-0.5 / C, 0.5 / C), and output vectors as 0, as in word2vec's program.
class SkipGram final : public Module {
 public:
  Parameter vectors, outputs;  // (V, C) each

  SkipGram(std::int64_t vocabulary, std::int64_t width, Random& init);

  // Returns the loss of negative_sampling(): contexts (N, W) and targets (N, 1 + K), int32 -> ().
  Tensor forward(const Array& contexts, const Array& targets) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
