#pragma once

#include "layers/transformer_block.hpp"

// LoRA: fine-tuning by low-rank adapters of fixed weights (Hu et al. 2021, arXiv 2106.09685).
namespace tapestry {

// Rows of a linear map that can have an adapter. The names are "query", "key", "value" and "output"
// of each attention; "query_key_value", all three of a self-attention; "expand" and "contract" of
// each feed-forward network; and "gate" and "up", the halves of a gated one's "expand".
struct AdapterTarget {
  std::string name;
  Linear* linear = nullptr;
  std::int64_t first_row = 0, rows = 0;  // rows of the weight
};

// Returns the targets of all transformer blocks of a model.
std::vector<AdapterTarget> adapter_targets(Module& model);

struct AdapterOptions {
  std::int64_t rank = 8;  // r
  double scale = 1;       // factor of all changes: the paper's α / r
  double dropout = 0;     // rate for the inputs of the adapters
  std::vector<std::string> targets{};
};

// Adds an adapter, which changes nothing yet, to each target. Throws std::invalid_argument for a
// target that no block has, and for two targets that share rows.
void add_adapters(Module& model, const AdapterOptions& options, Random& init);

// Returns whether the adapter changes any of these rows of its weight.
bool changes_rows(const Adapter& adapter, std::int64_t first_row, std::int64_t rows);

// Returns the linear maps that have adapters.
std::vector<Linear*> adapted_linears(Module& model);
bool has_adapters(Module& model);

// Adds the changes to the weights and removes the adapters. The model stays the same up to
// rounding.
void merge_adapters(Module& model);

}  // namespace tapestry
