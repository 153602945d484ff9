#pragma once

#include <memory>

#include "tests/support/modules.hpp"

// The table of layers: rows that the tests of each kind of layer give, and test_layers.cpp checks.
namespace tapestry {

// "Layer" or "Layer: variant". f is checked by its inputs and by the layer's parameters.
struct LayerRow {
  std::string name;
  std::shared_ptr<Module> module;
  std::function<Tensor(In)> f;
  std::vector<Array> inputs;

  std::string layer() const { return name.substr(0, name.find(':')); }
};

// f takes the layer and its inputs.
template <class M, class F>
LayerRow make_row(const std::string& name, M layer, F f, const std::vector<Array>& inputs) {
  const auto module = std::make_shared<M>(std::move(layer));
  randomised(*module, f64);
  return {name, module, [module, f](In x) { return f(*module, x); }, inputs};
}

inline constexpr auto forward = [](const auto& layer, In x) { return layer.forward(x[0]); };
inline constexpr auto cross = [](const auto& layer, In x) { return layer.forward(x[0], x[1]); };

std::vector<LayerRow> simple_layers(), attention_layers(), random_feature_layers(),
    transformer_layers(), encoder_layers(), memory_layers(), graph_layers(), convolution_layers(),
    vae_layers(), adapter_layers();

}  // namespace tapestry
