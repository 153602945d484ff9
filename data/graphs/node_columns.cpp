#include "data/graphs/node_columns.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <set>
#include <unordered_set>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/table/label_column.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

std::string table_path(const std::string& folder, const std::string& name) {
  const std::optional<std::string> path = find_table(folder, name);
  expect_input(path.has_value(), "{}: expected a file {}, found {}; give {}", folder, name,
               path ? "" : list_briefly(file_names(folder)), node_table_files);
  return *path;
}

// Returns a text in lower case, without what is no letter or digit: "nodeid" of "Node_ID".
std::string plain(const std::string& text) {
  std::string kept;
  for (const unsigned char c : text)
    if (std::isalnum(c)) kept += static_cast<char>(std::tolower(c));
  return kept;
}

// Returns the columns with these plain names, in the order of the names.
TableColumns columns_called(const Table& table, const std::vector<std::string>& wanted) {
  TableColumns found;
  for (const std::string& name : wanted)
    for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j)
      if (plain(table.columns()[j].name) == name) found.push_back(j);
  return found;
}

// Returns what a name says of an end of edges: "source" of "Source_ID", "1" of "node1".
std::string end_name(const std::string& name) {
  std::string text = plain(name);
  for (const std::string word : {"nodeid", "id", "idx", "node", "vertex"}) {
    if (text.size() > word.size() && text.ends_with(word)) text.erase(text.size() - word.size());
    if (text.size() > word.size() && text.starts_with(word)) text.erase(0, word.size());
  }
  return text;
}

constexpr std::pair<const char*, const char*> names_of_ends[] = {
    {"source", "target"}, {"source", "destination"},
    {"source", "dest"},   {"src", "dst"},
    {"src", "dest"},      {"src", "tgt"},
    {"src", "target"},    {"from", "to"},
    {"u", "v"},           {"1", "2"},
    {"head", "tail"},     {"start", "end"},
    {"citing", "cited"},  {"sender", "receiver"},
    {"subject", "object"}};

// Returns the split of the nodes that have true in a column such as train_mask or is_train, or
// nothing.
std::optional<int> split_of_mask(const TableColumn& column) {
  const std::string name = plain(column.name);
  const std::string word = name.substr(std::min<std::size_t>(2, name.size()));
  if ((name.starts_with("is") || name.starts_with("in")) && word != "valid" && word != "dev")
    return split_named(word);
  return name.ends_with("mask") ? split_named(name.substr(0, name.size() - 4)) : std::nullopt;
}

// Returns the columns whose names are those of the ends of edges; nothing if there are none.
TableColumns ends_named(const std::vector<std::string>& names) {
  for (const auto& [from, to] : names_of_ends) {
    TableColumns ends;
    for (const char* end : {from, to})
      for (std::int64_t j = 0; j < std::ssize(names); ++j)
        if (end_name(names[j]) == end) ends.push_back(j);
    if (ends.size() == 2 && end_name(names[ends[0]]) == from && end_name(names[ends[1]]) == to)
      return ends;
  }
  return {};
}

// Returns the form of edges: their ids may be numbers, whose marks are not decided.
TableOptions form_of_edges() {
  TableOptions form;
  form.decimal = '.';
  form.thousands = no_mark;
  return form;
}

// Returns the two columns with the ends of the edges.
TableColumns ends_of(const Table& table, const NodeTableOptions& options) {
  const auto& columns = table.columns();
  TableColumns found;
  for (const std::string& name : options.edge_columns)
    found.push_back(table.column_named(name, "edge_columns"));
  if (options.edge_columns.empty() && options.rules == 1) {
    const TableColumns from = columns_called(table, {"source", "from", "src"}),
                       to = columns_called(table, {"target", "to", "dst"});
    const std::int64_t first = columns.front().name == index_column ? 1 : 0;
    if (!from.empty() && !to.empty()) return {from.front(), to.front()};
    if (std::ssize(columns) >= first + 2) return {first, first + 1};
  } else if (options.edge_columns.empty()) {
    if (const TableColumns named = ends_named(table.names()); !named.empty()) return named;
    for (std::int64_t j = 0; j < std::ssize(columns); ++j)
      if (columns.size() == 2 || !is_row_index(table, j)) found.push_back(j);
  }
  expect_option(found.size() == 2 && found[0] != found[1], "edge_columns",
                "{}: expected the columns source and target, found {}", table.path(),
                list_briefly(table.names()));
  return found;
}

TableOptions written(const NodeTableOptions& given) {
  TableOptions options = given.table;
  if (given.rules > 1) return options;
  options.header = Header::present;
  options.thousands = no_mark;
  return options;
}

}  // namespace

std::optional<std::string> find_table(const std::string& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"})
    if (std::string path = (std::filesystem::path(folder) / (name + ending)).string();
        has_file(path))
      return path;
  return std::nullopt;
}

bool is_edge_table(const std::string& path) try {
  constexpr std::size_t least_shared = 10;
  if (!has_table_ending(path) || is_folder(path) || !has_file(path)) return false;
  const Table table(path, form_of_edges());
  const TableColumns named = ends_named(table.names());
  if (named.empty() || table.options().header == Header::absent) return false;
  std::unordered_set<std::string_view> ends[2], shared;
  for (const int end : {0, 1}) {
    const TableColumn& column = table.columns()[named[end]];
    const bool are_ids = column.kind == ColumnKind::numbers ? column.counts.are_integers
                                                            : column.kind == ColumnKind::texts;
    if (!are_ids) return false;
    for (std::int64_t row = 0; row < table.rows(); ++row)
      ends[end].insert(table.raw(row, named[end]));
  }
  for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j)
    if (!has_column(named, j) && is_label_name(table.columns()[j].name) &&
        table.columns()[j].kind != ColumnKind::empty)
      return false;
  for (const std::string_view id : ends[1])
    if (ends[0].contains(id)) shared.insert(id);
  return shared.size() >= least_shared && 4 * shared.size() >= ends[1].size();
} catch (const InputError&) {
  return false;
}

void fail_cell(const Table& table, std::int64_t row, std::int64_t column, const char* option,
               const std::string& problem) {
  const std::string message = table.place(row, column) + ": " + problem;
  if (option != nullptr) throw OptionError(option, message);
  throw InputError(message);
}

bool has_column(const TableColumns& columns, std::int64_t column) {
  return std::ranges::find(columns, column) != columns.end();
}

GraphTables::GraphTables(const std::string& folder, const NodeTableOptions& given)
    : options(given), table(table_path(folder, "nodes.csv"), written(given)) {
  options.table = table.options();
  std::unordered_set<std::string> seen;
  for (const TableColumn& column : table.columns())
    expect_input(seen.insert(column.name).second,
                 "{}: two columns are named {}; rename one of them", path(), shown(column.name));
  open_edges(folder);
  id = options.id_column.empty() ? find_id() : table.column_named(options.id_column, "id_column");
  options.id_column = name(id);
  read_ids();
  const auto is_node = [&](std::int64_t end) {
    return numbers.contains(edges->columns()[end].name);
  };
  if (options.edge_header == Header::detected && options.edge_columns.empty() &&
      std::ranges::all_of(ends, is_node)) {
    options.edge_header = Header::absent;
    open_edges(folder);
  }
  options.edge_header = edges->options().header;
  options.edge_columns = {edges->columns()[ends[0]].name, edges->columns()[ends[1]].name};
  find_split();
  const bool may_lack_labels = options.whole && !options.class_names.empty();
  if (options.label_column.empty())
    label = find_label();
  else if (may_lack_labels && !table.find(options.label_column))
    label = -1;
  else
    label = table.column_named(options.label_column, "label_column");
  if (label >= 0) options.label_column = name(label);
  if (options.rules > 1 && label >= 0 && has_no_text(table.rows() - 1, label))
    table.expect_no_totals(id);
  find_features();
  if (label >= 0)
    read_labels();
  else
    labels.assign(ids.size(), ignored_target);
}

bool GraphTables::has_no_text(std::int64_t row, std::int64_t column) const {
  constexpr std::string_view old[] = {"",     "NA",   "N/A",  "NaN", "nan", "NAN",
                                      "null", "NULL", "Null", "-",   "?"};
  const std::string_view cell = table.raw(row, column);
  if (options.rules == 1) return std::ranges::find(old, cell) != std::end(old);
  return cell.size() == 4 && plain(std::string(cell)) == "none"
             ? std::ranges::count(options.table.missing_words, cell) > 0
             : table.is_missing(row, column);
}

void GraphTables::open_edges(const std::string& folder) {
  TableOptions own = form_of_edges();
  own.header = options.edge_header;
  const std::string path = table_path(folder, "edges.csv");
  try {
    edges.emplace(path, own);
    if (options.rules > 1 && edges->columns().size() == 1) {
      own.delimiter = ' ';
      edges.emplace(path, own);
    }
  } catch (const OptionError& error) {
    throw OptionError("edge_" + error.option, error.what());
  }
  ends = ends_of(*edges, options);
}

// Returns whether the cells of a column are different, and the ends of all edges are among them.
bool GraphTables::may_be_id(std::int64_t column) const {
  std::unordered_set<std::string> cells;
  for (std::int64_t row = 0; row < table.rows(); ++row)
    if (!cells.insert(table.text(row, column)).second) return false;
  for (std::int64_t row = 0; row < edges->rows(); ++row)
    for (const std::int64_t end : ends)
      if (!cells.contains(edges->text(row, end))) return false;
  return true;
}

std::int64_t GraphTables::find_id() const {
  const TableColumns named = columns_called(table, {"id", "nodeid", "node", "name"});
  const std::int64_t first = named.empty() ? 0 : named.front();
  if (options.rules == 1) return first;
  TableColumns found;
  for (std::int64_t j = 0; j < std::ssize(table.columns()); ++j)
    if (may_be_id(j)) found.push_back(j);
  for (const std::int64_t column : named)
    if (std::ranges::count(found, column) > 0) return column;
  const auto is_row = [&](std::int64_t j) { return is_row_index(table, j); };
  if (!std::ranges::all_of(found, is_row)) std::erase_if(found, is_row);
  expect_option(found.size() < 2, "id_column", "{}: the columns {} each have the ends of all edges",
                path(), joined_names(table, found));
  return found.empty() ? first : found.front();
}

std::int64_t GraphTables::find_label() const {
  std::vector<std::string> names = {"label", "class", "target"}, texts;
  if (options.rules > 1) names.insert(names.end(), {"category", "sentiment"});
  TableColumns found = columns_called(table, names);
  constexpr std::int64_t few_rows = 10;
  if (options.rules > 1 && table.rows() >= few_rows)  // a text of its own in each row is a name
    std::erase_if(found, [&](std::int64_t j) {
      std::unordered_set<std::string_view> cells;
      for (std::int64_t row = 0; row < table.rows(); ++row) cells.insert(table.raw(row, j));
      return table.columns()[j].kind == ColumnKind::texts && std::ssize(cells) == table.rows();
    });
  if (found.size() == 1 || (options.rules == 1 && !found.empty())) return found.front();
  const bool are_named = !found.empty();
  for (std::int64_t j = 0; j < columns() && options.rules > 1; ++j) {
    std::unordered_set<std::string_view> classes;
    std::int64_t cells = 0;
    for (std::int64_t row = 0; row < table.rows() && classes.size() <= most_classes; ++row)
      if (!has_no_text(row, j)) ++cells, classes.insert(table.raw(row, j));
    const auto count = std::ssize(classes);
    const bool may_be_label =
        count >= 2 && count <= std::min<std::int64_t>(most_classes, cells / 2);
    if (!are_named && may_be_label && j != id && std::ranges::count(split, j) == 0)
      found.push_back(j);
    if (std::ranges::count(found, j) > 0)
      texts.push_back(fmt::format("{} ({} values)", name(j), count));
  }
  expect_option(!found.empty(), "label_column",
                "{}: no column is named {}, and none has classes; found {}", path(),
                fmt::join(names, ", "), list_briefly(table.names()));
  expect_option(found.size() == 1, "label_column", "{}: several columns may have the classes: {}",
                path(), list_briefly(texts));
  return found.front();
}

void GraphTables::find_split() {
  if (options.split_column == no_column) return;
  if (options.split_column.empty()) {
    split = columns_called(table, {"split"});
    for (std::int64_t j = 0; j < columns() && options.rules > 1; ++j)
      if (split_of_mask(table.columns()[j])) split.push_back(j);
    if (split.empty() && options.rules > 1) split = find_bare_masks();
    options.split_column = split.empty() ? no_column : joined_names(table, split);
  } else {
    split = columns_named(table, options.split_column, "split_column");
  }
  for (const std::int64_t j : split)
    expect_option(split.size() == 1 || mask_of(j), "split_column",
                  "{}: expected one column, or masks such as train_mask, found {}", path(),
                  options.split_column);
}

// Returns the columns named as splits, such as train and test, if they are masks: each node is in
// at most one of them, and in one if they are two.
TableColumns GraphTables::find_bare_masks() const {
  TableColumns found;
  for (std::int64_t j = 0; j < columns(); ++j) {
    if (!split_named(plain(name(j))) || j == id || name(j) == options.label_column) continue;
    for (const auto* used : {&options.columns, &options.ignored, &options.categorical})
      if (std::ranges::count(*used, name(j)) > 0) return {};
    found.push_back(j);
  }
  std::int64_t in_none = 0, in_training = 0;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::int64_t splits = 0;
    for (const std::int64_t j : found) {
      const std::optional<bool> is_in = flag_in(row, j);
      if (!is_in && !has_no_text(row, j)) return {};
      splits += is_in.value_or(false);
      in_training += is_in.value_or(false) && split_named(plain(name(j))) == 0;
    }
    if (splits > 1) return {};
    in_none += splits == 0;
  }
  const bool are_masks = found.size() > 2 || (found.size() == 2 && in_none == 0);
  return are_masks && in_training > 0 ? found : TableColumns();
}

// Returns the split of the nodes that have true in this column of `split`, if it is a mask.
std::optional<int> GraphTables::mask_of(std::int64_t column) const {
  const auto named = split_of_mask(table.columns()[column]);
  return named || split.size() == 1 ? named : split_named(plain(name(column)));
}

// Returns the value of true, false, 1 or 0.
std::optional<bool> GraphTables::flag_in(std::int64_t row, std::int64_t column) const {
  const std::string text = plain(table.text(row, column));
  const std::optional<double> number = number_in(table.raw(row, column), table.options());
  if (text == "true" || number == 1.0) return true;
  if (text == "false" || number == 0.0) return false;
  return std::nullopt;
}

void GraphTables::find_features() {
  for (const std::string& one : options.categorical) table.column_named(one, "categorical_columns");
  for (const std::string& one : options.ignored) table.column_named(one, "ignore_columns");
  for (const std::string& one : options.columns)
    features.push_back(table.column_named(one, "columns"));
  constexpr std::int64_t many = 20;
  for (std::int64_t j = 0; j < columns() && options.columns.empty(); ++j) {
    const TableColumn& one = table.columns()[j];
    const bool is_new = options.rules > 1;
    if (j == id || j == label || has_column(split, j) || (is_new && split_of_mask(one))) continue;
    if (one.name == index_column || (is_new && is_row_index(table, j)) ||
        (is_new && one.counts.are_integers && table.rows() >= many && strictly_ascends(table, j)))
      row_numbers.push_back(j);
    else if (std::ranges::count(options.ignored, one.name) == 0)
      features.push_back(j);
  }
}

void GraphTables::read_ids() {
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::string text = table.text(row, id);
    if (text.empty()) fail_cell(table, row, id, nullptr, "the cell is empty; give each node an id");
    const auto [place, is_new] = numbers.emplace(text, static_cast<std::int32_t>(row));
    if (!is_new)
      fail_cell(table, row, id, nullptr,
                fmt::format("node {} is also in line {}; remove one of these lines", shown(text),
                            table.line(place->second).number));
    ids.push_back(std::move(text));
  }
}

// Returns whether -1 is no label: all other labels are integers from 0 on, two or more.
bool GraphTables::has_negative_labels() const {
  std::set<double> others;
  bool found = false;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    if (has_no_text(row, label)) continue;
    const std::optional<double> number = number_in(table.raw(row, label), table.options());
    if (!number || (*number != -1 && (*number < 0 || *number != std::floor(*number)))) return false;
    if (*number == -1)
      found = true;
    else if (others.size() < 2)
      others.insert(*number);
  }
  return options.rules > 1 && found && others.size() == 2;
}

void GraphTables::read_labels() {
  std::unordered_map<std::string, std::int32_t> classes;
  for (const std::string& one : options.class_names)
    classes.emplace(one, static_cast<std::int32_t>(classes.size()));
  const bool are_given = !classes.empty(), skips_negative = has_negative_labels();
  std::optional<NumberNames> names;
  if (options.rules > 1) names.emplace(table, label, options.class_names);
  if (names) label_remark = names->remark;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::string text = table.text(row, label);
    if (names) text = names->name_of(text);
    auto found = classes.find(text);
    const bool is_negative =
        skips_negative && number_in(table.raw(row, label), table.options()).value_or(0) < 0;
    if (found == classes.end() && (is_negative || has_no_text(row, label))) {
      negative_labels += is_negative;
      labels.push_back(ignored_target);
      continue;
    }
    if (found == classes.end() && (are_given || classes.size() == most_classes)) {
      const std::int64_t line = table.line(row).number;
      expect_option(!are_given, "class_names", "{}: line {}: class {} is not one of {}", path(),
                    line, shown(text), list_briefly(options.class_names));
      fail_cell(table, row, label, "label_column",
                fmt::format("expected at most {} classes, found more", most_classes));
    }
    if (found == classes.end()) {
      options.class_names.push_back(text);
      found = classes.emplace(std::move(text), static_cast<std::int32_t>(classes.size())).first;
    }
    labels.push_back(found->second);
  }
  expect_option((options.whole && are_given) ||
                    std::ranges::any_of(labels, [](auto one) { return one != ignored_target; }),
                "label_column", "{}: column {}: no node has a label; label some nodes", path(),
                shown(options.label_column));
  if (are_given) return;
  const std::vector<std::string> found =
      std::exchange(options.class_names,
                    sorted_classes({options.class_names.begin(), options.class_names.end()}));
  for (std::size_t i = 0; i < found.size(); ++i)
    classes[options.class_names[i]] = static_cast<std::int32_t>(i);
  for (std::int32_t& one : labels)
    if (one != ignored_target) one = classes.at(found[one]);
}

std::optional<int> GraphTables::split_of(std::int64_t row) const {
  std::optional<int> of;
  if (split.empty()) return 0;
  for (const std::int64_t column : split) {
    if (has_no_text(row, column) || plain(table.text(row, column)) == "none") continue;
    const std::optional<int> of_mask = mask_of(column);
    const std::optional<bool> is_in = flag_in(row, column);
    if (!of_mask) of = split_named(plain(table.text(row, column)));
    if (of_mask ? !is_in : !of)
      fail_cell(table, row, column, "split_column",
                fmt::format("expected {}, found {}",
                            of_mask ? "true or false" : "train, validation, test or nothing",
                            shown(table.raw(row, column))));
    if (!of_mask || !*is_in) continue;
    if (of)
      fail_cell(table, row, column, "split_column",
                "the node is in two splits; choose one of them");
    of = of_mask;
  }
  return of;
}

}  // namespace tapestry
