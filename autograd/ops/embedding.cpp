#include "autograd/ops/embedding.hpp"

#include <algorithm>

#include "autograd/dry_run.hpp"
#include "autograd/kernels/scatter.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/q8_0.hpp"

namespace tapestry {
namespace {

// Writes these rows of a table of q8_0 as float32.
void read_rows(const Array& table, std::span<const std::int32_t> rows, float* to) {
  const std::int64_t C = table.dim(1);
  const auto* blocks = reinterpret_cast<const Q8Block*>(table.raw());
  for_each_row(std::ssize(rows), C, [=](std::int64_t i) {
    read_q8_blocks(blocks + rows[i] * (C / Q8Block::size), C, to + i * C);
  });
}

}  // namespace

Tensor embedding(const Tensor& table, const Array& tokens) {
  const bool is_quantized = table.dtype() == DType::q8_0;
  if (!is_quantized) check_floating("embedding", table);
  require(table.rank() == 2 && tokens.dtype() == DType::int32,
          "embedding: table {} with tokens {}; expected table (V, C) and int32 tokens",
          table.shape(), tokens);
  const std::int64_t V = table.dim(0), C = table.dim(1);
  Shape shape = tokens.shape();
  shape.push_back(C);
  Array y(shape, is_quantized ? DType::float32 : table.dtype());
  const auto rows = tokens.values<std::int32_t>();
  const auto is_wrong = [V](std::int32_t token) { return token < 0 || token >= V; };
  if (!is_dry_run())
    if (const auto wrong = std::ranges::find_if(rows, is_wrong); wrong != rows.end())
      require(false, "embedding: token {} with table {}; expected 0 to {}", *wrong, table.shape(),
              V - 1);
  if (is_quantized) {
    if (!is_dry_run()) read_rows(table.value(), rows, y.mutable_values<float>().data());
    return record("embedding", y, {table.value()}, [](const Array&, InputGradients&) {});
  }
  dispatch(table.dtype(), [&]<class T>() {
    const T* from = table.value().values<T>().data();
    T* to = y.mutable_values<T>().data();
    for_each_row(std::ssize(rows), C,
                 [=](std::int64_t i) { std::copy_n(from + rows[i] * C, C, to + i * C); });
  });
  return record("embedding", y, {table}, [tokens, C](const Array& gradient, InputGradients& into) {
    into.accumulate(0, [&](Array& dtable, bool accumulate) {
      if (is_dry_run()) return;
      dispatch(gradient.dtype(), [&]<class T>() {
        T* to = dtable.mutable_values<T>().data();
        if (!accumulate)
          for_each_row(dtable.dim(0), C, [=](std::int64_t i) { std::fill_n(to + i * C, C, T(0)); });
        scatter_rows(RowPlaces(tokens.values<std::int32_t>(), dtable.dim(0)), C,
                     gradient.values<T>().data(), to);
      });
    });
  });
}

}  // namespace tapestry
