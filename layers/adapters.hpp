#pragma once

#include "layers/transformer_block.hpp"

// LoRA: fine-tuning by changes of low rank to weights that stay as they are (Hu et al. 2021,
// arXiv 2106.09685).
namespace tapestry {

// What can be adapted in every transformer block of a model, by the names of its maps: "query",
// "key" and "value" of each attention, "query_key_value", which is one map of a self-attention's
// three, and its "output"; "expand" and "contract" of the feed-forward, of whose "expand" a gated
// one has "gate" and "up".
struct AdapterTarget {
  std::string name;
  Linear* linear = nullptr;
  std::int64_t first_row = 0, rows = 0;  // of its weight
};
std::vector<AdapterTarget> adapter_targets(Module& model);

struct AdapterOptions {
  std::int64_t rank = 8;  // r
  double scale = 1;       // of all changes; the paper's α / r
  double dropout = 0;     // of what the changes read
  std::vector<std::string> targets{};
};

// Gives each target an adapter, which changes nothing yet. std::invalid_argument where a target is
// of no block, or two of them are of the same rows.
void add_adapters(Module& model, const AdapterOptions& options, Random& init);

// Whether it changes any of those rows of its weight.
bool changes_rows(const Adapter& adapter, std::int64_t first_row, std::int64_t rows);

std::vector<Linear*> adapted_linears(Module& model);  // those with adapters
bool has_adapters(Module& model);

// Adds the changes to the weights and takes the adapters away: the same model, but for rounding.
void merge_adapters(Module& model);

}  // namespace tapestry
