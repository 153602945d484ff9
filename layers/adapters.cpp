#include "layers/adapters.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/kernels/matmul.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/tape.hpp"

namespace tapestry {
namespace {

AdapterTarget whole(const std::string& name, Linear& linear) {
  return {name, &linear, 0, linear.weight.tensor.dim(0)};
}

std::vector<AdapterTarget> targets_of(SelfAttention& attention) {
  const std::int64_t D = attention.options.head_width, queries = attention.options.heads * D,
                     shared = attention.options.key_value_heads * D;
  Linear& packed = attention.query_key_value;
  return {{"query", &packed, 0, queries},
          {"key", &packed, queries, shared},
          {"value", &packed, queries + shared, shared},
          whole("query_key_value", packed),
          whole("output", attention.output)};
}

std::vector<AdapterTarget> targets_of(CrossAttention& attention) {
  const std::int64_t C = attention.key_value.weight.tensor.dim(0) / 2;
  return {whole("query", attention.query),
          {"key", &attention.key_value, 0, C},
          {"value", &attention.key_value, C, C},
          whole("output", attention.output)};
}

std::vector<AdapterTarget> targets_of(FeedForward& feed_forward) {
  std::vector<AdapterTarget> targets{whole("expand", feed_forward.expand),
                                     whole("contract", feed_forward.contract)};
  if (!feed_forward.gated) return targets;
  const std::int64_t F = feed_forward.expand.weight.tensor.dim(0) / 2;
  targets.insert(targets.end(),
                 {{"gate", &feed_forward.expand, 0, F}, {"up", &feed_forward.expand, F, F}});
  return targets;
}

void add_adapter(const AdapterTarget& target, const AdapterOptions& options, Random& init) {
  Linear& linear = *target.linear;
  const Shape& shape = linear.weight.tensor.shape();
  for (const Adapter& other : linear.adapters)
    require(!changes_rows(other, target.first_row, target.rows),
            "add_adapters: target {} shares rows with another target; give only one of them",
            target.name);
  const bool is_whole = target.rows == shape[0];
  const std::string name = adapter_name + (is_whole ? "" : "." + target.name);
  linear.adapters.emplace_back(
      Adapter::Place{
          .name = name, .first_row = target.first_row, .rows = target.rows, .rank = options.rank},
      shape[1], init);
  linear.adapter_scale = options.scale;
  linear.adapter_dropout = options.dropout;
}

}  // namespace

std::vector<AdapterTarget> adapter_targets(Module& model) {
  std::vector<AdapterTarget> all;
  const auto add = [&](auto& module) {
    const std::vector<AdapterTarget> own = targets_of(module);
    all.insert(all.end(), own.begin(), own.end());
  };
  for (TransformerBlock* block : modules_of<TransformerBlock>(model)) {
    add(block->attention);
    if (block->cross_attention) add(*block->cross_attention);
    if (block->feed_forward) add(*block->feed_forward);
  }
  return all;
}

void add_adapters(Module& model, const AdapterOptions& options, Random& init) {
  const std::vector<AdapterTarget> all = adapter_targets(model);
  for (const std::string& name : options.targets)
    require(std::ranges::count(all, name, &AdapterTarget::name) > 0,
            "add_adapters: unknown target {}; expected a target that adapter_targets() returns",
            name);
  for (const AdapterTarget& target : all)
    if (std::ranges::count(options.targets, target.name) > 0) add_adapter(target, options, init);
}

bool changes_rows(const Adapter& adapter, std::int64_t first_row, std::int64_t rows) {
  return adapter.first_row < first_row + rows &&
         first_row < adapter.first_row + adapter.b.tensor.dim(0);
}

std::vector<Linear*> adapted_linears(Module& model) {
  std::vector<Linear*> linears = modules_of<Linear>(model);
  std::erase_if(linears, [](const Linear* linear) { return linear->adapters.empty(); });
  return linears;
}

bool has_adapters(Module& model) { return !adapted_linears(model).empty(); }

void merge_adapters(Module& model) {
  Tape::require_unused("merge_adapters", model.parameters());
  const NoTape no_tape;
  for (Linear* linear : adapted_linears(model)) {
    Array weight = linear->weight.value();
    const std::int64_t in = weight.dim(1);
    for (const Adapter& adapter : linear->adapters) {
      const std::int64_t rows = adapter.b.tensor.dim(0), rank = adapter.b.tensor.dim(1);
      const Array b = (linear->adapter_scale * adapter.b.tensor).value();
      Array changed = weight.part(adapter.first_row * in, (adapter.first_row + rows) * in);
      multiply_matrices(
          {.dtype = weight.dtype(), .m = rows, .n = in, .k = rank, .accumulate = true},
          {{b.raw(), adapter.a.value().raw(), changed.mutable_raw()}});
    }
    linear->adapters.clear();
  }
}

}  // namespace tapestry
