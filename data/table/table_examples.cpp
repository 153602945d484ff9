#include "data/table/table_examples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "autograd/check.hpp"
#include "autograd/counted.hpp"
#include "autograd/dry_run.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/outlier.hpp"
#include "data/table/label_column.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "data/validation_split.hpp"

namespace tapestry {

// --- data set ---

TableDataset::TableDataset(Array inputs, Array targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  require(inputs_.rank() == 2 && inputs_.dim(0) > 0 && targets_.dim(0) == inputs_.dim(0),
          "TableDataset: inputs {}, targets {}; expected a target for each of one or more rows",
          inputs_.shape(), targets_.shape());
}

Batch TableDataset::batch(std::span<const std::int64_t> examples) const {
  std::vector<std::int64_t> rows;
  for (const std::int64_t example : examples) {
    require_example("TableDataset", example);
    rows.push_back(example);
  }
  return {.inputs = inputs_.select(rows),
          .targets = targets_.select(rows),
          .count = static_cast<double>(rows.size())};
}

void TableDataset::add_to(Checksum& sum) const {
  sum.add(inputs_);
  sum.add(targets_);
}

// --- reading ---

namespace {

constexpr std::int64_t most_values = std::int64_t{1} << 28;  // of the inputs: 1 GiB
constexpr std::size_t few = 20;  // so many different values may be classes

// A file of a table; `split`: the one that it is, or nothing for a whole table.
struct TableFile {
  std::unique_ptr<const Table> table{};
  std::optional<int> split{};
};

// Returns the tables at a path; that of the training is first.
std::vector<TableFile> open_tables(const std::string& path, TableExampleOptions& options) {
  std::vector<TableFile> files;
  const auto open = [&](const std::string& file, std::optional<int> split) {
    files.push_back({std::make_unique<const Table>(file, options), split});
    static_cast<TableOptions&>(options) = files.front().table->options();
  };
  if (!is_folder(path)) {
    open(path, std::nullopt);
    return files;
  }
  std::map<int, std::string> of_splits;
  for (const std::string& name : file_names(path)) {
    const std::filesystem::path plain =
        lower_ascii(name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name);
    const bool is_table = plain.extension() == ".csv" || plain.extension() == ".tsv";
    const auto split = split_named(plain.stem().string());
    if (!split || !is_table) continue;
    const auto [found, is_new] =
        of_splits.emplace(*split, (std::filesystem::path(path) / name).string());
    expect_input(is_new, "{}: is the same split as {}; remove one", name, found->second);
  }
  expect_input(of_splits.contains(0),
               "{}: has no table named train; expected one, or the path of a table", path);
  for (const auto& [split, file] : of_splits) open(file, split);
  return files;
}

// Returns the format of a column of times. Throws OptionError of "time_format" if there are several
// and `given` is none of them.
std::string time_format_of(const Table& table, std::int64_t j, const std::string& given) {
  const std::vector<TimeFormat>& formats = table.columns()[j].formats;
  if (formats.size() == 1) return formats.front().text();
  if (std::ranges::count(formats, given, &TimeFormat::text) == 0) throw_undecided_format(table, j);
  return given;
}

void set_scale(TargetColumn& target, const std::vector<double>& numbers) {
  double count = 0, squares = 0;
  for (const double number : numbers) {
    const double difference = number - target.mean;
    target.mean += difference / ++count;
    squares += difference * (number - target.mean);
  }
  target.deviation = squares > 0 ? std::sqrt(squares / count) : 1;
}

// A row of a file, by its split.
struct RowPlace {
  std::size_t file;
  std::int64_t row;
};

// The parts of load_table_examples() that work on the same tables.
class ExampleReader {
 public:
  ExampleReader(const std::string& path, const TableExampleOptions& given,
                const TableColumns* trained)
      : trained_(trained) {
    read_.options = given;
    files_ = open_tables(path, read_.options);
    if (trained) {
      read_.columns = *trained;
      return;
    }
    choose_target();
    choose_columns();
  }

  TableSplits read() {
    divide();
    if (!trained_) fit();
    for (int split = 0; split < 3; ++split) {
      std::array all{&read_.train, &read_.validation, &read_.test};
      if (!rows_[split].empty()) all[split]->emplace(encoded(rows_[split]));
    }
    if (read_.options.explains) explain();
    return std::move(read_);
  }

 private:
  const Table& first() const { return *files_.front().table; }

  // Sets the column that is predicted, and whether it has classes.
  void choose_target() {
    const Table& table = first();
    TableExampleOptions& options = read_.options;
    std::vector<std::int64_t> others;
    if (const auto split = find_split_column(table)) others.push_back(*split);
    label_ = options.label_field.empty() ? find_label_column(table, others, "label_field")
                                         : table.column_named(options.label_field, "label_field");
    const TableColumn& column = table.columns()[label_];
    options.label_field = read_.columns.target.name = column.name;
    table.expect_no_totals();
    expect_readable(label_);
    expect_option(column.found() > 0, "label_field", "{}: column {} is empty", table.path(),
                  shown(column.name));
    if (options.kind == TargetKind::detected) options.kind = kind_of_target(column);
    if (options.kind == TargetKind::numbers)
      expect_option(column.kind == ColumnKind::numbers, "target",
                    "{}: column {} has texts; expected numbers", table.path(), shown(column.name));
  }

  // Throws InputError if a column has the name of another one, or numbers of several units.
  void expect_readable(std::int64_t j) const {
    const TableColumn& column = first().columns()[j];
    expect_input(std::ranges::count(first().columns(), column.name, &TableColumn::name) == 1,
                 "{}: two columns are named {}; rename one of them", first().path(),
                 shown(column.name));
    if (column.kind == ColumnKind::numbers) first().expect_one_unit(j);
  }

  // Returns whether all numbers of the target are whole, such as 3 and 3.0.
  bool has_whole_target() const {
    for (std::int64_t row = 0; row < first().rows(); ++row)
      if (const auto number = number_in(first().raw(row, label_), first().options());
          number && *number != std::floor(*number))
        return false;
    return true;
  }

  TargetKind kind_of_target(const TableColumn& column) const {
    const std::size_t different = different_cells(first(), label_, few);
    if (column.kind != ColumnKind::numbers) {
      const auto quantity = different > few ? first().first_text_with_number(label_) : std::nullopt;
      expect_option(!quantity, "target",
                    "{}: \"{}\" may be a class, or a number with a unit, which is not read",
                    quantity ? first().place(*quantity, label_) : "",
                    quantity ? shown(first().raw(*quantity, label_)) : "");
      return TargetKind::classes;
    }
    if (different > few || !has_whole_target()) return TargetKind::numbers;
    const std::string name = lower_ascii(column.name);
    const bool is_named = is_label_name(name) && name != "target";
    if (different <= 2 || is_named) return TargetKind::classes;
    throw OptionError("target", fmt::format("{}: column {} has {} different integers, which may be "
                                            "classes or numbers",
                                            first().path(), shown(column.name), different));
  }

  // Sets the columns that are read, without what is found in the rows of the training.
  void choose_columns() {
    const Table& table = first();
    const TableExampleOptions& options = read_.options;
    const auto split = find_split_column(table);
    for (const std::string& name : options.ignored) table.column_named(name, "ignore_columns");
    for (const std::string& name : options.columns) table.column_named(name, "columns");
    for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j) {
      const std::string& name = table.columns()[j].name;
      const bool is_asked = std::ranges::count(options.columns, name) > 0;
      if (j == label_ || split == j) continue;
      if (options.columns.empty() ? std::ranges::count(options.ignored, name) > 0 : !is_asked)
        continue;
      expect_readable(j);
      const std::string why = why_unused(j);
      expect_option(why.empty() || !is_asked, "columns", "{}: column {}: {}", table.path(),
                    shown(name), why);
      if (!why.empty()) {
        unused_[j] = why;
        continue;
      }
      places_.push_back(j);
      read_.columns.inputs.push_back({.name = name});
      if (table.columns()[j].kind == ColumnKind::times)
        read_.columns.inputs.back().time_format = time_format_of(table, j, options.time_format);
      if (table.columns()[j].kind == ColumnKind::texts ||
          table.columns()[j].kind == ColumnKind::times_of_day || has_codes(j))
        read_.columns.inputs.back().categories.emplace();
    }
    expect_option(!places_.empty(), "columns", "{}: no column can be read", table.path());
  }

  // Returns whether a column of numbers has codes that recur: "02139" is no quantity.
  bool has_codes(std::int64_t j) const {
    const TableColumn& column = first().columns()[j];
    return column.kind == ColumnKind::numbers && column.counts.are_integers &&
           column.counts.first_padded != NumberCounts::none && has_classes(first(), j);
  }

  // Returns why a column cannot be read; "" if it can.
  std::string why_unused(std::int64_t j) const {
    const TableColumn& column = first().columns()[j];
    if (column.found() == 0) return "empty";
    const bool is_one = first().rows() > 1 && different_cells(first(), j, 1) == 1;
    if (is_one && column.found() == first().rows()) return "one value";
    if (first().rows() > 2 && is_row_index(first(), j)) return "row numbers";
    if (column.kind == ColumnKind::times && column.formats.empty())
      return "times in several formats";
    const bool is_text =
        column.kind == ColumnKind::texts || column.kind == ColumnKind::times_of_day;
    if (is_text && !has_classes(first(), j))
      return is_one ? "one value" : "more than 1000 different texts, or most of them once";
    return "";
  }

  // Sets the rows of the splits.
  void divide() {
    std::vector<RowPlace> open;
    const auto may_be_target = [&](const TableColumn& column) {
      return lower_ascii(column.name) == lower_ascii(read_.columns.target.name);
    };
    for (std::size_t file = 0; file < files_.size(); ++file) {
      const Table& table = *files_[file].table;
      const auto label = table.find(read_.columns.target.name);
      names_.emplace_back();
      if (!label && file > 0 && files_[file].split == 2 && !read_.options.whole &&
          std::ranges::none_of(table.columns(), may_be_target)) {
        labels_.push_back(0);  // a table that a model is to predict
        continue;
      }
      expect_input(label.has_value(), "{}: no column is named {}, which the model predicts",
                   table.path(), shown(read_.columns.target.name));
      labels_.push_back(*label);
      std::vector<std::string> classes =
          trained_ ? trained_->target.classes : read_.options.classes;
      if (classes.empty() && names_.front()) classes = names_.front()->all();
      if (read_.options.kind == TargetKind::classes || !classes.empty())
        names_.back().emplace(table, *label, classes);
      const std::vector<bool> without =
          rows_without_label(table, *label, read_.columns.target.classes);
      const auto column = read_.options.whole ? std::nullopt : find_split_column(table);
      for (std::int64_t row = 0; row < table.rows(); ++row) {
        std::optional<int> split = files_[file].split;
        if (column) split = split_named(table.raw(row, *column));
        if (without[row])
          ++read_.unlabeled;
        else if (column && !split)
          ++read_.unassigned;
        else if (read_.options.whole)
          rows_[1].push_back({file, row});
        else if (split)
          rows_[*split].push_back({file, row});
        else
          open.push_back({file, row});
      }
    }
    if (read_.options.whole) return;
    if (rows_[1].empty()) hold_out(open);
    for (const auto& [split, name] : {std::pair(0, "training"), std::pair(1, "validation")})
      expect_option(!rows_[split].empty(), "validation_fraction",
                    "{}: no row is for {}; give more rows", first().path(), name);
  }

  // Moves shares of the rows of the training, or of those without a split, into the others.
  void hold_out(std::vector<RowPlace>& open) {
    const bool has_test = !rows_[2].empty();
    std::vector<RowPlace> all = std::move(rows_[0]);
    rows_[0].clear();
    all.insert(all.end(), open.begin(), open.end());
    std::vector<std::uint64_t> hashes;
    std::vector<std::int32_t> classes;
    std::map<std::string, std::int32_t> known;
    for (const auto& [file, row] : all) {
      std::string text;
      for (std::int64_t j = 0; j < std::ssize(files_[file].table->columns()); ++j)
        text += files_[file].table->text(row, j) + '\n';
      hashes.push_back(text_hash(text));
      if (read_.options.kind == TargetKind::classes)
        classes.push_back(
            known.emplace(label_text({file, row}), static_cast<std::int32_t>(known.size()))
                .first->second);
    }
    const HeldExamples held = divide_by_hash(hashes, classes,
                                             {.validation = read_.options.validation_share,
                                              .test = has_test ? 0 : read_.options.test_share});
    read_.moved = held.moved;
    for (std::int64_t i = 0; i < std::ssize(all); ++i)
      rows_[std::ranges::binary_search(held.validation, i) ? 1
            : std::ranges::binary_search(held.test, i)     ? 2
                                                           : 0]
          .push_back(all[i]);
  }

  // Finds knots, categories and classes in the rows of the training.
  void fit() {
    for (std::size_t i = 0; i < places_.size(); ++i) fit_column(read_.columns.inputs[i]);
    TargetColumn& target = read_.columns.target;
    if (read_.options.kind == TargetKind::numbers) {
      std::vector<double> numbers;
      for (const RowPlace& place : rows_[0]) numbers.push_back(label_number(place));
      set_scale(target, numbers);
      return;
    }
    target.classes = read_.options.classes;
    if (!target.classes.empty()) return;
    std::set<std::string> names;
    for (const RowPlace& place : rows_[0]) names.insert(label_text(place));
    expect_option(names.size() >= 2 && names.size() <= most_classes, "label_field",
                  "{}: column {} has {} different values; expected 2 to {} classes", first().path(),
                  shown(target.name), names.size(), most_classes);
    read_.options.classes = target.classes = sorted_classes(names);
  }

  void fit_column(InputColumn& column) {
    std::vector<double> numbers;
    std::set<std::string> names;
    std::optional<TimeFormat> time;
    if (column.is_time()) time.emplace(column.time_format);
    for (const auto& [file, row] : rows_[0]) {
      const Table& table = *files_[file].table;
      const std::int64_t j = place_in(table, column.name);
      if (column.categories) {
        if (std::string text = table.text(row, j);
            !has_no_category(text, read_.options.missing_words))
          names.insert(std::move(text));
        continue;
      }
      const auto number =
          time ? days_of_cell(column, *time, table.raw(row, j), read_.options.missing_words)
               : table.number(row, j);
      column.has_mask |= !number;
      if (number) numbers.push_back(*number);
    }
    if (column.categories) {
      const auto sorted = sorted_classes(names);
      column.categories.emplace(sorted.begin(), sorted.end());
    } else {
      column.knots = knots_of(std::move(numbers));
    }
  }

  std::int64_t place_in(const Table& table, const std::string& name) const {
    const auto found = table.find(name);
    expect_input(found.has_value(), "{}: no column is named {}, which the model reads",
                 table.path(), shown(name));
    return *found;
  }

  std::string label_text(const RowPlace& place) const {
    const std::string text = files_[place.file].table->text(place.row, labels_[place.file]);
    return names_[place.file]->name_of(std::string(trimmed(text)));
  }
  double label_number(const RowPlace& place) const {
    return *files_[place.file].table->number(place.row, labels_[place.file]);
  }

  TableDataset encoded(const std::vector<RowPlace>& rows) const {
    const TableColumns& columns = read_.columns;
    const std::int64_t F = columns.width(), N = std::ssize(rows);
    expect_input(F <= most_values / N, "{}: {} rows with {} inputs; expected at most {} values",
                 first().path(), N, F, most_values);
    const RowEncoder encoder(columns, read_.options);
    Array inputs({N, F});
    std::vector<std::int32_t> classes;
    std::vector<float> numbers;
    std::map<std::string, std::int32_t> known;
    for (const std::string& name : columns.target.classes)
      known.emplace(name, static_cast<std::int32_t>(known.size()));
    std::map<std::size_t, std::vector<std::int64_t>> places;  // by file
    for (const RowPlace& place : rows)
      if (std::vector<std::int64_t>& of_file = places[place.file]; of_file.empty())
        for (const InputColumn& column : columns.inputs)
          of_file.push_back(place_in(*files_[place.file].table, column.name));
    std::vector<std::string> cells;
    for (std::int64_t i = 0; i < N; ++i) {
      const Table& table = *files_[rows[i].file].table;
      cells.clear();
      for (const std::int64_t j : places[rows[i].file]) cells.push_back(table.text(rows[i].row, j));
      encoder.encode(cells, inputs.mutable_values<float>().data() + i * F);
      if (columns.target.classes.empty()) {
        numbers.push_back(static_cast<float>((label_number(rows[i]) - columns.target.mean) /
                                             columns.target.deviation));
        continue;
      }
      const auto found = known.find(label_text(rows[i]));
      if (found == known.end())  // a place is slow to find
        throw OptionError(
            "class_names",
            fmt::format("{}: \"{}\" is not one of the classes {}",
                        table.place(rows[i].row, labels_[rows[i].file]), shown(label_text(rows[i])),
                        list_briefly(columns.target.classes)));
      classes.push_back(found->second);
    }
    return {inputs, classes.empty() ? Array::of(numbers, {N, 1}) : Array::of(classes, {N})};
  }

  // Adds what is doubtful about an input.
  void remark_on(std::int64_t j) {
    const Table& table = first();
    const TableColumn& column = table.columns()[j];
    const auto remark = [&](const std::string& what) {
      read_.remarks.push_back(fmt::format("column {}: {}", shown(column.name), what));
    };
    if (const auto row = table.first_text_with_number(j); row && column.kind == ColumnKind::texts) {
      const std::string_view cell = table.raw(*row, j);
      if (different_cells(table, j, few) > few || with_ascii_digits(cell) != cell)
        remark(read_as_text(cell));
    }
    if (label_ != j && has_codes(j))
      remark(fmt::format(
          "\"{}\" begins with 0: these are categories, not numbers",
          shown(table.raw(column.counts.first_padded - (table.options().header != Header::absent),
                          j))));
    if (tells_class(j))
      remark("each value goes with one class; leave it out, if it is not known when predicting");
    if (column.kind != ColumnKind::numbers) return;
    std::vector<float> numbers;
    for (std::int64_t row = 0; row < table.rows(); ++row)
      if (const auto number = table.number(row, j)) numbers.push_back(static_cast<float>(*number));
    if (const auto outlier = outlier_of(std::move(numbers)))
      read_.remarks.push_back(outlier_text(*outlier, shown(column.name)));
  }

  // Returns whether the values of an input recur, and each has one class: it may stand for the
  // target.
  bool tells_class(std::int64_t j) const {
    constexpr std::int64_t least_repeats = 40;  // fewer may go with one class by chance
    if (read_.columns.target.classes.empty() || j == label_ || !has_classes(first(), j))
      return false;
    std::map<std::string_view, std::string_view> classes;
    for (std::int64_t row = 0; row < first().rows(); ++row) {
      const std::string_view label = first().raw(row, label_);
      if (label.empty() || first().is_missing(row, j)) continue;
      if (classes.emplace(first().raw(row, j), label).first->second != label) return false;
    }
    return classes.size() >= read_.columns.target.classes.size() &&
           first().rows() - std::ssize(classes) >= least_repeats;
  }

  void explain() {
    const Table& table = first();
    read_.remarks = table.remarks();
    std::vector<std::int64_t> others{label_};
    for (const std::string& name : read_.options.ignored)
      others.push_back(table.column_named(name, "ignore_columns"));
    add_split_remark(read_.remarks, table, others);
    if (names_.front() && !names_.front()->remark.empty())
      read_.remarks.push_back(names_.front()->remark);
    if (!files_.back().table->find(read_.columns.target.name))
      read_.remarks.push_back(fmt::format("{} has no column {}, and is not the test split",
                                          files_.back().table->path(),
                                          shown(read_.columns.target.name)));
    for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j) {
      if (j == label_ || std::ranges::count(places_, j) > 0 || unused_.contains(j)) remark_on(j);
      const std::string& name = table.columns()[j].name;
      const auto input = std::ranges::find(read_.columns.inputs, name, &InputColumn::name);
      const bool is_input = input != read_.columns.inputs.end();
      const std::string use =
          j == label_
              ? (read_.columns.target.classes.empty() ? "target, a number" : "target, classes")
          : find_split_column(table) == j ? "split"
          : unused_.contains(j)           ? "left out, " + unused_.at(j)
          : !is_input                     ? "left out"
          : input->categories             ? "categories"
          : input->is_time()              ? "time, " + input->time_format
          : may_be_ids(table, j)          ? "number, all different: an id?"
                                          : "number";
      read_.uses.push_back({name, fmt::format("{}: {}", use, table.summary(j))});
    }
  }

  TableSplits read_;
  const TableColumns* trained_;
  std::vector<TableFile> files_;
  std::int64_t label_ = 0;
  std::vector<std::int64_t> places_, labels_;  // columns of the inputs; of the label in each file
  std::vector<std::optional<NumberNames>> names_;  // of the classes in each file
  std::map<std::int64_t, std::string> unused_;
  std::array<std::vector<RowPlace>, 3> rows_;  // of the splits
};

}  // namespace

TableSplits load_table_examples(const std::string& path, const TableExampleOptions& options,
                                const TableColumns* trained) {
  return ExampleReader(path, options, trained).read();
}

TableSplits table_of_numbers(const NumberRows& rows) {
  TableSplits splits;
  const std::size_t F = rows.names.size() - 1;
  std::vector<double> column;
  for (std::size_t j = 0; j < F; ++j) {
    column.clear();
    for (const auto& row : rows.train) column.push_back(row[j]);
    splits.columns.inputs.push_back({.name = rows.names[j], .knots = knots_of(column)});
  }
  TargetColumn& target = splits.columns.target;
  target.name = rows.names.back();
  column.clear();
  for (const auto& row : rows.train) column.push_back(row.back());
  set_scale(target, column);
  const auto encoded = [&](const std::vector<std::vector<double>>& all) {
    std::vector<float> inputs, targets;
    for (const auto& row : all) {
      for (std::size_t j = 0; j < F; ++j)
        inputs.push_back(static_cast<float>(scaled(splits.columns.inputs[j].knots, row[j])));
      targets.push_back(static_cast<float>((row.back() - target.mean) / target.deviation));
    }
    const std::int64_t N = std::ssize(all);
    return TableDataset(Array::of(inputs, {N, static_cast<std::int64_t>(F)}),
                        Array::of(targets, {N, 1}));
  };
  splits.train.emplace(encoded(rows.train));
  splits.validation.emplace(encoded(rows.validation));
  return splits;
}

}  // namespace tapestry
