#include "data/table/table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <unordered_set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/parallel.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

constexpr const char* joint = " + ";             // between the names of several columns
constexpr std::string_view unnamed = "column ";  // before the number of a column without a name

// How many of a column's cells are times, by each format that one of the first cells has.
class TimeCounts {
 public:
  void add(std::string_view cell, std::int64_t record) {
    if (is_given_up_) return;
    ++cells_;
    bool found = count(cell);
    if (!found && misses_ < most_misses) {
      for (TimeFormat& format : time_formats_of(cell)) {
        found = true;
        std::int64_t before = 0;  // cells with a date alone, which this format reads, too
        for (const auto& [shorter, times] : tries_)
          if (format.text().starts_with(shorter.text())) before = std::max(before, times);
        tries_.push_back({std::move(format), before + 1});
      }
      misses_ += !found;
    }
    found_ += found;
    if (!found && first_miss_ == NumberCounts::none) first_miss_ = record;
    of_day_ += time_of_day_is_complete(cell);
    is_given_up_ = cells_ == 2 * most_misses && found_ < most_misses && of_day_ < most_misses;
  }

  // Sets the kind and the formats of a column whose cells are times; also where a few of its cells
  // are not, so that their line can be named.
  void judge(TableColumn& column) const {
    if (is_given_up_ || cells_ == 0) return;
    if (of_day_ == cells_ && found_ < cells_) column.kind = ColumnKind::times_of_day;
    const bool are_most = found_ * 20 >= cells_ * 19 || (found_ >= 2 && found_ + 1 == cells_);
    if (found_ == 0 || !are_most) return;
    column.kind = ColumnKind::times;
    for (const auto& [format, times] : tries_)
      if (times == cells_) column.formats.push_back(format);
  }

 private:
  static constexpr std::int64_t most_misses = 20;

  static bool time_of_day_is_complete(std::string_view cell) {
    return cell.find_first_of(":.") != cell.npos && cell.size() <= 15 && time_of_day(cell);
  }

  bool count(std::string_view cell) {
    bool found = false;
    for (auto& [format, times] : tries_)
      if (format.parse(cell)) {
        ++times;
        found = true;
      }
    return found;
  }

  struct Try {
    TimeFormat format;
    std::int64_t times;
  };
  std::vector<Try> tries_{};
  std::int64_t cells_ = 0, found_ = 0, misses_ = 0, of_day_ = 0, first_miss_ = NumberCounts::none;
  bool is_given_up_ = false;
};

bool fits(std::string_view cell, const TableColumn& column) {
  const bool is_number = column.kind == ColumnKind::numbers;
  if (is_number) {
    NumberCounts one;
    one.add(cell, 0, {});
    return one.numbers == 1;
  }
  if (column.kind == ColumnKind::times_of_day) return time_of_day(cell).has_value();
  return std::ranges::any_of(
      column.formats, [&](const TimeFormat& format) { return format.parse(cell).has_value(); });
}

bool is_typed(const TableColumn& column) {
  return column.kind == ColumnKind::numbers || column.kind == ColumnKind::times ||
         column.kind == ColumnKind::times_of_day;
}

}  // namespace

bool has_csv_ending(const std::string& path) {
  const std::string lower = lower_ascii(path);
  return lower.ends_with(".csv") || lower.ends_with(".csv.gz");
}

bool has_table_ending(const std::string& path) {
  const std::string lower = lower_ascii(path);
  return has_csv_ending(path) || lower.ends_with(".tsv") || lower.ends_with(".tsv.gz");
}

Table::Table(const std::string& path, const TableOptions& given)
    : records_(path, given.delimiter, given.has_objects),
      options_(given),
      columns_(records_.columns()) {
  if (given.has_objects) options_.header = Header::present;
  options_.delimiter = records_.delimiter();
  const DryRun none(false);  // a dry run judges the columns, too
  parallel_for(records_.columns(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column) judge(column, 1);
  });
  if (options_.header == Header::detected)
    options_.header =
        records_.has_row_names() || !lacks_header() ? Header::present : Header::absent;
  if (options_.header == Header::absent) {
    first_ = 0;
    for (std::int64_t column = 0; column < records_.columns(); ++column)
      if (columns_[column].found() == 0)
        judge(column, 0);
      else
        columns_[column].counts.add(records_.raw(0, column), 0, options_.missing_words);
  }
  expect_input(rows() > 0, "{}: has a header alone; expected rows below it", path);
  name_columns();
  expect_one_header();
  std::vector<NumberCounts> counts;
  for (const TableColumn& column : columns_) {
    counts.push_back(column.counts);
    if (column.kind != ColumnKind::numbers) counts.back().numbers = 0;
  }
  choose_marks(options_, records_, counts, names());
}

// Counts the cells of a column from a record on, and sets its kind.
void Table::judge(std::int64_t number, std::int64_t first) {
  TableColumn& column = columns_[number];
  column.counts = {};
  TimeCounts times;
  for (std::int64_t record = first; record < records_.size(); ++record) {
    const std::string_view cell = records_.raw(record, number);
    const std::int64_t texts = column.counts.texts;
    column.counts.add(cell, record, options_.missing_words);
    if (column.counts.texts > texts) times.add(cell, record);
  }
  const NumberCounts& counts = column.counts;
  // One text above or below numbers is a unit or a sum: a flaw, which number() names.
  const bool is_flawed = counts.texts == 1 && counts.numbers >= 2 &&
                         (counts.first_text == 1 || counts.first_text == records_.size() - 1);
  if (column.found() == 0) return;
  const bool are_numbers =
      counts.is_numeric() || is_flawed || has_words_among_numbers(number, first);
  column.kind = are_numbers ? ColumnKind::numbers : ColumnKind::texts;
  if (counts.texts > counts.numbers) times.judge(column);
}

// Returns whether many different numbers and a few words, such as ":" or "unavailable", are the
// cells of a column. The words are a flaw, which number() names.
bool Table::has_words_among_numbers(std::int64_t number, std::int64_t first) const {
  constexpr std::size_t few_words = 3, many_numbers = 16;
  const NumberCounts& counts = columns_[number].counts;
  if (counts.texts == 0 || counts.numbers < counts.texts) return false;
  std::unordered_set<std::string_view> words, numbers;
  for (std::int64_t record = first; record < records_.size(); ++record) {
    const std::string_view cell = records_.raw(record, number);
    NumberCounts one;
    one.add(cell, record, options_.missing_words);
    if (one.texts > 0) words.insert(cell);
    if (words.size() > few_words) return false;
    if (one.numbers > 0 && numbers.size() < many_numbers) numbers.insert(cell);
  }
  return numbers.size() == many_numbers;
}

// Throws InputError for a title in place of the names of the columns, and for a row that repeats
// these, as joined files have.
void Table::expect_one_header() const {
  if (first_ == 0 || records_.columns() < 2 || options_.has_objects) return;
  std::int64_t named = 0;
  for (std::int64_t column = 0; column < records_.columns(); ++column)
    named += !records_.raw(0, column).empty();
  if (named == 1 && records_.columns() > 2)
    records_.line(0).fail(
        "has one cell, as a title has; remove the lines above the names of the "
        "columns");
  for (std::int64_t record = 1; record < records_.size(); ++record) {
    std::int64_t equal = 0;
    while (equal < records_.columns() && records_.raw(record, equal) == records_.raw(0, equal))
      ++equal;
    if (equal == records_.columns())
      records_.line(record).fail("repeats the names of the columns; remove this line");
  }
}

// Returns whether the first record is a row. Throws OptionError of "header" if it may be either.
bool Table::lacks_header() const {
  if (records_.size() < 2) return false;
  std::vector<double> numbers;
  bool has_typed = false, all_texts = true, recurs = false;
  for (std::int64_t column = 0; column < records_.columns(); ++column) {
    const TableColumn& below = columns_[column];
    const std::string_view cell = records_.raw(0, column);
    const bool is_blank = tapestry::is_missing(cell, options_.missing_words);
    if (column == 0 && cell.empty() && below.found() > 0 && below.missing() == 0)
      return false;  // the names of the rows have no name, as pandas writes them
    all_texts &= below.kind == ColumnKind::texts;
    if (below.kind == ColumnKind::texts && !is_blank && !recurs)
      for (std::int64_t record = 1; record < records_.size() && !recurs; ++record)
        recurs = records_.raw(record, column) == cell;
    if (!is_typed(below) || is_blank) continue;
    if (!fits(cell, below)) return false;
    has_typed = true;
    if (const auto number = number_in(cell, {})) numbers.push_back(*number);
  }
  const auto follows = [](double a, double b) { return b == a + 1; };
  expect_option(numbers.size() < 3 ||
                    std::ranges::adjacent_find(numbers, std::not_fn(follows)) != numbers.end(),
                "header", "{}: line {}: {} to {} may be the names of columns, or numbers", path(),
                records_.line(0).number, numbers.empty() ? 0 : numbers.front(),
                numbers.empty() ? 0 : numbers.back());
  return has_typed || (all_texts && recurs);
}

void Table::name_columns() {
  const auto count = records_.columns();
  for (std::int64_t column = 0; column < count; ++column) {
    std::string& name = columns_[column].name;
    if (first_ == 1) name = records_.text(0, column);
    if (name.empty())
      name = column == 0 && count > 1 && first_ == 1 ? index_column
                                                     : fmt::format("{}{}", unnamed, column + 1);
  }
}

std::vector<std::string> Table::names() const {
  std::vector<std::string> all;
  for (const TableColumn& column : columns_) all.push_back(column.name);
  return all;
}

std::optional<std::int64_t> Table::find(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &TableColumn::name);
  return found == columns_.end() ? std::nullopt : std::optional(found - columns_.begin());
}

std::int64_t Table::column_named(const std::string& name, const char* option) const {
  const auto found = find(name);
  expect_option(found.has_value(), option, "{}: line {}: no column is named {}; expected one of {}",
                path(), records_.line(0).number, shown(name), list_briefly(names()));
  return *found;
}

bool Table::is_missing(std::int64_t row, std::int64_t column) const {
  return tapestry::is_missing(raw(row, column), options_.missing_words);
}

std::optional<double> Table::number(std::int64_t row, std::int64_t column, bool single) const {
  const std::string_view cell = raw(row, column);
  if (!options_.missing_words.empty() && is_missing(row, column)) return std::nullopt;
  if (const auto value = number_in(cell, options_, single)) return value;
  if (tapestry::is_missing(cell)) return std::nullopt;
  throw OptionError(
      "missing_words",
      fmt::format("{}: \"{}\" is not a number{}", place(row, column), shown(cell),
                  columns_[column].counts.first_text == row + first_
                      ? fmt::format("; {} of the {} cells are", columns_[column].counts.numbers,
                                    columns_[column].found())
                      : ""));
}

std::string Table::place(std::int64_t row, std::int64_t column) const {
  return fmt::format("{}: line {}: column {}", path(), line(row).number,
                     shown(columns_[column].name));
}

std::string Table::summary(std::int64_t number, const std::vector<bool>* missing) const {
  constexpr const char* kinds[] = {"empty", "numbers", "times", "times of day", "texts"};
  const TableColumn& column = columns_[number];
  const auto has_cell = [&](std::int64_t row) {
    return missing ? !(*missing)[row] : !is_missing(row, number);
  };
  const std::int64_t count = missing ? std::ranges::count(*missing, true) : column.missing();
  std::string text = kinds[static_cast<int>(column.kind)];
  if (count > 0) text += fmt::format(", {} missing", count);
  if (column.kind != ColumnKind::numbers) {
    std::unordered_set<std::string_view> different;
    for (std::int64_t row = 0; row < rows(); ++row)
      if (has_cell(row)) different.insert(raw(row, number));
    return text + fmt::format(", {} different", different.size());
  }
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::int64_t row = 0; row < rows(); ++row)
    if (const auto value = number_in(raw(row, number), options_); value && has_cell(row)) {
      least = std::min(least, *value);
      most = std::max(most, *value);
    }
  return text + fmt::format(", {:.10g} to {:.10g}", least, most);
}

void Table::expect_one_unit(std::int64_t column) const {
  const NumberCounts& counts = columns_[column].counts;
  if (counts.with_unit == 0) return;
  for (const std::int64_t record : {counts.first_without_unit, counts.first_with_other_unit})
    if (record != NumberCounts::none)
      throw InputError(
          fmt::format("{}: \"{}\" has another unit than {}, which {} have; write all "
                      "of them in one unit",
                      place(record - first_, column), shown(records_.raw(record, column)),
                      counts.unit, counted(counts.with_unit, "number")));
}

void Table::expect_no_totals(std::optional<std::int64_t> of) const {
  constexpr std::string_view words[] = {"total", "totals", "sum",         "average",
                                        "mean",  "avg",    "grand total", "subtotal"};
  const std::int64_t last = rows() - 1;
  for (std::int64_t column = of.value_or(0); column < (of ? *of + 1 : std::ssize(columns_));
       ++column) {
    std::string cell = text(last, column);
    std::ranges::transform(cell, cell.begin(), [](unsigned char c) { return std::tolower(c); });
    while (cell.ends_with(':')) cell.pop_back();
    std::int64_t row = 0;  // with the same cell: a category
    while (raw(row, column) != raw(last, column)) ++row;
    if (row == last && std::ranges::find(words, cell) != std::end(words))
      line(last).fail(
          fmt::format("\"{}\" is a row about the others; remove it", shown(raw(last, column))));
  }
}

std::optional<std::int64_t> Table::first_text_with_number(std::int64_t column) const {
  constexpr std::string_view digits = "0123456789";
  constexpr std::size_t longest_sign = 4, longest_unit = 10;  // before and after a number
  constexpr std::size_t longest_cell = 100;
  std::optional<std::int64_t> first;
  std::int64_t found = 0, with_number = 0;
  const auto is_number = [](std::string_view text) {  // by any marks
    NumberCounts one;
    one.add(text, 0, {});
    return one.numbers == 1;
  };
  for (std::int64_t row = 0; row < rows() && (found - with_number) * 10 <= rows(); ++row) {
    if (is_missing(row, column)) continue;
    ++found;
    if (raw(row, column).size() > longest_cell) continue;
    std::string cell = with_ascii_digits(raw(row, column));
    if (cell.ends_with("m2") || cell.ends_with("m3")) cell.pop_back();  // 80 m2
    const std::size_t begin = cell.find_first_of(digits);
    if (begin > longest_sign) continue;
    const std::size_t end = cell.find_last_of(digits) + 1;
    // A letter before a number is a code, unless a space is between them: "C85", but "USD 85".
    const bool is_code = begin > 0 && std::isalpha(static_cast<unsigned char>(cell[begin - 1]));
    if (is_code || cell.size() - end > longest_unit ||
        !is_number(std::string_view(cell).substr(begin, end - begin)))
      continue;
    ++with_number;
    if (!first && !is_number(raw(row, column))) first = row;
  }
  return with_number * 10 >= found * 9 ? first : std::nullopt;
}

std::string read_as_text(std::string_view cell) {
  return fmt::format("\"{}\" is read as a text; write numbers alone{}", shown(cell),
                     with_ascii_digits(cell) == cell ? "" : ", with the digits 0 to 9");
}

bool is_table_of_numbers(const std::string& path) try {
  const Table table(path);
  const auto numeric = std::ranges::count_if(table.columns(), is_typed);
  return 2 * numeric >= std::ssize(table.columns());
} catch (const OptionError& error) {
  return error.option == "thousands";
} catch (const InputError&) {
  return false;
}

std::vector<std::string> Table::remarks() const {
  std::vector<std::string> all;
  if (records_.skipped_comments() > 0)
    all.push_back(fmt::format("{} with # before the header are left out",
                              counted(records_.skipped_comments(), "line")));
  if (records_.has_more_fields()) all.emplace_back("fields after the first 1000 are left out");
  if (options_.header == Header::absent)
    all.emplace_back("there is no header: columns are numbered");
  for (std::int64_t j = 0; j < std::ssize(columns_); ++j) {
    const auto& [name, kind, counts, formats] = columns_[j];
    const auto remark = [&](const std::string& what) {
      all.push_back(fmt::format("column {}: {}", shown(name), what));
    };
    if (kind == ColumnKind::numbers && counts.with_unit > 0)
      remark(fmt::format("the sign {} is left out", counts.unit));
    if (kind == ColumnKind::numbers && counts.first_code != NumberCounts::none &&
        counts.point.first_decimal == NumberCounts::none)
      remark(fmt::format("\"{}\" is read as a number with an exponent",
                         shown(records_.raw(counts.first_code, j))));
    if (has_merged_cells(j))
      remark("each text stands above empty cells; if they were merged, repeat it in them");
  }
  return all;
}

// Returns whether a column of texts begins with one, another one follows each, and about as many
// empty cells are below each.
bool Table::has_merged_cells(std::int64_t column) const {
  if (columns_[column].kind != ColumnKind::texts || raw(0, column).empty()) return false;
  constexpr std::size_t least_texts = 3;
  std::vector<std::int64_t> lengths;  // of a text and the empty cells below it
  std::string_view last;
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::string_view cell = raw(row, column);
    if (cell == last) return false;
    if (cell.empty()) {
      ++lengths.back();
    } else {
      lengths.push_back(1);
      last = cell;
    }
  }
  const auto [least, most] = std::ranges::minmax(lengths);
  return lengths.size() >= least_texts && least >= 2 && most <= 2 * least;
}

std::vector<std::int64_t> columns_named(const Table& table, const std::string& names,
                                        const char* option) {
  if (const auto column = table.find(names)) return {*column};
  std::vector<std::int64_t> columns;
  std::string_view rest = names;
  for (std::size_t end = 0; end != rest.npos;) {
    end = rest.find(joint);
    columns.push_back(table.column_named(std::string(rest.substr(0, end)), option));
    if (end != rest.npos) rest.remove_prefix(end + std::string_view(joint).size());
  }
  return columns;
}

std::string joined_names(const Table& table, const std::vector<std::int64_t>& columns) {
  std::string names;
  for (const std::int64_t column : columns)
    names += (names.empty() ? "" : joint) + table.columns()[column].name;
  return names;
}

namespace {

// Returns whether all cells of a column are numbers.
bool has_only_numbers(const Table& table, std::int64_t column) {
  const TableColumn& one = table.columns()[column];
  return one.kind == ColumnKind::numbers && one.missing() == 0 && one.counts.texts == 0;
}

}  // namespace

std::int64_t index_of_unnamed(std::string_view name) {
  if (!name.starts_with(unnamed)) return 0;
  return parse_number<std::int64_t>(name.substr(unnamed.size())).value_or(1) - 1;
}

void throw_undecided_format(const Table& table, std::int64_t column) {
  const TableColumn& times = table.columns()[column];
  std::int64_t row = 0;
  while (table.is_missing(row, column)) ++row;
  std::vector<std::string> names;
  for (const TimeFormat& format : times.formats) names.push_back('"' + format.text() + '"');
  throw OptionError(
      "time_format",
      fmt::format("{}: column {}: \"{}\" is a time in the formats {}", table.path(),
                  shown(times.name), shown(table.raw(row, column)), fmt::join(names, " and ")));
}

bool are_row_numbers(const Table& table, std::int64_t column) {
  if (!table.columns()[column].counts.are_integers || !has_only_numbers(table, column))
    return false;
  const auto number = [&](std::int64_t row) {
    return number_in(table.raw(row, column), table.options());
  };
  const auto first = number(0);
  if (first != 0 && first != 1) return false;
  for (std::int64_t row = 1; row < table.rows(); ++row)
    if (number(row) != *first + static_cast<double>(row)) return false;
  return true;
}

bool strictly_ascends(const Table& table, std::int64_t column) {
  if (!has_only_numbers(table, column)) return false;
  const auto number = [&](std::int64_t row) {
    return number_in(table.raw(row, column), table.options());
  };
  for (std::int64_t row = 1; row < table.rows(); ++row)
    if (!(number(row) > number(row - 1))) return false;
  return true;
}

bool is_row_index(const Table& table, std::int64_t column) {
  constexpr std::int64_t least_rows = 8;
  const std::string& name = table.columns()[column].name;
  if (table.rows() >= least_rows && are_row_numbers(table, column)) return true;
  return (name == index_column || name == "index" || name == "Unnamed: 0") &&
         strictly_ascends(table, column);
}

bool may_be_ids(const Table& table, std::int64_t column) {
  if (!table.columns()[column].counts.are_integers) return false;
  std::unordered_set<std::string_view> cells;
  for (std::int64_t row = 0; row < table.rows(); ++row)
    if (!cells.insert(table.raw(row, column)).second) return false;
  return true;
}

}  // namespace tapestry
