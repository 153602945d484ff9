#include "data/text/labeled_table.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/table/label_column.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

// The columns of a table, by their use.
struct Columns {
  std::int64_t text = 0, label = 0;
  std::int64_t split = -1;  // -1: there is none
  bool are_named = true;    // else they were found by their cells
};

std::shared_ptr<const Table> open(const std::string& path, const LabeledTextOptions& options,
                                  Header header) {
  TableOptions form;
  form.decimal = '.';  // numbers of labeled texts are names: their marks are not decided
  form.thousands = no_mark;
  form.header = header;
  form.delimiter = options.delimiter;
  form.has_objects = options.format == LabeledFormat::jsonl;
  if (form.delimiter == detected && options.format == LabeledFormat::tsv) form.delimiter = '\t';
  auto table = std::make_shared<const Table>(path, form);
  const auto count = std::ssize(table->columns());
  const bool is_tried = header == Header::absent && options.header == Header::detected;
  if (table->has_row_names() && (options.rules == 1 || (!is_tried && !is_row_index(*table, 0))))
    table->line(header == Header::absent ? 1 : 0)
        .fail(fmt::format("has {} columns, expected {}; {}", count, count - 1,
                          table->options().delimiter == '\t'
                              ? "remove tabs in the text"
                              : "write a text with commas in quotes"));
  return table;
}

// Returns whether a character is of a script that has no spaces between words: Thai to Burmese,
// Khmer, Chinese and Japanese.
bool is_of_unspaced_script(char32_t character) {
  constexpr std::pair<char32_t, char32_t> scripts[] = {
      {0x0E00, 0x0EFF}, {0x1000, 0x109F}, {0x1780, 0x17FF},  {0x3040, 0x30FF},
      {0x3400, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x3FFFF}};
  return kind_of(character) == CharacterKind::letter &&
         std::ranges::any_of(scripts, [&](const auto& script) {
           return script.first <= character && character <= script.second;
         });
}

// Returns whether a text has words with spaces between them, of more letters than digits, or more
// than four letters of a script without spaces. Times and numbers have neither.
bool has_words(std::string_view text) {
  constexpr int most_of_a_name = 4;
  constexpr std::size_t most_bytes = 256;
  text = trimmed(text).substr(0, most_bytes);
  int letters = 0, digits = 0, unspaced = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += std::max(point.bytes, 1);
    letters += point.value >= 128 || std::isalpha(static_cast<unsigned char>(point.value));
    digits += point.value >= '0' && point.value <= '9';
    unspaced += point.value >= 128 && is_of_unspaced_script(point.value);
  }
  const bool has_space = text.find(' ') != text.npos;
  return unspaced > most_of_a_name || (has_space && letters > std::max(digits, 1));
}

// Returns whether most cells of a column begin with a letter or have more letters than digits, and
// are no quantities, such as "12.5 km", and no paths of pictures.
bool may_have_texts(const Table& table, std::int64_t column) {
  const auto is_letter = [](unsigned char c) { return c >= 128 || std::isalpha(c); };
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    const std::string cell = lower_ascii(table.raw(row, column));
    const auto letters = std::ranges::count_if(cell, is_letter);
    const auto digits = std::ranges::count_if(cell, [](char c) { return c >= '0' && c <= '9'; });
    const bool is_picture = std::ranges::any_of(
        std::array{".png", ".jpg", ".jpeg"}, [&](const char* end) { return cell.ends_with(end); });
    count += !is_picture && (letters > digits || (!cell.empty() && is_letter(cell.front())));
  }
  return 2 * count > table.rows() && !table.first_text_with_number(column);
}

// Returns whether a column has identifiers, by the last word of its name: id, image_id or imageID.
bool is_named_as_id(const Table& table, std::int64_t column) {
  std::string_view name = table.columns()[column].name;
  if (!lower_ascii(name).ends_with("id")) return false;
  const bool is_upper = std::isupper(static_cast<unsigned char>(name[name.size() - 2]));
  name.remove_suffix(2);
  const unsigned char last = name.empty() ? ' ' : name.back();
  return !std::isalpha(last) || (is_upper && std::islower(last));
}

// Returns the column that is named text or, of those with several words in most cells, the longest;
// nothing if there is none. Columns that may have labels are found only if all do. Throws
// OptionError if another one is at least half as long.
std::optional<std::int64_t> find_text_column(const Table& table,
                                             const std::vector<std::int64_t>& others) {
  std::vector<std::pair<std::size_t, std::int64_t>> found;  // with their bytes
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    if (std::ranges::find(others, column) != others.end()) continue;
    if (lower_ascii(table.columns()[column].name) == "text") return column;
    if (table.columns()[column].kind != ColumnKind::texts || table.first_text_with_number(column))
      continue;
    std::size_t bytes = 0;
    std::int64_t with_words = 0;
    for (std::int64_t row = 0; row < table.rows(); ++row) {
      const std::string_view cell = table.raw(row, column);
      bytes += cell.size();
      with_words += has_words(cell);
    }
    if (2 * with_words >= table.rows()) found.emplace_back(bytes, column);
  }
  if (found.empty()) return std::nullopt;
  const auto may_be_label = [&](const auto& one) { return has_classes(table, one.second); };
  if (!std::ranges::all_of(found, may_be_label)) std::erase_if(found, may_be_label);
  const auto longest =
      std::ranges::max_element(found, {}, [](const auto& one) { return one.first; });
  std::vector<std::string> names;
  for (const auto& [bytes, column] : found)
    if (2 * bytes >= longest->first) names.push_back(table.columns()[column].name);
  expect_option(names.size() == 1, "text_field", "{}: several columns may have the texts: {}",
                printable(table.path()), printable(list_briefly(names)));
  return longest->second;
}

// Returns the column of the labels that the options name; nothing if they do not.
std::optional<std::int64_t> given_label(const Table& table, const LabeledTextOptions& options) {
  if (!options.label_field.empty()) return table.column_named(options.label_field, "label_field");
  if (options.label_column == 0 || table.options().has_objects) return std::nullopt;
  expect_option(options.label_column <= std::ssize(table.columns()), "label_column",
                "{}: the table has {} columns{}", printable(table.path()), table.columns().size(),
                table.options().header == Header::absent ? " and no header" : "");
  return options.label_column - 1;
}

// Returns the only column that may have the labels, if another one has texts; else nothing.
std::optional<std::int64_t> only_label(const Table& table, std::vector<std::int64_t> others,
                                       bool has_text) {
  std::int64_t label = 0;
  try {
    label = find_label_column(table, others, "label_field");
  } catch (const OptionError&) {
    return std::nullopt;
  }
  others.push_back(label);
  return has_text || find_text_column(table, others) ? std::optional(label) : std::nullopt;
}

// Returns the columns by the options, their names and their cells.
Columns find_columns(const Table& table, const LabeledTextOptions& options) {
  Columns columns{.split = find_split_column(table).value_or(-1)};
  std::vector<std::int64_t> others;
  if (columns.split >= 0) others.push_back(columns.split);
  std::optional<std::int64_t> text;
  if (!options.text_field.empty()) {
    text = table.column_named(options.text_field, "text_field");
    others.push_back(*text);
  }
  auto label = given_label(table, options);
  if (!label) label = only_label(table, others, text.has_value());
  if (label) others.push_back(*label);
  if (!text) text = find_text_column(table, others);
  const auto no_text = [&] {
    return OptionError("text_field",
                       fmt::format("{}: no column is named text or has several words; found {}",
                                   printable(table.path()), list_briefly(table.names())));
  };
  const bool has_two = std::ssize(table.columns()) == 2;
  if (!text && !has_two) throw no_text();
  if (text) others.push_back(*text);
  if (!label) try {
      label = find_label_column(table, others, "label_field");
    } catch (const OptionError&) {
      if (!text) throw no_text();
      throw;
    }
  const bool is_other = !text;  // that of the labels leaves one
  if (!text) text = 1 - *label;
  const ColumnKind kind = table.columns()[*text].kind;
  if ((is_other && (!may_have_texts(table, *text) || is_named_as_id(table, *text))) ||
      columns.split == *text || kind == ColumnKind::times || kind == ColumnKind::empty ||
      (table.rows() > 2 && is_row_index(table, *text)))
    throw no_text();
  expect_option(text != label, "text_field", "{}: column {} is that of the labels",
                printable(table.path()), shown(table.columns()[*text].name));
  columns.text = *text;
  columns.label = *label;
  columns.are_named = !options.text_field.empty() || !options.label_field.empty() ||
                      options.label_column > 0 || is_label_name(table.columns()[*label].name) ||
                      lower_ascii(table.columns()[*text].name) == "text";
  return columns;
}

// Throws OptionError if another column has the name of that of the texts or of the labels.
void expect_one_of_name(const Table& table, const Columns& columns) {
  const std::vector<std::string> names = table.names();
  for (const auto& [column, option] :
       {std::pair(columns.text, "text_field"), std::pair(columns.label, "label_field")})
    for (std::int64_t other = 0; other < std::ssize(names); ++other)
      expect_option(other == column || names[other] != names[column], option,
                    "{}: line {}: the columns {} and {} are both named {}", printable(table.path()),
                    table.line(0).number - 1, std::min(other, column) + 1,
                    std::max(other, column) + 1, shown(names[column]));
}

bool has_cell(const Table& table, const std::string& name) {
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (table.text(0, column) == name) return true;
  return false;
}

// --- tables whose header is known by the names of both columns ---

// Returns the column of a table of two without header that has fewer different cells, by rules 1.
std::int64_t column_of_fewer(const Table& table, const LabeledTextOptions& options) {
  if (options.label_column > 0) return *given_label(table, {.label_column = options.label_column});
  const auto different = [&](std::int64_t column) {
    return different_cells(table, column, static_cast<std::size_t>(table.rows()));
  };
  expect_option(different(0) != different(1), "label_column",
                "{}: each of the two columns has {} different values", printable(table.path()),
                different(0));
  const std::int64_t label = different(0) < different(1) ? 0 : 1;
  bool recurs = table.rows() < 20;  // fewer rows do not show a header
  for (std::int64_t row = 1; row < table.rows() && !recurs; ++row)
    recurs = table.raw(row, label) == table.raw(0, label);
  expect_option(recurs, "label_field",
                "{}: line {}: no other line has the label \"{}\"; if this line is a header, name "
                "its columns",
                printable(table.path()), table.line(0).number, shown(table.raw(0, label)));
  return label;
}

// Reads a table by rules 1, or as the one before. Its first row is a header if it has both names.
std::shared_ptr<const Table> read_as_named(const std::string& path,
                                           const LabeledTextOptions& options, Columns& columns,
                                           const std::optional<TableForm>& before) {
  const bool is_named = before && before->header == Header::present;
  const std::string text = is_named                     ? before->text_name
                           : options.text_field.empty() ? "text"
                                                        : options.text_field,
                    label = is_named                      ? before->label_name
                            : options.label_field.empty() ? "label"
                                                          : options.label_field;
  auto table = open(path, options, Header::absent);
  const bool has_text = has_cell(*table, text), has_label = has_cell(*table, label);
  const auto count = std::ssize(table->columns());
  if (has_text && has_label) {
    table = open(path, options, Header::present);
    columns = find_columns(*table, {.text_field = text, .label_field = label});
  } else if (before && before->columns == count) {
    columns = {.text = before->text, .label = before->label};
  } else if (!before && !has_text && !has_label && count == 2) {
    columns.label = column_of_fewer(*table, options);
    columns.text = 1 - columns.label;
  } else {
    std::vector<std::string> cells;
    for (std::int64_t column = 0; column < count; ++column) cells.push_back(table->text(0, column));
    throw OptionError(has_text ? "label_field" : "text_field",
                      fmt::format("{}: line {}: no column is named {}; found {}", printable(path),
                                  table->line(0).number, shown(has_text ? label : text),
                                  printable(list_briefly(cells))));
  }
  if (options.rules == 1) columns.split = -1;
  return table;
}

// --- tables whose header is found by their cells ---

std::shared_ptr<const Table> read_as_found(const std::string& path,
                                           const LabeledTextOptions& options, Columns& columns) {
  auto table = open(path, options, options.header);
  const bool is_open = options.header == Header::detected;
  if (is_open && table->options().header == Header::absent &&
      has_cell(*table, options.text_field.empty() ? "text" : options.text_field) &&
      has_cell(*table, options.label_field.empty() ? "label" : options.label_field))
    table = open(path, options, Header::present);  // a text below is the name of a column, too
  columns = find_columns(*table, options);
  expect_one_of_name(*table, columns);
  const std::string& name = table->columns()[columns.text].name;
  expect_option(!is_open || columns.are_named || table->options().header == Header::absent ||
                    !has_words(name),
                "header", "{}: line {}: \"{}\" may be the name of a column, or a text",
                printable(path), table->line(0).number - 1, shown(name));
  return table;
}

// --- JSONL ---

// Returns the names of the fields of a row, for messages.
std::string fields_of(const Table& table, std::int64_t row) {
  JsonValue names = JsonValue::object();
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column)
    if (table.is_quoted(row, column) || !table.raw(row, column).empty())
      names[table.columns()[column].name] = true;
  return member_names(names);
}

std::shared_ptr<const Table> read_objects(const std::string& path, LabeledTextOptions& options,
                                          Columns& columns) {
  const auto table = open(path, options, Header::present);
  const bool is_judged = options.rules > 1;
  if (!is_judged && options.text_field.empty()) options.text_field = "text";
  if (!is_judged && options.label_field.empty()) options.label_field = "label";
  const auto expect_field = [&](bool has_field, const std::string& name, const char* option,
                                std::int64_t row) {
    expect_option(has_field, option, "{}: line {}: the field {} is missing; found {}",
                  printable(path), table->line(row).number, brief(name), fields_of(*table, row));
  };
  for (const auto& [name, option] : {std::pair(&options.text_field, "text_field"),
                                     std::pair(&options.label_field, "label_field")})
    expect_field(name->empty() || table->find(*name), *name, option, 0);
  if (is_judged)
    columns = find_columns(*table, options);
  else
    columns = {.text = *table->find(options.text_field),
               .label = *table->find(options.label_field)};
  options.text_field = table->columns()[columns.text].name;
  options.label_field = table->columns()[columns.label].name;
  for (std::int64_t row = 0; row < table->rows(); ++row) {
    if (!table->is_quoted(row, columns.text)) {
      const std::string_view text = table->raw(row, columns.text);
      expect_field(!text.empty(), options.text_field, "text_field", row);
      table->line(row).fail(fmt::format("{} is {}; expected a text in quotes",
                                        brief(options.text_field), shown(text)));
    }
    const std::string_view label = table->raw(row, columns.label);
    table->line(row).expect(
        table->is_quoted(row, columns.label) || label == "true" || label == "false" ||
            label.find_first_not_of("-0123456789") == label.npos,
        "the label is {}; expected a text, an integer, true or false", shown(label));
  }
  return table;
}

// --- rows ---

// Throws InputError for a last row with sums, whose label is that of no other row.
void expect_no_totals(const Table& table, std::int64_t label) {
  const std::int64_t last = table.rows() - 1;
  for (std::int64_t row = 0; row < last; ++row)
    if (table.raw(row, label) == table.raw(last, label)) return;
  table.expect_no_totals();
}

// Sets what the columns are taken for. In those of texts and labels, what is not trained on is
// missing.
void explain(LabeledRows& rows, const Columns& columns, const NumberNames& names) {
  const Table& table = *rows.table;
  rows.remarks = table.remarks();
  add_split_remark(rows.remarks, table, {columns.text, columns.label});
  if (!names.remark.empty()) rows.remarks.push_back(names.remark);
  std::vector<bool> no_label, no_text;
  std::set<std::string_view> labels;
  std::map<std::string_view, std::int64_t> missing_words;
  for (const LabeledRow& row : rows.all) {
    no_label.push_back(!row.has_label);
    no_text.push_back(trimmed(row.text).empty());
    if (!row.has_label) continue;
    labels.insert(row.label);
    if (is_missing(row.label)) ++missing_words[row.label];
  }
  for (const auto& [label, count] : missing_words)
    rows.remarks.push_back(fmt::format("\"{}\" is a class, with {}; only an empty cell is no label",
                                       shown(label), counted(count, "row")));
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    const bool is_text = column == columns.text, is_label = column == columns.label;
    const char* use = is_text                       ? "text"
                      : is_label                    ? "label"
                      : columns.split == column     ? "split"
                      : is_row_index(table, column) ? "row numbers, left out"
                                                    : "left out";
    std::string summary = table.summary(column, is_text    ? &no_text
                                                : is_label ? &no_label
                                                           : nullptr);
    if (table.columns()[column].kind == ColumnKind::numbers)
      summary += fmt::format(
          ", {} different",
          is_label ? labels.size()
                   : different_cells(table, column, static_cast<std::size_t>(table.rows())));
    rows.columns.push_back({table.columns()[column].name, fmt::format("{}: {}", use, summary)});
  }
}

}  // namespace

LabeledRows read_table_rows(const std::string& path, LabeledTextOptions& options,
                            std::optional<TableForm>& form) {
  Columns columns;
  const bool is_open = options.header == Header::detected,
             has_objects = options.format == LabeledFormat::jsonl;
  LabeledRows rows{.path = path,
                   .table = has_objects ? read_objects(path, options, columns)
                            : options.rules == 1 || (form && is_open)
                                ? read_as_named(path, options, columns, form)
                                : read_as_found(path, options, columns)};
  const Table& table = *rows.table;
  const bool is_judged = options.rules > 1;
  if (is_judged && !has_objects) expect_no_totals(table, columns.label);
  std::vector<bool> without(table.rows());
  if (is_judged) without = rows_without_label(table, columns.label, options.classes);
  std::optional<NumberNames> names;
  if (is_judged) names.emplace(table, columns.label, options.classes);
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    LabeledRow row{.text = table.text(i, columns.text),
                   .label = table.text(i, columns.label),
                   .line = i,
                   .has_label = !without[i]};
    if (names) row.label = names->name_of(row.label);
    if (columns.split >= 0) {
      const std::string_view cell = table.raw(i, columns.split);
      row.split = split_named(cell);
      row.is_unassigned = !row.split;
      expect_input(row.split || table.is_missing(i, columns.split),
                   "{}: \"{}\" is no split; expected train, validation or test; correct the cell, "
                   "or rename the column",
                   table.place(i, columns.split), shown(cell));
    }
    rows.all.push_back(std::move(row));
  }
  if (names && !form && options.explains) explain(rows, columns, *names);
  if (has_objects) return rows;
  form = {.header = table.options().header,
          .columns = std::ssize(table.columns()),
          .text = columns.text,
          .label = columns.label,
          .text_name = table.columns()[columns.text].name,
          .label_name = table.columns()[columns.label].name,
          .delimiter = table.options().delimiter};
  return rows;
}

void set_form(LabeledTextOptions& options, const std::vector<TableForm>& forms) {
  const TableForm& first = forms.front();
  if (std::ranges::all_of(forms, [&](const TableForm& one) { return one.label == first.label; }))
    options.label_column = first.label + 1;
  if (options.rules == 1 ||
      !std::ranges::all_of(forms, [&](const TableForm& one) { return one == first; }))
    return;
  options.text_field = first.text_name;
  options.label_field = first.label_name;
  options.delimiter = first.delimiter;
  options.header = first.header;
}

bool may_be_labeled_table(const std::string& path, const LabeledTextOptions& options) {
  try {
    const auto table = open(path, options, options.header);
    const auto text = find_text_column(*table, {});
    bool has_times = false, has_labels = !options.label_field.empty();
    for (std::int64_t column = 0; column < std::ssize(table->columns()); ++column) {
      const TableColumn& one = table->columns()[column];
      has_times |= one.kind == ColumnKind::times;
      has_labels |= text != column && (is_label_name(one.name) || has_classes(*table, column));
    }
    return text && (has_labels || !has_times);
  } catch (const OptionError& error) {  // it can be read in several ways
    return error.option != "thousands";
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace tapestry
