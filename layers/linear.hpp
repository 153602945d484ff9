#pragma once

#include <vector>

#include "layers/module.hpp"

namespace tapestry {

struct LinearOptions {
  bool bias = true;
  // Standard deviation of the initial weight, which is normally distributed; biases start at 0. 0:
  // both start uniform in ±1/√in, as in PyTorch.
  double standard_deviation = 0;
  // The weight starts uniform in ±√(6 / (in + out)), biases at 0 (Glorot & Bengio 2010, eq. 16).
  bool glorot = false;
};

inline constexpr const char* adapter_name = "lora";  // name of a field of Linear

// A low-rank adapter: the change scale · b · a of R rows of a weight, of rank r (LoRA; Hu et al.
// 2021, arXiv 2106.09685). a (r, in) starts uniform in ±1/√in, and b (R, r) as 0.
class Adapter final : public Module {
 public:
  std::string name;        // adapter_name, or for some of the rows "lora.query"
  std::int64_t first_row;  // first row of the weight
  Parameter a, b;

  struct Place {
    std::string name = adapter_name;
    std::int64_t first_row = 0, rows = 0, rank = 0;
  };
  Adapter(const Place& place, std::int64_t in, Random& init);
  void fields(FieldVisitor& visit) override;
};

// A linear map: x (..., in) -> x · weightᵀ + bias (..., out), with weight (out, in) and bias (out),
// plus the changes of its adapters, which read x after dropout.
class Linear final : public Module {
 public:
  Parameter weight;
  Parameter bias;                   // an empty array if there is no bias
  std::vector<Adapter> adapters{};  // adapters of disjoint rows; see layers/adapters.hpp
  double adapter_scale = 1, adapter_dropout = 0;

  Linear(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options = {});
  // Returns the dtype of x and of the output: float32 if the weight is in q8_0.
  DType dtype() const;
  // Returns (..., out). `noise` is for the dropout of adapters; null: evaluation.
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;
};

}  // namespace tapestry
