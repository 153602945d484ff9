#include "autograd/ops/embedding.hpp"

#include <numeric>
#include <vector>

#include "autograd/kernels/rows.hpp"
#include "autograd/ops/elementwise.hpp"

namespace tapestry {
namespace {

// Where each token of a vocabulary stands in a text: token v at places[offsets[v]] to
// places[offsets[v + 1] - 1], in the text's order.
struct Places {
  std::vector<std::int64_t> offsets, places;

  Places(std::span<const std::int32_t> tokens, std::int64_t vocabulary)
      : offsets(vocabulary + 1), places(tokens.size()) {
    for (const std::int32_t token : tokens) ++offsets[token + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    for (std::size_t i = 0; i < tokens.size(); ++i) places[next[tokens[i]]++] = i;
  }
};

// table[token] += gradient row, in the order of the tokens; threads share out the columns.
template <class T>
void scatter_add(const Places& text, std::int64_t width, const T* gradient, T* table) {
  const std::int64_t grain =
      std::max<std::int64_t>(64, 32768 / std::max<std::size_t>(1, text.places.size()));
  parallel_for(width, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    const auto add = [&](std::int64_t i, T* sum) {
      map_span(n, {sum, gradient + text.places[i] * width + begin}, sum,
               [](auto x, auto y) { return x + y; });
    };
    for (std::size_t token = 0; token + 1 < text.offsets.size(); ++token)
      add_rows(text.offsets[token], text.offsets[token + 1], n, table + token * width + begin, add);
  });
}

}  // namespace

Tensor embedding(const Tensor& table, const Array& tokens) {
  check_floating("embedding", table);
  require(table.rank() == 2 && tokens.dtype() == DType::int32,
          "embedding: table {} with {} tokens {}", to_string(table.shape()),
          to_string(tokens.dtype()), to_string(tokens.shape()));
  const std::int64_t V = table.dim(0), C = table.dim(1);
  Shape shape = tokens.shape();
  shape.push_back(C);
  Array y(shape, table.dtype());
  const auto rows = tokens.values<std::int32_t>();
  for (std::int32_t token : rows)
    require(token >= 0 && token < V, "embedding: token {} with table {}", token,
            to_string(table.shape()));
  dispatch(table.dtype(), [&]<class T>() {
    const auto from = table.value().values<T>();
    const auto to = y.mutable_values<T>();
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(from.data() + rows[i] * C, C, to.data() + i * C);
  });
  return record("embedding", y, {table}, [tokens, C](const Array& gradient, InputGradients& into) {
    into.accumulate(0, [&](Array& dtable, bool accumulate) {
      if (!accumulate) std::fill_n(dtable.mutable_raw(), dtable.bytes(), std::byte{0});
      dispatch(gradient.dtype(), [&]<class T>() {
        scatter_add(Places(tokens.values<std::int32_t>(), dtable.dim(0)), C,
                    gradient.values<T>().data(), dtable.mutable_values<T>().data());
      });
    });
  });
}

}  // namespace tapestry
