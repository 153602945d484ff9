#include "layers/models/skip_gram.hpp"

#include "autograd/ops/negative_sampling.hpp"
#include "autograd/tape.hpp"

namespace tapestry {

SkipGram::SkipGram(std::int64_t vocabulary, std::int64_t width, Random& init)
    : vectors(initial_uniform({vocabulary, width}, 0.5 / static_cast<double>(width), init),
              Role::embedding),
      outputs(Array::zeros({vocabulary, width}), Role::embedding) {}

Tensor SkipGram::forward(const Array& contexts, const Array& targets) const {
  const Scope scope(path());
  return negative_sampling(vectors, outputs, contexts, targets);
}

TAPESTRY_FIELDS(SkipGram, vectors, outputs)

}  // namespace tapestry
