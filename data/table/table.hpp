#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/table/numbers.hpp"
#include "data/table/records.hpp"
#include "data/table/times.hpp"

namespace tapestry {

enum class Header { detected, present, absent };

// How a table is written. What is `detected` or empty is judged on all rows.
struct TableOptions : NumberFormat {
  char delimiter = detected;  // ',', ';', '|' or a tab
  Header header = Header::detected;
  bool has_objects = false;  // the file is JSONL, whose fields are the columns
};

enum class ColumnKind { empty, numbers, times, times_of_day, texts };

// A column, judged on all of its cells.
struct TableColumn {
  std::string name{};
  ColumnKind kind = ColumnKind::empty;
  NumberCounts counts{};
  std::vector<TimeFormat> formats{};  // in which all of its times are written
  std::int64_t missing() const { return counts.missing; }
  std::int64_t found() const { return counts.numbers + counts.texts; }
};

// Returns whether a path ends as that of a table does: .csv or .tsv, in any case, or a gzip of it.
bool has_csv_ending(const std::string& path);
bool has_table_ending(const std::string& path);

// A table in a file: its dialect, header, and the kinds of its columns. Rows are counted from 0,
// without the header.
class Table {
 public:
  // Throws InputError as Records does, for numbers whose marks contradict each other, and for a
  // header without columns; OptionError of "thousands" and "header" for what can be read in two
  // ways.
  explicit Table(const std::string& path, const TableOptions& given = {});

  const std::string& path() const { return records_.path(); }
  const TableOptions& options() const { return options_; }  // all decided
  std::int64_t rows() const { return records_.size() - first_; }
  const std::vector<TableColumn>& columns() const { return columns_; }
  std::vector<std::string> names() const;
  // Returns whether the rows have one cell more than the header, which comes first (as R writes).
  bool has_row_names() const { return records_.has_row_names(); }

  // Returns the index of a column. Throws OptionError of `option` if none has the name.
  std::int64_t column_named(const std::string& name, const char* option) const;
  std::optional<std::int64_t> find(std::string_view name) const;

  std::string_view raw(std::int64_t row, std::int64_t column) const {
    return records_.raw(row + first_, column);
  }
  std::string text(std::int64_t row, std::int64_t column) const {
    return records_.text(row + first_, column);
  }
  bool is_quoted(std::int64_t row, std::int64_t column) const {
    return records_.is_quoted(row + first_, column);
  }
  bool is_missing(std::int64_t row, std::int64_t column) const;
  // Returns the number in a cell; nothing if it is missing. Throws OptionError of "missing_words"
  // with the line for any other text. `single`: as number_in().
  std::optional<double> number(std::int64_t row, std::int64_t column, bool single = false) const;

  // Returns "numbers, 3 missing, 1.5 to 9.2", or "texts, 4 different". `missing`: for each row,
  // whether its cell is missing; null: by is_missing().
  std::string summary(std::int64_t column, const std::vector<bool>* missing = nullptr) const;

  // Throws InputError unless all or none of a column's numbers have one unit.
  void expect_one_unit(std::int64_t column) const;
  // Throws InputError for a last row with sums, which one of its cells, or this one, says.
  void expect_no_totals(std::optional<std::int64_t> of = std::nullopt) const;

  FileLine line(std::int64_t row) const { return records_.line(row + first_); }
  // Returns where a cell stands, "FILE: line 12: column price".
  std::string place(std::int64_t row, std::int64_t column) const;
  // Returns what was left out or decided while reading, a sentence each.
  std::vector<std::string> remarks() const;

  // Returns the first row whose text in a column has a number in it, as "12.5 km" and "<0.01" have;
  // nothing if less than nine tenths of the cells are numbers or such texts.
  std::optional<std::int64_t> first_text_with_number(std::int64_t column) const;

 private:
  void judge(std::int64_t number, std::int64_t first);
  bool has_words_among_numbers(std::int64_t number, std::int64_t first) const;
  void expect_one_header() const;
  bool lacks_header() const;
  bool has_merged_cells(std::int64_t column) const;
  void name_columns();

  Records records_;
  TableOptions options_;
  std::int64_t first_ = 1;  // the record of the first row
  std::vector<TableColumn> columns_;
};

// Returns what to do about a text with a number in it, and that it is one.
std::string read_as_text(std::string_view cell);

// Returns whether half of the columns of a table or more have numbers or times, or numbers whose
// marks can be read in two ways. A file that is no table has none.
bool is_table_of_numbers(const std::string& path);

// Returns the columns in "NAME" or "NAME + NAME". Throws OptionError of `option` if there are none
// of these names.
std::vector<std::int64_t> columns_named(const Table& table, const std::string& names,
                                        const char* option);
// Returns such a text.
std::string joined_names(const Table& table, const std::vector<std::int64_t>& columns);

// Throws OptionError of "time_format" for a column whose times can be read in several formats.
[[noreturn]] void throw_undecided_format(const Table& table, std::int64_t column);

// Returns the index of a column without a header by its name: "column 3" is 2; 0 for other names.
std::int64_t index_of_unnamed(std::string_view name);

// Returns whether the integers of a column count its rows: 0, 1, 2 … or 1, 2, 3 …
bool are_row_numbers(const Table& table, std::int64_t column);
// Returns whether the numbers of a column strictly ascend.
bool strictly_ascends(const Table& table, std::int64_t column);
// Returns whether a column counts the rows, or ascends and is named as programs name such a column:
// index, Unnamed: 0, or not at all. It is left out. In a few rows 1, 2, 3 may be measured.
bool is_row_index(const Table& table, std::int64_t column);
// Returns whether a column has integers of which none recurs.
bool may_be_ids(const Table& table, std::int64_t column);

// A column of a table, and what it is taken for: "series, 3 missing, 1.5 to 9.2".
struct ColumnUse {
  std::string name{}, use{};
};

}  // namespace tapestry
