#include "data/table/label_column.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <unordered_set>

#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

constexpr std::string_view label_names[] = {"label", "class", "target", "category", "sentiment"};
constexpr std::string_view plural_names[] = {"labels", "classes", "targets", "categories",
                                             "sentiments"};

bool is_named(const Table& table, std::int64_t column, const auto& names) {
  return std::ranges::find(names, lower_ascii(table.columns()[column].name)) != std::end(names);
}

// Returns whether a column has another text in each of ten or more rows, as names have.
bool names_each_row(const Table& table, std::int64_t column) {
  constexpr std::int64_t least_rows = 10;
  const auto rows = static_cast<std::size_t>(table.rows());
  return table.columns()[column].kind == ColumnKind::texts && table.rows() >= least_rows &&
         different_cells(table, column, rows) == rows && !table.first_text_with_number(column);
}

// Returns whether a column may have labels. Fewer than three rows do not show row numbers.
bool may_be_label(const Table& table, std::int64_t column) {
  const ColumnKind kind = table.columns()[column].kind;
  return (kind == ColumnKind::numbers || kind == ColumnKind::texts) &&
         !is_named(table, column, std::array{"split"}) &&
         (table.rows() < 3 || !is_row_index(table, column));
}

// Returns "a (2 values), b (50), …".
std::string with_counts(const Table& table, const std::vector<std::int64_t>& columns) {
  constexpr std::size_t most = 8;
  std::vector<std::string> parts;
  for (const std::int64_t column : columns) {
    const std::size_t different = different_cells(table, column, most_classes);
    parts.push_back(fmt::format("{} ({}{})", shown(table.columns()[column].name),
                                different > most_classes ? "over 1000" : fmt::to_string(different),
                                parts.empty() ? " different values" : ""));
    if (parts.size() == most) break;
  }
  return fmt::format("{}{}", fmt::join(parts, ", "), columns.size() > most ? ", ..." : "");
}

// Returns whether a column names or marks splits under another name than `split`: its cells are
// names of two or more, as PublicTest is one, or flags below a name such as is_test.
bool may_divide(const Table& table, std::int64_t column) {
  constexpr std::string_view flags[] = {"0", "1", "0.0", "1.0", "false", "true", "no", "yes"};
  const std::string& title = table.columns()[column].name;
  const std::string name = lower_ascii(title);
  const bool is_mask = split_in_words(title) &&
                       (split_named(name) || name.starts_with("is") || name.ends_with("mask"));
  bool are_flags = is_mask && different_cells(table, column, 1) > 1;
  bool are_names = true;
  std::set<int> splits;
  for (std::int64_t row = 0; row < table.rows() && (are_flags || are_names); ++row) {
    const std::string_view cell = table.raw(row, column);
    if (cell.empty()) continue;
    const std::optional<int> split = split_in_words(cell);
    if (split) splits.insert(*split);
    are_names &= split.has_value();
    are_flags &= std::ranges::count(flags, lower_ascii(cell)) > 0;
  }
  return are_flags || (are_names && splits.size() > 1);
}

}  // namespace

std::size_t different_cells(const Table& table, std::int64_t column, std::size_t most) {
  std::unordered_set<std::string_view> different;
  for (std::int64_t row = 0; row < table.rows() && different.size() <= most; ++row)
    if (const std::string_view cell = table.raw(row, column); !cell.empty()) different.insert(cell);
  return different.size();
}

bool has_classes(const Table& table, std::int64_t column) {
  const std::size_t different = different_cells(table, column, most_classes);
  return different >= 2 && different <= most_classes &&
         2 * static_cast<std::int64_t>(different) <= table.columns()[column].found();
}

bool is_label_name(std::string_view name) {
  return std::ranges::find(label_names, lower_ascii(name)) != std::end(label_names);
}

std::int64_t find_label_column(const Table& table, const std::vector<std::int64_t>& others,
                               const char* option) {
  std::vector<std::int64_t> all, named, candidates, plurals;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    if (std::ranges::find(others, column) != others.end()) continue;
    all.push_back(column);
    if (!may_be_label(table, column)) continue;
    if (is_named(table, column, label_names) && !names_each_row(table, column))
      named.push_back(column);
    if (!has_classes(table, column)) continue;
    candidates.push_back(column);
    if (is_named(table, column, plural_names)) plurals.push_back(column);
  }
  for (const auto& found : {named, plurals, candidates})
    if (found.size() == 1)
      return found.front();
    else if (!found.empty())
      throw OptionError(option, fmt::format("{}: several columns may have the labels: {}",
                                            table.path(), with_counts(table, found)));
  throw OptionError(
      option,
      fmt::format("{}: no column is named label, class, target, category or sentiment, or "
                  "has 2 to {} different values that recur; found {}",
                  table.path(), most_classes,
                  all.empty() ? "no other column (a language model reads texts alone, in a *.txt)"
                              : with_counts(table, all)));
}

std::optional<std::int64_t> find_split_column(const Table& table) {
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (is_named(table, column, std::array{"split"}))
      for (std::int64_t row = 0; row < table.rows(); ++row)
        if (split_named(table.raw(row, column))) return column;
  return std::nullopt;
}

void add_split_remark(std::vector<std::string>& remarks, const Table& table,
                      const std::vector<std::int64_t>& others) {
  if (find_split_column(table)) return;
  for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j)
    if (std::ranges::count(others, j) == 0 && may_divide(table, j))
      remarks.push_back(
          fmt::format("column {} may divide the rows into splits, but only one named split, with "
                      "train, validation and test, does",
                      shown(table.columns()[j].name)));
}

namespace {

// Returns whether -1 among the labels means that there is none; see rows_without_label().
bool is_unlabeled_minus_one(const Table& table, std::int64_t column,
                            const std::vector<std::string>& classes) {
  std::set<double> others;
  std::optional<std::int64_t> first;
  const auto add = [&](const std::optional<double>& number) {
    if (!number || *number < 0 || *number != std::floor(*number)) return false;
    others.insert(*number);
    return true;
  };
  for (const std::string& name : classes)
    if (!add(number_in(name, table.options()))) return false;
  if (!classes.empty()) return true;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (table.is_missing(row, column)) continue;
    const auto number = number_in(table.raw(row, column), table.options());
    if (number != -1 && !add(number)) return false;
    if (number == -1 && !first) first = row;
  }
  if (!first || others.size() < 2) return false;
  expect_option(others != std::set<double>{0, 1}, "class_names",
                "{}: -1 beside 0 and 1 may be a class, or mean that there is no label",
                table.place(*first, column));
  return true;
}

}  // namespace

std::vector<bool> rows_without_label(const Table& table, std::int64_t column,
                                     const std::vector<std::string>& classes) {
  const bool are_numbers = table.columns()[column].kind == ColumnKind::numbers,
             leaves_out_minus_one = are_numbers && is_unlabeled_minus_one(table, column, classes);
  std::vector<bool> without;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const std::string_view cell = table.raw(row, column);
    without.push_back(cell.empty() || (are_numbers && table.is_missing(row, column)) ||
                      (leaves_out_minus_one && number_in(cell, table.options()) == -1));
  }
  return without;
}

NumberNames::NumberNames(const Table& table, std::int64_t column,
                         const std::vector<std::string>& classes)
    : table_(table) {
  if (table.columns()[column].kind != ColumnKind::numbers) return;
  for (const std::string& name : classes)
    if (const auto number = number_in(name, table.options());
        number && !names_.emplace(*number, name).second) {
      names_.clear();
      return;
    }
  const std::size_t given = names_.size();
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const std::string cell(table.raw(row, column));
    const auto number = number_in(cell, table.options());
    if (!number) continue;
    const auto [found, is_new] = names_.emplace(*number, cell);
    std::string& name = found->second;
    if (name == cell) continue;
    if (remark.empty()) remark = fmt::format("labels {} and {} are one class", name, cell);
    if (given == 0 && std::pair(cell.size(), cell) < std::pair(name.size(), name)) name = cell;
  }
}

std::vector<std::string> NumberNames::all() const {
  std::vector<std::string> all;
  for (const auto& [number, name] : names_) all.push_back(name);
  return all;
}

std::string NumberNames::name_of(const std::string& label) const {
  const auto number = names_.empty() ? std::nullopt : number_in(label, table_.options());
  return number ? names_.at(*number) : label;
}

}  // namespace tapestry
