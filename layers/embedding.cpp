#include "layers/embedding.hpp"

#include "autograd/ops/embedding.hpp"
#include "autograd/tape.hpp"
#include "layers/initial.hpp"

namespace tapestry {

Embedding::Embedding(std::int64_t vocabulary, std::int64_t width, Random& init,
                     double standard_deviation)
    : weight(normal({vocabulary, width}, standard_deviation, init), Role::embedding) {}

Tensor Embedding::forward(const Array& tokens) const {
  const Scope scope(path());
  return embedding(weight, tokens);
}

void Embedding::fields(FieldVisitor& visit) { visit("weight", weight); }

}  // namespace tapestry
