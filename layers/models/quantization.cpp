#include "layers/models/quantization.hpp"

#include "autograd/q8_0.hpp"

namespace tapestry {

std::int64_t quantize_weights(Transformer& model) {
  std::vector<Parameter*> weights;
  for (Linear* linear : modules_of<Linear>(model)) weights.push_back(&linear->weight);
  for (Embedding* table : modules_of<Embedding>(model)) weights.push_back(&table->weight);
  std::erase_if(weights,
                [](const Parameter* weight) { return weight->tensor.dim(1) % Q8Block::size != 0; });
  for (Parameter* weight : weights) weight->convert(DType::q8_0);
  return std::ssize(weights);
}

}  // namespace tapestry
