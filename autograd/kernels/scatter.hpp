#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "autograd/kernels/rows.hpp"

// Sums of the rows that a list names several times, in the same order on any number of threads.
namespace tapestry {

// The places of each row of a table in a list of row numbers: rows[i] is at places[offsets[i]] to
// places[offsets[i + 1] - 1], in ascending order. Rows that the list does not name are left out.
struct RowPlaces {
  std::vector<std::int64_t> rows, offsets, places;

  template <class Number>
  RowPlaces(std::span<const Number> list, std::int64_t table_rows) : places(list.size()) {
    std::vector<std::int64_t> next(table_rows);
    for (const Number row : list) ++next[row];
    std::int64_t before = 0;
    for (std::int64_t row = 0; row < table_rows; ++row) {
      if (next[row] == 0) continue;
      rows.push_back(row);
      offsets.push_back(before);
      before += std::exchange(next[row], before);
    }
    offsets.push_back(before);
    for (std::size_t i = 0; i < list.size(); ++i) places[next[list[i]]++] = i;
  }
};

// Adds row i of `source` to the row of the table that the list names at place i, in the order of
// the list. Threads divide the rows of the table and the columns.
template <class T>
void scatter_rows(const RowPlaces& list, std::int64_t width, const T* source, T* table) {
  const std::int64_t most = std::min<std::int64_t>(width, 64), rows = std::ssize(list.rows);
  const std::int64_t blocks = width == 0 ? 0 : (width + most - 1) / most;
  const std::int64_t terms = std::ssize(list.places) / std::max<std::int64_t>(1, rows);
  for_each_row(rows * blocks, terms * most, [&](std::int64_t i) {
    const std::int64_t row = i / blocks, column = i % blocks * most;
    const std::int64_t n = std::min(most, width - column);
    const auto add = [&](std::int64_t place, T* sum) {
      map_span(n, {sum, source + list.places[place] * width + column}, sum,
               [](auto x, auto y) { return x + y; });
    };
    add_rows(list.offsets[row], list.offsets[row + 1], n, table + list.rows[row] * width + column,
             add);
  });
}

}  // namespace tapestry
