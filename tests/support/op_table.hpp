#pragma once

#include <fstream>
#include <numeric>
#include <set>

#include "autograd/gradcheck.hpp"
#include "tests/support/arrays.hpp"
#include "tests/support/paths.hpp"

// The table of ops: op_rows_*.cpp add rows, and test_gradcheck.cpp checks them.
namespace tapestry {

// "op" or "op: variant". The gradient of f by each of its inputs is checked.
struct OpRow {
  std::string name;
  Function f;
  std::vector<Array> inputs;
  GradcheckOptions options = {};

  std::string op() const { return name.substr(0, name.find(':')); }
};

// Returns the names of the ops that the headers of autograd/ops declare.
inline std::set<std::string> declared_ops() {
  std::set<std::string> ops;
  for (const auto& file : fs::directory_iterator(source_path("autograd/ops"))) {
    if (file.path().extension() != ".hpp") continue;
    std::ifstream header(file.path());
    for (std::string line, before; std::getline(header, line); before = line)
      for (const std::string type : {"Tensor ", "std::vector<Tensor> "})
        if (line.starts_with(type) && !before.starts_with("template"))
          ops.insert(line.substr(type.size(), line.find('(') - type.size()));
  }
  return ops;
}

// Returns numbers away from ties and from 0, where relu has a kink: |x| = 0.5 + 0.1 × a shuffled
// index.
static inline Array apart(const Shape& shape) {
  Array array = normal(shape);
  const auto x = array.mutable_values<double>();
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, [&](auto i, auto j) { return std::abs(x[i]) < std::abs(x[j]); });
  for (std::size_t i = 0; i < order.size(); ++i)
    x[order[i]] = std::copysign(0.5 + 0.1 * static_cast<double>(i), x[order[i]]);
  return array;
}

// A small step away from large numbers is rounded; a larger one bends less than it gains.
inline const GradcheckOptions large{.step = 1e-4};

std::vector<OpRow> unary_ops(), arithmetic_ops(), reduce_ops(), shaping_ops(), indexing_ops(),
    softmax_ops(), matmul_ops(), model_ops(), attention_ops(), rotary_ops(), scan_ops(),
    gated_ops(), linear_attention_ops(), graph_ops(), convolution_ops(), loss_ops();

}  // namespace tapestry
