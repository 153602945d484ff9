#include <doctest/doctest.h>

#include "autograd/gradcheck.hpp"
#include "autograd/ops.hpp"
#include "layers/linear.hpp"
#include "layers/module.hpp"
#include "tests/support/arrays.hpp"

namespace tapestry {
namespace {

// A gated residual layer (after Srivastava et al. 2015, arXiv 1505.00387, section 2).
class GatedResidual final : public Module {
 public:
  Linear gate, value;
  Parameter scale;  // (C)

  GatedResidual(std::int64_t C, Random& init)
      : gate(C, C, init), value(C, C, init), scale(Array::full({C}, 1), Role::weight) {}

  // Returns x + scale ⊙ σ(gate(x)) ⊙ value(x): x (..., C) -> (..., C).
  Tensor forward(const Tensor& x) const {
    const Scope scope(path());
    return x + scale.tensor * sigmoid(gate.forward(x)) * value.forward(x);
  }

  void fields(FieldVisitor& visit) override {
    visit("gate", gate);
    visit("value", value);
    visit("scale", scale);
  }
};

TEST_SUITE_BEGIN("layers");

TEST_CASE("layers: the layer of layers/README.md has its parameters and their gradients") {
  Random init(1, Stream::init);
  GatedResidual layer(3, init);
  layer.convert(DType::float64);
  Strings names;
  for (const Parameter* parameter : layer.parameters()) names.push_back(parameter->name);
  CHECK(names == Strings{"gate.weight", "gate.bias", "value.weight", "value.bias", "scale"});
  Array x({2, 4, 3}, DType::float64);
  init.fill_uniform(x, -1, 1);
  for (const GradcheckResult& result :
       gradcheck_parameters([&] { return layer.forward(x); }, layer.parameters())) {
    CAPTURE(result.name);
    CHECK(result.passed);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tapestry
