#include "layers/embedding.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/embedding.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/tape.hpp"
#include "layers/module.hpp"

namespace tapestry {

Embedding::Embedding(std::int64_t vocabulary, std::int64_t width, Random& init,
                     double standard_deviation)
    : weight(initial_normal({vocabulary, width}, standard_deviation, init), Role::embedding) {}

Tensor Embedding::forward(const Array& tokens) const {
  const Scope scope(path());
  return embedding(weight, tokens);
}

TAPESTRY_FIELDS(Embedding, weight)

namespace {

// Returns the sinusoidal encodings of T positions from each first one on: (firsts, T, C), float64.
Array waves(const std::vector<std::int64_t>& firsts, std::int64_t T, std::int64_t C) {
  std::vector<double> rates;
  for (std::int64_t c = 0; c < C; ++c)
    rates.push_back(std::pow(10000.0, -static_cast<double>(c / 2 * 2) / static_cast<double>(C)));
  Array table({std::ssize(firsts), T, C}, DType::float64);
  double* value = table.mutable_values<double>().data();
  for (const std::int64_t first : firsts)
    for (std::int64_t t = 0; t < T; ++t)
      for (std::size_t c = 0; c < rates.size(); ++c) {
        const double angle = static_cast<double>(first + t) * rates[c];
        *value++ = c % 2 == 0 ? std::sin(angle) : std::cos(angle);
      }
  return table;
}

}  // namespace

Array positions_in_documents(const Array& starts) {
  if (starts.empty()) return {};
  Array positions(starts.shape(), DType::int32);
  if (is_dry_run()) return positions;
  const auto first = starts.values<std::int32_t>();
  const auto position = positions.mutable_values<std::int32_t>();
  const std::int64_t T = starts.dim(-1);
  for (std::int64_t i = 0; i < starts.size(); ++i)
    position[i] = static_cast<std::int32_t>(i % T) - first[i];
  return positions;
}

PositionalEncoding::PositionalEncoding(const PositionalEncodingOptions& wanted, Random& init)
    : options(wanted) {
  if (options.kind == Positions::learned)
    weight.emplace(
        initial_normal({options.context, options.width}, options.standard_deviation, init),
        Role::embedding);
}

Tensor PositionalEncoding::learned(std::int64_t first, std::int64_t T) const {
  return reshape(slice(*weight, 0, first, first + T), {1, T, weight->tensor.dim(1)});
}

Tensor PositionalEncoding::forward(const Tensor& x, const std::vector<std::int64_t>& firsts) const {
  const Scope scope(path());
  const std::int64_t T = x.dim(-2), C = x.dim(-1);
  require(firsts.size() == 1 || std::ssize(firsts) == x.dim(0),
          "positional encoding: {} first positions for x {}; expected 1, or one for each example",
          firsts.size(), x.shape());
  switch (options.kind) {
    case Positions::learned: {
      if (firsts.empty()) return x;
      if (firsts.size() == 1) return x + learned(firsts.front(), T);
      std::vector<Tensor> rows;
      for (const std::int64_t first : firsts) rows.push_back(learned(first, T));
      return x + concat(rows, 0);
    }
    case Positions::sinusoidal: {
      const Tensor scaled = options.input_scale == 1 ? x : options.input_scale * x;
      return scaled + waves(firsts, T, C).to(x.dtype());
    }
    case Positions::rotary:
    case Positions::none:
      return x;
  }
  throw_unhandled("positional encoding");
}

Tensor PositionalEncoding::forward(const Tensor& x, const Array& positions) const {
  const Scope scope(path());
  require(x.rank() == 3 && positions.shape() == Shape{x.dim(0), x.dim(1)},
          "positional encoding: positions {} for x {}; expected (B, T) and (B, T, C)",
          positions.shape(), x.shape());
  switch (options.kind) {
    case Positions::learned:
      return x + embedding(*weight, positions);
    case Positions::sinusoidal: {
      const Tensor scaled = options.input_scale == 1 ? x : options.input_scale * x;
      const auto given = positions.values<std::int32_t>();
      const std::int64_t count =
          is_dry_run() || given.empty() ? x.dim(1) : 1 + std::ranges::max(given);
      const Tensor table = reshape(waves({0}, count, x.dim(-1)).to(x.dtype()), {count, x.dim(-1)});
      return scaled + embedding(table, positions);
    }
    case Positions::rotary:
    case Positions::none:
      return x;
  }
  throw_unhandled("positional encoding");
}

TAPESTRY_FIELDS(PositionalEncoding, weight)

}  // namespace tapestry
