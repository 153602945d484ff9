#pragma once

#include <optional>
#include <vector>

#include "layers/embedding.hpp"
#include "layers/mlp.hpp"
#include "layers/norm.hpp"

namespace tapestry {

struct TabularNetworkOptions {
  // For each number: the ascending edges of the bins of its piecewise-linear encoding; fewer than
  // three: the number is only scaled.
  std::vector<std::vector<double>> edges{};
  std::vector<std::int64_t> categories{};  // number of categories of each column of them
  std::int64_t outputs = 1;                // classes, or 1 for a number
  std::int64_t number_width = 0;           // D of a number's embedding; 0: the number itself
  std::int64_t category_width = 8;         // of a category's embedding
  std::int64_t layers = 3, width = 256;
  double dropout = 0;
  std::int64_t members = 1;  // M
  Activation activation = Activation::relu;
};

// Embeds numbers: x (B, N) -> (B, N, D), of number n w_n x_n + b_n + P_n e(x_n), where e is the
// piecewise-linear encoding by bins (Gorishniy et al. 2022, arXiv 2203.05556, eq. 1): 1 for a bin
// below x, 0 for one above, and in between the share of the bin; the first bin goes on below, the
// last one above. P starts at 0.
class NumberEmbedding final : public Module {
 public:
  Parameter weight, bias;  // (N, D)
  Parameter pieces;        // (N, T, D) for at most T bins
  // (N, 1, T) float64: of each bin its lower edge, 1 / width, and 1 for the first and for all but
  // the last.
  Array low, scale, is_first, is_inner;

  NumberEmbedding(const std::vector<std::vector<double>>& edges, std::int64_t width, Random& init);
  Tensor forward(const Tensor& x) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor encoded(const Tensor& x) const;  // (B, N) -> (N, B, T)
};

// A network of rows of a table: x (B, N + K), N numbers and then K indices of categories. A
// multilayer perceptron with dropout reads the embeddings of both. With several members (TabM-mini:
// Gorishniy et al. 2024, arXiv 2410.24210, section 3.3), each multiplies these inputs by factors of
// its own and has a last layer of its own, and all others are shared. The constructor throws
// std::invalid_argument for no inputs, and for sizes below 1.
class TabularNetwork final : public Module {
 public:
  TabularNetworkOptions options;
  std::optional<NumberEmbedding> numbers;  // of a width above 0
  std::vector<Embedding> categories;
  std::optional<Parameter> factors;  // (M, F) of F inputs, for several members
  std::vector<Linear> layers;
  Dropout dropout;
  Parameter head, head_bias;  // (M, width, outputs), (M, 1, outputs)

  TabularNetwork(const TabularNetworkOptions& wanted, Random& init);

  // Returns the outputs of each member (B, M, outputs). `noise` is for dropout; null: evaluation.
  Tensor forward(const Tensor& x, Random* noise = nullptr) const;
  void fields(FieldVisitor& visit) override;

 private:
  Tensor inputs(const Tensor& x) const;  // (B, F)
};

}  // namespace tapestry
