#pragma once

#include <vector>

#include "layers/module.hpp"

namespace tapestry {

struct LinearOptions {
  bool bias = true;
  // Of the normal distribution the weight starts from, biases being 0. 0 means uniform in ±1/√in
  // for both, PyTorch's default.
  double standard_deviation = 0;
  // The weight uniform in ±√(6 / (in + out)) and biases 0 (Glorot & Bengio 2010, eq. 16).
  bool glorot = false;
};

inline constexpr const char* adapter_name = "lora";  // as a field of the Linear

// A change of low rank r of R rows of a weight: scale · b · a (Hu et al. 2021, arXiv 2106.09685).
// a (r, in) starts uniform in ±1/√in, and b (R, r) as 0: at first nothing changes.
class Adapter final : public Module {
 public:
  std::string name;        // adapter_name, or of some rows alone "lora.query"
  std::int64_t first_row;  // of the weight
  Parameter a, b;

  struct Place {
    std::string name = adapter_name;
    std::int64_t first_row = 0, rows = 0, rank = 0;
  };
  Adapter(const Place& place, std::int64_t in, Random& init);
  void fields(FieldVisitor& visit) override;
};

// x (..., in) -> x · weightᵀ + bias (..., out), and what adapters add to it, which read x after a
// dropout. weight (out, in), bias (out).
class Linear final : public Module {
 public:
  Parameter weight;
  Parameter bias;                   // an empty array without bias
  std::vector<Adapter> adapters{};  // of different rows; see layers/adapters.hpp
  double adapter_scale = 1, adapter_dropout = 0;

  Linear(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options = {});
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;  // noise: the adapters' dropout
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
