#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/table/table.hpp"

// Which column of a table has the labels of its rows, and which one their splits.
namespace tapestry {

inline constexpr std::size_t most_classes = 1000;

// Returns the number of different cells of a column that are not empty; most + 1 if there are more.
std::size_t different_cells(const Table& table, std::int64_t column, std::size_t most);

// Returns whether a column has 2 to most_classes different values, each twice on average.
bool has_classes(const Table& table, std::int64_t column);

// Returns whether a column of this name has labels.
bool is_label_name(std::string_view name);

// Returns the column of the labels: the only one that is named label, class, target, category or
// sentiment in any case; else the only one with 2 to most_classes different values, each of which
// occurs twice on average. A plural of these names decides between several of those. Row numbers,
// times, the column `split` and those of `others` are none. Throws OptionError of `option`, with
// the names of the columns and their numbers of values, if there is none or more than one.
std::int64_t find_label_column(const Table& table, const std::vector<std::int64_t>& others,
                               const char* option);

// Returns the column that is named split, in any case, and has names of splits.
std::optional<std::int64_t> find_split_column(const Table& table);

// Adds a remark on a column, except `others`, that may divide the rows into splits, if none is
// named split: its cells are names of splits, as in "PublicTest", or flags below a name such as
// is_test.
void add_split_remark(std::vector<std::string>& remarks, const Table& table,
                      const std::vector<std::int64_t>& others);

// Returns for each row whether it has no label: the cell is empty or, among numbers, stands for a
// missing one; or it is -1, and all others are two or more integers from 0 on. `classes` are those
// of the labels, if they are known. Throws OptionError of "class_names" if all labels are -1, 0 and
// 1, because -1 may be a class then.
std::vector<bool> rows_without_label(const Table& table, std::int64_t column,
                                     const std::vector<std::string>& classes);

// The names of classes that are numbers: equal ones that are written differently, such as 1 and
// 1.0, are one class, with a name of `classes`, or the shortest. If `classes` has both, they are
// two.
class NumberNames {
 public:
  NumberNames(const Table& table, std::int64_t column, const std::vector<std::string>& classes);

  std::string remark{};  // on the first such class

  // Returns the names of all classes that are numbers.
  std::vector<std::string> all() const;
  // Returns the name of the class of a cell of the column.
  std::string name_of(const std::string& label) const;

 private:
  const Table& table_;
  std::map<double, std::string> names_{};
};

}  // namespace tapestry
