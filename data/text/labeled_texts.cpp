#include "data/text/labeled_texts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/class_folder.hpp"
#include "data/csv.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_label_bytes = 256, max_text_bytes = std::size_t{1} << 20;
constexpr std::size_t max_classes = 1000, max_total_bytes = std::size_t{1} << 30;
constexpr std::string_view label_prefix = "__label__";

std::string without_gz(std::string_view name) {
  return std::string(name.substr(0, name.size() - (name.ends_with(".gz") ? 3 : 0)));
}

bool is_txt(std::string_view name) { return without_gz(name).ends_with(".txt"); }

constexpr FileKind text_files_of_classes{
    .noun = "texts", .expected = "*.txt files", .has_ending = is_txt};

// A text and the name of its class, as a line has them.
struct Row {
  std::string text{}, label{};
  std::int64_t line = 0;
};

std::string place_of(const FileLine& line) {
  return fmt::format("{}: line {}", printable(line.path), line.number);
}

// --- JSONL ---

std::string label_text(const JsonValue& label, const FileLine& line) {
  if (label.is_string()) return label.get<std::string>();
  line.expect(label.is_number_integer() || label.is_boolean(),
              "the label is {}; expected a text, an integer, true or false", brief(label));
  return label.dump();
}

Row json_row(const FileLine& line, const LabeledTextOptions& options) {
  const JsonValue object = json_object_of(line);
  for (const auto& [field, option] : {std::pair(&options.text_field, "text_field"),
                                      std::pair(&options.label_field, "label_field")})
    expect_option(object.contains(*field), option, "{}: the field {} is missing; found {}",
                  place_of(line), brief(*field), member_names(object));
  const JsonValue& text = object[options.text_field];
  line.expect(text.is_string(), "{} is {}; expected a text in quotes", brief(options.text_field),
              brief(text));
  return {.text = text.get<std::string>(), .label = label_text(object[options.label_field], line)};
}

// --- lines of fastText ---

Row prefixed_row(const FileLine& line) {
  std::string_view rest = trimmed(line.text);
  line.expect(rest.starts_with(label_prefix),
              "found \"{}\"; expected {}NAME and a text; correct the line", shown(rest),
              label_prefix);
  rest.remove_prefix(label_prefix.size());
  const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  Row row{.text = std::string(trimmed(rest.substr(end))),
          .label = std::string(rest.substr(0, end))};
  line.expect(!row.text.starts_with(label_prefix),
              "has more than one label; expected one for each text; remove the others");
  return row;
}

// --- tables ---

// Returns a cell without the quotes that other programs write around cells, which double the quotes
// within them. Other quotes are text.
std::string unquoted(std::string_view cell) {
  if (cell.size() < 2 || cell.front() != '"' || cell.back() != '"') return std::string(cell);
  const std::string_view inner = cell.substr(1, cell.size() - 2);
  for (std::size_t i = inner.find('"'); i != inner.npos; i = inner.find('"', i + 2))
    if (!inner.substr(i).starts_with("\"\"")) return std::string(cell);
  return csv_text(inner);
}

std::vector<std::string> tab_cells(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0, end = 0; end != line.npos; begin = end + 1) {
    end = line.find('\t', begin);
    cells.push_back(unquoted(trimmed(line.substr(begin, end - begin))));
  }
  return cells;
}

std::vector<std::string> cells_of(const FileLine& record, char delimiter) {
  if (delimiter == '\t') return tab_cells(record.text);
  std::vector<std::string> cells;
  for (const std::string_view cell : csv_cells(record, delimiter)) cells.push_back(csv_text(cell));
  return cells;
}

// The columns of a table. Without a header, the first of two columns is taken as the label until
// read_rows() has found the column of the labels.
struct Columns {
  std::size_t count = 2, text = 1, label = 0;
  bool has_header = false;
};

Columns columns_of(const FileLine& first, const std::vector<std::string>& cells,
                   const LabeledTextOptions& options) {
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(cells, name) - cells.begin());
  };
  const Columns columns{.count = cells.size(),
                        .text = column(options.text_field),
                        .label = column(options.label_field),
                        .has_header = true};
  const bool has_text = columns.text < cells.size(), has_label = columns.label < cells.size();
  if (!has_text && !has_label && cells.size() == 2) return {};
  const std::string found = list_briefly(cells);
  expect_option(has_text, "text_field", "{}: no column is named {}; found {}", place_of(first),
                brief(options.text_field), printable(found));
  expect_option(has_label, "label_field", "{}: no column is named {}; found {}", place_of(first),
                brief(options.label_field), printable(found));
  return columns;
}

Row table_row(const FileLine& record, char delimiter, const Columns& columns) {
  std::vector<std::string> cells = cells_of(record, delimiter);
  record.expect(
      cells.size() == columns.count, "has {} columns, expected {}; {}", cells.size(), columns.count,
      delimiter == '\t' ? "remove tabs in the text" : "write a text with commas in quotes");
  return {.text = std::move(cells[columns.text]), .label = std::move(cells[columns.label])};
}

// Returns the column of the labels of rows without header, 1 or 2: that with fewer different
// values.
std::int64_t column_of_labels(const std::vector<Row>& rows, const std::string& path) {
  std::map<std::string_view, std::int64_t> first, second;
  for (const Row& row : rows) {
    ++first[row.label];
    ++second[row.text];
  }
  expect_option(first.size() != second.size(), "label_column",
                "{}: each of the two columns has {} different values", printable(path),
                first.size());
  const bool is_first = first.size() < second.size();
  const auto& label = is_first ? rows[0].label : rows[0].text;
  constexpr std::size_t few = 20;
  expect_option(rows.size() < few || (is_first ? first : second)[label] > 1, "label_field",
                "{}: line {}: no other line has the label \"{}\"; if this line is a header, name "
                "its columns",
                printable(path), rows[0].line, shown(label));
  return is_first ? 1 : 2;
}

// --- files of lines ---

LabeledFormat format_of(const FileLine& first) {
  const std::string_view text = trimmed(first.text);
  if (text.starts_with('{')) return LabeledFormat::jsonl;
  if (text.starts_with(label_prefix)) return LabeledFormat::fasttext;
  if (without_gz(first.path).ends_with(".csv")) return LabeledFormat::csv;
  expect_option(text.find('\t') != text.npos, "format",
                "{}: found \"{}\"; expected a JSON object, {}NAME and a text, a text and a label "
                "with a tab between them, or a file *.csv",
                place_of(first), shown(text), label_prefix);
  return LabeledFormat::tsv;
}

// Calls take(record, delimiter) for the lines of a file that are not empty, or the records of a
// CSV, whose cells in quotes may have several lines. The delimiter is that of a table. Sets the
// format if it is `detected`.
void for_each_record(const std::string& path, LabeledFormat& format, const auto& take) {
  std::string record;
  std::int64_t first = 0;
  bool open = false;
  char delimiter = '\t';
  for_each_line(path, [&](const FileLine& line) {
    if (!open && trimmed(line.text).empty()) return;
    if (format == LabeledFormat::detected) format = format_of(line);
    if (format != LabeledFormat::csv) return take(line, delimiter);
    if (first == 0) delimiter = csv_delimiter(line);
    if (!open) first = line.number;
    record += (open ? "\n" : "") + std::string(line.text);
    open = csv_is_open(line.text, delimiter, open) && record.size() <= max_text_bytes;
    if (open) return;
    take(FileLine{path, first, record}, delimiter);
    record.clear();
  });
  if (open) take(FileLine{path, first, record}, delimiter);
}

// Throws InputError for a label or a text that is too long, and for a label that cannot be shown.
void check(const Row& row, const FileLine& line) {
  line.expect(!row.label.empty(),
              "the label is empty; expected the name of a class; add it, or remove the line");
  line.expect(row.label.size() <= max_label_bytes && is_printable(row.label),
              "label \"{}\": expected at most {} bytes without control characters; correct it",
              shown(row.label), max_label_bytes);
  line.expect(row.text.size() <= max_text_bytes,
              "the text has {} bytes; expected at most {}; divide it", row.text.size(),
              max_text_bytes);
}

// Reads the rows of a file. Sets the format and the column of the labels of `options`, as found.
std::vector<Row> read_rows(const std::string& path, LabeledTextOptions& options) {
  std::vector<Row> rows;
  std::optional<Columns> columns;
  for_each_record(path, options.format, [&](const FileLine& record, char delimiter) {
    const bool is_table =
        options.format == LabeledFormat::csv || options.format == LabeledFormat::tsv;
    if (is_table && !columns) {
      columns = columns_of(record, cells_of(record, delimiter), options);
      if (columns->has_header) return;
    }
    Row row = is_table                                 ? table_row(record, delimiter, *columns)
              : options.format == LabeledFormat::jsonl ? json_row(record, options)
                                                       : prefixed_row(record);
    row.label = trimmed(row.label);
    row.line = record.number;
    const bool may_be_swapped = is_table && !columns->has_header;
    if (!may_be_swapped) check(row, record);
    rows.push_back(std::move(row));
  });
  expect_input(!rows.empty(),
               "{}: has no labeled text; expected a text and a label per line; add some",
               printable(path));
  if (!columns || columns->has_header) {
    if (columns) options.label_column = static_cast<std::int64_t>(columns->label) + 1;
    return rows;
  }
  if (options.label_column == 0) options.label_column = column_of_labels(rows, path);
  expect_option(options.label_column <= 2, "label_column",
                "{}: the table has 2 columns and no header", printable(path));
  for (Row& row : rows) {
    if (options.label_column == 2) std::swap(row.text, row.label);
    check(row, FileLine{path, row.line});
  }
  return rows;
}

// Returns the names of the classes: numbers in the order of their values, or names.
std::vector<std::string> classes_of(const std::vector<Row>& rows, const std::string& path) {
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(row.label);
  expect_option(names.size() <= max_classes, "label_field",
                "{}: {} different labels, such as \"{}\"; expected at most {}", printable(path),
                names.size(), shown(*names.begin()), max_classes);
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto number = [](const std::string& name) { return parse_number<std::int64_t>(name); };
  if (std::ranges::all_of(sorted, [&](const auto& name) { return number(name).has_value(); }))
    std::ranges::stable_sort(sorted, {}, number);
  return sorted;
}

LabeledTexts labeled(std::vector<Row> rows, const std::string& path, LabeledSplits& all) {
  std::map<std::string_view, std::int32_t> labels;
  for (const std::string& name : all.classes)
    labels.emplace(name, static_cast<std::int32_t>(labels.size()));
  LabeledTexts split;
  for (Row& row : rows) {
    const auto label = labels.find(row.label);
    expect_option(label != labels.end(), "class_names",
                  "{}: line {}: label \"{}\" is not one of the classes {}", printable(path),
                  row.line, shown(row.label), list_briefly(all.classes));
    if (trimmed(row.text).empty()) {
      ++all.empty;
      continue;
    }
    split.texts.push_back(std::move(row.text));
    split.labels.push_back(label->second);
  }
  expect_input(!split.texts.empty(),
               "{}: all texts are empty; expected at least one with characters; give other texts",
               printable(path));
  return split;
}

// Paths of the files of the splits; empty: there is none.
struct SplitFiles {
  std::string train{}, validation{}, test{};
};

SplitFiles files_in(const std::string& folder) {
  constexpr std::array endings{".jsonl", ".json", ".csv", ".tsv", ".txt"};
  SplitFiles files;
  for (const std::string& name : file_names(folder)) {
    const fs::path plain = without_gz(name);
    const std::string split = plain.stem().string();
    if (!is_split_name(split) || std::ranges::find(endings, plain.extension()) == endings.end())
      continue;
    std::string& file = split == "train"  ? files.train
                        : split == "test" ? files.test
                                          : files.validation;
    const std::string path = (fs::path(folder) / name).string();
    expect_input(file.empty(), "{}: is the same split as {}; remove one", printable(path),
                 printable(file));
    file = path;
  }
  return files;
}

// Returns whether there is a file of the training split or, if `whole`, of any split.
bool has_any(const SplitFiles& files, bool whole) {
  return !files.train.empty() || (whole && !(files.validation.empty() && files.test.empty()));
}

LabeledSplits read_files(const SplitFiles& files, LabeledTextOptions options) {
  LabeledSplits all{.classes = options.classes};
  for (const auto& [file, split] : {std::pair(&files.train, &all.train),
                                    {&files.validation, &all.validation},
                                    {&files.test, &all.test}}) {
    if (file->empty()) continue;
    std::vector<Row> rows = read_rows(*file, options);
    if (all.classes.empty()) all.classes = classes_of(rows, *file);
    *split = labeled(std::move(rows), *file, all);
  }
  all.format = options.format;
  all.label_column = options.label_column;
  return all;
}

// --- a folder per class ---

LabeledTexts read_texts(std::vector<ClassFolder::File> files, LabeledSplits& all) {
  Random random(0, Stream::data);
  random.shuffle(
      files);  // the same order for every seed, so that the first ones are of all classes
  LabeledTexts split;
  std::size_t bytes = 0;
  for (const auto& [path, label] : files) {
    std::string text = read_text(path);
    bytes += text.size();
    expect_input(text.size() <= max_text_bytes,
                 "{}: the text has {} bytes; expected at most {}; divide it", printable(path),
                 text.size(), max_text_bytes);
    expect_input(bytes <= max_total_bytes, "{}: the texts have more than 1 GiB; give less",
                 printable(path));
    if (trimmed(text).empty()) {
      ++all.empty;
      continue;
    }
    split.texts.push_back(std::move(text));
    split.labels.push_back(label);
  }
  return split;
}

LabeledSplits read_folder(const std::string& path, const LabeledTextOptions& options) {
  ClassFolder folder =
      list_class_folder(path, text_files_of_classes, options.classes, options.whole);
  LabeledSplits all{.format = LabeledFormat::folder, .classes = folder.classes};
  all.train = read_texts(std::move(folder.train), all);
  all.validation = read_texts(std::move(folder.validation), all);
  all.test = read_texts(std::move(folder.test), all);
  return all;
}

// Returns whether a text has words with spaces between them, which times and numbers do not.
bool has_words(std::string_view text) {
  const auto is_letter = [](unsigned char byte) { return byte >= 128 || std::isalpha(byte); };
  return trimmed(text).find(' ') != text.npos && std::ranges::count_if(text, is_letter) > 1;
}

// Moves a share of each class from the training to the validation split.
void divide(LabeledSplits& all, const LabeledTextOptions& options) {
  LabeledTexts whole = std::exchange(all.train, {});
  std::vector<std::int64_t> chosen;
  if (options.rules == 1) {
    chosen = validation_examples_of_classes(whole.labels, options.validation_share);
  } else {
    std::vector<std::uint64_t> hashes;
    for (const std::string& text : whole.texts) hashes.push_back(text_hash(text));
    HeldExamples held =
        divide_by_hash(hashes, whole.labels, {.validation = options.validation_share});
    chosen = std::move(held.validation);
    all.moved = held.moved;
  }
  for (std::int64_t i = 0; i < std::ssize(whole.texts); ++i) {
    LabeledTexts& split = std::ranges::binary_search(chosen, i) ? all.validation : all.train;
    split.texts.push_back(std::move(whole.texts[i]));
    split.labels.push_back(whole.labels[i]);
  }
  all.is_divided = true;
}

// Moves the texts of all splits into the validation split.
void join_splits(LabeledSplits& all, const std::string& path) {
  LabeledTexts whole = std::exchange(all.train, {});
  for (LabeledTexts* split : {&all.validation, &all.test}) {
    std::ranges::move(split->texts, std::back_inserter(whole.texts));
    std::ranges::copy(split->labels, std::back_inserter(whole.labels));
    *split = {};
  }
  expect_input(!whole.texts.empty(),
               "{}: all texts are empty; expected at least one with characters; give other texts",
               printable(path));
  all.validation = std::move(whole);
}

}  // namespace

bool is_labeled_text_folder(const std::string& path) {
  std::error_code unseen;
  if (!fs::is_directory(path, unseen)) return false;
  if (!files_in(path).train.empty()) return true;
  const std::vector<std::string> names = file_names(path);
  return std::ranges::none_of(names, is_txt) && is_class_folder(path, text_files_of_classes);
}

std::optional<LabeledColumns> guess_columns(const std::string& path) {
  struct Column {
    std::string name{};
    std::size_t bytes = 0, with_words = 0;
    std::set<std::string> values{};
  };
  std::vector<Column> columns;
  std::size_t rows = 0;
  LabeledFormat format = LabeledFormat::detected;
  for_each_record(path, format, [&](const FileLine& record, char delimiter) {
    if (format != LabeledFormat::csv && format != LabeledFormat::tsv) return;
    const std::vector<std::string> cells = cells_of(record, delimiter);
    if (columns.empty()) {
      for (const std::string& name : cells) columns.push_back({.name = name});
      return;
    }
    ++rows;
    for (std::size_t i = 0; i < std::min(cells.size(), columns.size()); ++i) {
      columns[i].bytes += cells[i].size();
      columns[i].with_words += has_words(cells[i]);
      if (columns[i].values.size() <= max_classes) columns[i].values.insert(cells[i]);
    }
  });
  const Column *text = nullptr, *label = nullptr;
  for (const Column& column : columns)
    if (2 * column.with_words >= rows && (text == nullptr || column.bytes > text->bytes))
      text = &column;
  for (const Column& column : columns)
    if (&column != text && column.values.size() >= 2 && column.values.size() <= max_classes &&
        (label == nullptr || column.values.size() < label->values.size()))
      label = &column;
  if (text == nullptr || label == nullptr) return std::nullopt;
  return LabeledColumns{.text = text->name, .label = label->name};
}

LabeledSplits load_labeled_texts(const std::string& path, const LabeledTextOptions& options) {
  std::error_code unseen;
  LabeledSplits all;
  if (!fs::is_directory(path, unseen)) {
    expect_option(options.format != LabeledFormat::folder, "format",
                  "{}: expected a folder with a folder per class", printable(path));
    all = read_files({.train = path}, options);
  } else if (const SplitFiles files = files_in(path);
             has_any(files, options.whole) && options.format != LabeledFormat::folder) {
    all = read_files(files, options);
  } else {
    all = read_folder(path, options);
  }
  if (options.whole) {
    join_splits(all, path);
    return all;
  }
  if (all.validation.texts.empty()) divide(all, options);
  expect_option(!all.train.texts.empty() && !all.validation.texts.empty(), "validation_fraction",
                "leaves {} texts for training and {} for validation; expected at least one of each",
                all.train.texts.size(), all.validation.texts.size());
  return all;
}

}  // namespace tapestry
