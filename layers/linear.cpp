#include "layers/linear.hpp"

#include <cmath>

#include "autograd/ops/activations.hpp"
#include "autograd/ops/matmul.hpp"
#include "autograd/tape.hpp"
#include "layers/module.hpp"

namespace tapestry {
namespace {

Array initial(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options) {
  if (options.standard_deviation > 0)
    return initial_normal({out, in}, options.standard_deviation, init);
  const double squared =
      options.glorot ? 6.0 / static_cast<double>(in + out) : 1.0 / static_cast<double>(in);
  return initial_uniform({out, in}, std::sqrt(squared), init);
}

Array initial_bias(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options) {
  if (!options.bias) return {};
  if (options.standard_deviation > 0 || options.glorot) return Array::zeros({out});
  return initial_uniform({out}, 1 / std::sqrt(static_cast<double>(in)), init);
}

}  // namespace

Adapter::Adapter(const Place& place, std::int64_t in, Random& init)
    : name(place.name),
      first_row(place.first_row),
      a(initial_uniform({place.rank, in}, 1 / std::sqrt(static_cast<double>(in)), init),
        Role::weight),
      b(Array::zeros({place.rows, place.rank}), Role::weight) {}

TAPESTRY_FIELDS(Adapter, a, b)

Linear::Linear(std::int64_t in, std::int64_t out, Random& init, const LinearOptions& options)
    : weight(initial(in, out, init, options), Role::weight),
      bias(initial_bias(in, out, init, options), Role::bias) {}

DType Linear::dtype() const {
  const DType stored = weight.tensor.dtype();
  return stored == DType::q8_0 ? DType::float32 : stored;
}

Tensor Linear::forward(const Tensor& x, Random* noise) const {
  const Scope scope(path());
  Tensor y = linear(x, weight, bias);
  if (adapters.empty()) return y;
  std::vector<LowRankChange> changes;
  for (const Adapter& adapter : adapters)
    changes.push_back({adapter.a, adapter.b, adapter.first_row});
  const Tensor read = noise && adapter_dropout > 0 ? dropout(x, adapter_dropout, *noise) : x;
  return add_low_rank(std::move(y), read, changes, adapter_scale);
}

void Linear::fields(FieldVisitor& visit) {
  visit("weight", weight);
  if (!bias.tensor.value().empty()) visit("bias", bias);
  for (Adapter& adapter : adapters) visit(adapter.name, adapter);
}

}  // namespace tapestry
