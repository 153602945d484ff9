#pragma once

#include <fstream>
#include <memory>
#include <regex>
#include <set>

#include "tests/support/modules.hpp"
#include "tests/support/paths.hpp"

// The table of layers: tests of each kind of layer add rows, and test_layers.cpp checks them.
namespace tapestry {

// "Layer" or "Layer: variant". Gradients of f by its inputs and the layer's parameters are checked.
struct LayerRow {
  std::string name;
  std::shared_ptr<Module> module;
  std::function<Tensor(In)> f;
  std::vector<Array> inputs;

  std::string layer() const { return name.substr(0, name.find(':')); }
};

// Returns the names of the modules that the headers of layers/ declare.
inline std::set<std::string> declared_layers() {
  std::set<std::string> layers;
  const std::regex pattern(R"(class (\w+) final : public \w+)");
  for (const auto& file : fs::recursive_directory_iterator(source_path("layers"))) {
    if (file.path().extension() != ".hpp") continue;
    std::ifstream header(file.path());
    for (std::string line; std::getline(header, line);)
      if (std::smatch match; std::regex_search(line, match, pattern)) layers.insert(match[1]);
  }
  return layers;
}

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
    vae_layers(), adapter_layers(), tabular_layers();

}  // namespace tapestry
