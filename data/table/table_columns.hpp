#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/table/numbers.hpp"
#include "data/table/times.hpp"

// Columns of a table as inputs of a model: how their cells become numbers.
namespace tapestry {

// Knots of a monotone map of numbers: (number, scaled number), ascending.
using Knots = std::vector<std::pair<double, double>>;
// Returns the knots by at most 1000 quantiles of these numbers; equal ones are one knot, at the
// mean of their scores.
Knots knots_of(std::vector<double> numbers);
// Return the score of a number, and the number that has a score.
double scaled(const Knots& knots, double number);
double unscaled(const Knots& knots, double score);

// A column that a model reads.
struct InputColumn {
  std::string name{};
  std::string time_format{};  // of times, which are a number of days since 1970; empty: none
  // Of a number: it is scaled so that those of the training are about normally distributed, by
  // linear interpolation between quantiles. The first and the last knot are the range.
  Knots knots{};
  bool has_mask = false;  // a number is missing in the training: a further input is 1 where it is
  // Of categories: the texts of the training. The input is the index from 1, or 0 for a missing or
  // another one.
  std::optional<std::vector<std::string>> categories{};

  bool is_time() const { return !time_format.empty(); }
};

// The column that is predicted: one of classes, or of numbers.
struct TargetColumn {
  std::string name{};
  std::vector<std::string> classes{};  // empty: numbers
  double mean = 0, deviation = 1;      // of the numbers of the training, by which they are scaled
};

// How rows become examples, as a checkpoint stores it.
struct TableColumns {
  std::vector<InputColumn> inputs{};
  TargetColumn target{};

  // Returns the number of numbers (with masks), which come first in an example, and of all inputs.
  std::int64_t numbers() const;
  std::int64_t width() const;
  // Returns for each number the edges of up to `bins` bins with equal numbers of training examples.
  std::vector<std::vector<double>> edges(std::int64_t bins) const;
  std::vector<std::int64_t> category_counts() const;  // with the one for others
  std::string to_json() const;
  // Throws InputError for damaged JSON.
  static TableColumns from_json(const std::string& json);
};

// Returns whether a cell among categories has none; "none" is one.
bool has_no_category(std::string_view cell, const std::vector<std::string>& words);
// Returns the days since 1970 of a time; nothing if it is missing. Throws InputError for a cell in
// another format.
std::optional<double> days_of_cell(const InputColumn& column, const TimeFormat& format,
                                   std::string_view cell,
                                   const std::vector<std::string>& missing_words);

// Encodes the cells of rows as inputs.
class RowEncoder {
 public:
  RowEncoder(const TableColumns& columns, const NumberFormat& format);

  // Sets the inputs of a row, `cells` those of the columns in their order. Returns what is unusual:
  // "" or "price: outside 0 to 12". Throws InputError for a text where a number was.
  std::string encode(std::span<const std::string> cells, float* inputs) const;

 private:
  const TableColumns& columns_;
  NumberFormat format_;
  std::vector<std::optional<TimeFormat>> times_{};
  std::vector<std::unordered_map<std::string, std::int32_t>> categories_{};
};

}  // namespace tapestry
