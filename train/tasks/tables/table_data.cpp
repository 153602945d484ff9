#include "train/tasks/tables/table_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "autograd/counted.hpp"
#include "data/input_file.hpp"
#include "data/table/label_column.hpp"
#include "data/text/labeled_table.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/table_settings.hpp"

namespace tapestry {
namespace {

const Condition is_csv = key_is("data.kind", "csv"), is_friedman = key_is("data.kind", "friedman");

// The names of the settings that are found in the table.
const std::vector<std::string> detected_options = {"delimiter", "decimal",     "thousands",
                                                   "header",    "label_field", "target"};

TableSplits load(const Given<TableSettings>& given, const TableExampleOptions& options,
                 const TableColumns* trained) {
  const std::string& path = given.required_path(
      "no table", "a CSV, or a folder with train.csv and test.csv, with --set data.path=PATH");
  given.expect(given.validation_share + given.test_share < 1, "test_fraction",
               "the sum with data.validation_fraction = {} must be below 1",
               given.validation_share);
  return given.checked([&] { return load_table_examples(path, options, trained); });
}

// Returns the mean number of bytes in the cells of the longest column of texts.
double bytes_of_texts(const std::string& file, const TableOptions& options) {
  const Table table(file, options);
  double most = 0;
  for (std::int64_t column = 0; column < std::ssize(table.columns()); ++column) {
    double bytes = 0;
    for (std::int64_t row = 0; row < table.rows(); ++row)
      bytes += static_cast<double>(table.raw(row, column).size());
    if (table.columns()[column].kind == ColumnKind::texts) most = std::max(most, bytes);
  }
  return most / static_cast<double>(table.rows());
}

}  // namespace

const SettingsOf<TableSettings> table_settings = [] {
  using S = TableSettings;
  using Row = Bound<S>;
  std::vector<Row> rows{
      Row("data.kind", &S::kind_of_data,
          "the table of data.path, or synthetic rows of Friedman's function",
          {{"csv", TableKind::csv}, {"friedman", TableKind::friedman}}),
      Row(key::data_path, &S::path),
      Row(key::data_source, &S::source),
      Row(key::seed, &S::seed),
      Row("data.label_field", &S::label_field,
          "name of the column that is predicted (empty: detected)",
          {.used_if = {is_csv},
           .also_called = {"target_column"},
           .advice = "set this key (init: --label COLUMN) to the column that is predicted"}),
      Row("data.target", &S::kind, "what the column data.label_field has: classes or numbers",
          {{"auto", TargetKind::detected},
           {"class", TargetKind::classes},
           {"number", TargetKind::numbers}},
          {.used_if = {is_csv}, .advice = "set data.target to \"class\" or \"number\""}),
      Row(key::class_names, &S::classes, "correct the label, or list the class here"),
      Row(key::class_weights, &S::class_weights),
      Row("data.columns", &S::columns, "columns that are read; empty: all that can be",
          {.used_if = {is_csv}, .advice = "list columns of the table in this key"}),
      Row("data.ignore_columns", &S::ignored, "columns that are not read",
          {.used_if = {is_csv}, .advice = "list columns of the table here"}),
      Row("data.time_format", &S::time_format,
          "format of times that can be read in several ways: a name or a pattern (auto: there are "
          "none)",
          {.used_if = {is_csv}, .advice = "set data.time_format to one of them"}),
      Row("data.validation_fraction", &S::validation_share,
          "fraction of the rows for validation, if the table does not say which are",
          {.low = 0.0001, .high = 0.9, .used_if = {is_csv}, .advice = "or change this value"}),
      Row("data.test_fraction", &S::test_share,
          "fraction of the rows for the test, if the table does not say which are",
          {.low = 0, .high = 0.9, .used_if = {is_csv}}),
      Row("data.examples", &S::examples, "synthetic rows for training",
          {.low = 1, .high = 1e7, .used_if = {is_friedman}}),
      Row("data.held_back", &S::held_back, "synthetic rows for validation",
          {.low = 1, .high = 1e7, .used_if = {is_friedman}})};
  const std::vector<Row> of_table = table_rows<S>({is_csv});
  rows.insert(rows.end(), of_table.begin(), of_table.end());
  return rows;
}();

void detect_table(Config& config) {
  Given<TableSettings> given = table_settings.of(config);
  if (given.kind_of_data != TableKind::csv || given.path.empty() || !is_there(given.path)) return;
  const bool is_known = !given.label_field.empty() && given.kind != TargetKind::detected &&
                        given.delimiter != detected && given.header != Header::detected &&
                        (given.kind == TargetKind::numbers || !given.classes.empty());
  if (is_known) return;
  static_cast<TableExampleOptions&>(given) = load(given, given, nullptr).options;
  table_settings.detect(config, given, detected_options);
  if (given.kind == TargetKind::classes) table_settings.detect(config, given, {"class_names"});
}

namespace {

// Returns the fit of a table as a table, whose texts may be labeled texts. Numbers without times
// may be time series, unless a column is given or named as the target, or its classes are texts.
Recognized::Fit fit_of(const TableColumns& columns, bool is_given, bool has_texts) {
  using enum Recognized::Fit;
  if (has_texts) return on_request;
  const bool has_times = std::ranges::any_of(columns.inputs, &InputColumn::is_time);
  if (is_given || (is_label_name(columns.target.name) && !has_times)) return certain;
  const auto is_number = [](const std::string& name) {
    return parse_number<double>(name).has_value();
  };
  const bool has_categories = std::ranges::any_of(
      columns.inputs, [](const InputColumn& input) { return input.categories.has_value(); });
  const bool has_only_numbers =
      !has_categories && std::ranges::all_of(columns.target.classes, is_number);
  return has_only_numbers && !has_times ? on_request : possible;
}

// Notes rows that are left out, and what a reader should know of the others.
void note_rows(Recognized& found, const TableSplits& table) {
  constexpr std::int64_t few_rows = 5;  // of a class, on average
  const TargetColumn& target = table.columns.target;
  const std::int64_t train = table.train->size();
  found.problems = table.remarks;
  note_class_names(found, target.classes);
  if (std::ssize(target.classes) * few_rows > train)
    found.problems.push_back(fmt::format(
        "{} has {} for {}; a class needs several rows", printable(target.name),
        counted(std::ssize(target.classes), "class", "classes"), counted(train, "training row")));
  if (table.unlabeled > 0)
    found.problems.push_back(counted(table.unlabeled, "row") + " without a target left out");
  if (table.unassigned > 0)
    found.problems.push_back(counted(table.unassigned, "row") + " of no split left out");
}

}  // namespace

std::vector<Recognized> recognize_table(const UserData& data) {
  return {recognized_as("table", "tables", [&](Recognized& found) {
    Given<TableSettings> given =
        table_settings.of(parse_config("task = \"table\"", "init", data.overrides));
    if (!data.label.empty()) given.label_field = data.label;
    given.explains = true;
    given.path = data.path;
    const std::string file = training_file(data.path);
    const bool has_folder = is_folder(data.path), is_table = has_table_ending(file);
    expect_input(is_table || has_folder, "expected a .csv or .tsv, or a folder with train.csv");
    if (!data.label.empty() || (is_table && has_folder && !may_be_labeled_table(file, {})))
      found.fit = Recognized::Fit::similar;
    const TableSplits table = given.checked([&] { return load_table_examples(data.path, given); });
    const TargetColumn& target = table.columns.target;
    const std::int64_t train = table.train->size();
    found.facts = {{"training rows", train},
                   {"validation rows", table.validation->size()},
                   {"test rows", table.test ? table.test->size() : 0},
                   {"target", printable(target.name)}};
    if (!target.classes.empty()) {
      found.facts["classes"] = std::ssize(target.classes);
      found.facts["class names"] = printable(list_briefly(target.classes));
    }
    add_column_uses(found, table.uses);
    note_rows(found, table);
    const auto numbers = std::ranges::count_if(
        table.columns.inputs, [](const InputColumn& input) { return !input.categories; });
    constexpr std::int64_t many_numbers = 3;
    constexpr double short_text = 40;
    // Names beside several numbers describe the rows of a table.
    const bool has_texts =
        !file.empty() && may_be_labeled_table(file, {.label_field = data.label}) &&
        (numbers < many_numbers || bytes_of_texts(file, table.options) > short_text);
    found.fit = fit_of(table.columns, !data.label.empty(), has_texts);
    found.base = "friedman";
    found.settings.push_back({"data.kind", std::string("csv")});
    TableSettings chosen;
    static_cast<TableExampleOptions&>(chosen) = table.options;
    table_settings.add_chosen(found.settings, chosen, detected_options, "found in the data");
    constexpr std::int64_t few = 10'000;
    if (train < few) {
      found.settings.push_back({"model.dropout", 0.2, "against overfitting to few rows"});
      found.settings.push_back({"optim.learning_rate", 1e-3, "half of the base's, for few rows"});
    }
    found.examples = static_cast<double>(train);
    found.most_epochs = 200;
    constexpr std::int64_t most_small = 200'000;
    found.is_small = train < most_small;
  })};
}

TableData::TableData(const TaskSetup& setup)
    : given_([&] {
        Config config = setup.config;
        if (setup.metadata.empty()) detect_table(config);
        return table_settings.of(config);
      }()),
      whole_(setup.whole_data) {
  const auto kept = setup.metadata.find("columns");
  if (kept != setup.metadata.end()) trained_ = columns_ = TableColumns::from_json(kept->second);
  if (setup.needs_data || !trained_) splits();
}

const TableSplits& TableData::splits() {
  if (splits_) return *splits_;
  if (given_.kind_of_data == TableKind::friedman) {
    given_.expect_no_path();
    splits_ = table_of_numbers(given_.checked([&] {
      return make_friedman(
          {.examples = given_.examples, .held_back = given_.held_back, .seed = given_.seed});
    }));
  } else {
    TableExampleOptions options = given_;
    options.whole = whole_;
    splits_ = load(given_, options, trained_ ? &*trained_ : nullptr);
  }
  columns_ = splits_->columns;
  return *splits_;
}

std::string TableData::remark() const {
  if (!splits_ || given_.kind_of_data == TableKind::friedman) return "";
  std::string text = fmt::format(
      "table: {} rows for training, {} for validation, {} for test; {} columns read; {}: {}",
      whole_ || !splits_->train ? 0 : splits_->train->size(), splits_->validation->size(),
      splits_->test ? splits_->test->size() : 0, columns_.inputs.size(), printable(target().name),
      has_classes() ? counted(std::ssize(target().classes), "class", "classes") : "a number");
  if (splits_->unlabeled > 0)
    text += fmt::format("; {} without a target left out", counted(splits_->unlabeled, "row"));
  if (splits_->unassigned > 0)
    text += fmt::format("; {} of no split left out", counted(splits_->unassigned, "row"));
  return text;
}

PredictorInput TableData::predictor_input() const {
  PredictorInput input{.delimiter = given_.delimiter == detected ? ',' : given_.delimiter,
                       .has_header = given_.header != Header::absent};
  for (const InputColumn& column : columns_.inputs)
    input.fields.push_back({column.name, index_of_unnamed(column.name)});
  input.label = index_of_unnamed(target().name);
  return input;
}

}  // namespace tapestry
