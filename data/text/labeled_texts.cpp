#include "data/text/labeled_texts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "autograd/check.hpp"
#include "autograd/random.hpp"
#include "data/class_folder.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/option_error.hpp"
#include "data/table/label_column.hpp"
#include "data/text/conversations.hpp"
#include "data/text/labeled_table.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_label_bytes = 256, max_text_bytes = std::size_t{1} << 20;
constexpr std::size_t max_total_bytes = std::size_t{1} << 30;
constexpr std::string_view label_prefix = "__label__";

std::string without_gz(std::string_view name) {
  return std::string(name.substr(0, name.size() - (name.ends_with(".gz") ? 3 : 0)));
}

// Returns whether the name is that of a text: one with this ending or, as in 20 newsgroups, a
// number.
bool is_txt(std::string_view name) {
  return lower_ascii(without_gz(name)).ends_with(".txt") ||
         std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string place_of(const FileLine& line) {
  return fmt::format("{}: line {}", printable(line.path), line.number);
}

}  // namespace

const FileKind text_files_of_classes{
    .noun = "texts", .expected = "*.txt files", .has_ending = is_txt, .is_lenient = true};

std::string read_labeled_file(const std::string& path) {
  std::string text = read_text(path);
  expect_input(text.size() <= max_text_bytes,
               "{}: the text has {} bytes; expected at most {}; divide it", printable(path),
               text.size(), max_text_bytes);
  return text;
}

std::string without_label(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with(label_prefix)) return std::string(line);
  return std::string(trimmed(line.substr(std::min(line.find_first_of(" \t"), line.size()))));
}

namespace {

// --- lines of fastText ---

// Returns the name after the first prefix that follows white space; empty if there is none.
std::string_view inner_label(std::string_view text) {
  for (const char space : {' ', '\t'})
    if (const auto at = text.find(space + std::string(label_prefix)); at != text.npos) {
      const std::string_view label = text.substr(at + 1 + label_prefix.size());
      return label.substr(0, label.find_first_of(" \t"));
    }
  return {};
}

LabeledRow prefixed_row(const FileLine& line, std::int64_t rules) {
  std::string_view rest = trimmed(line.text);
  if (!rest.starts_with(label_prefix)) {
    const std::string_view label = inner_label(rest);
    line.expect(label.empty(),
                "the label \"{}\" stands behind the text; expected {}NAME and then the text; move "
                "the label to the beginning",
                shown(label), label_prefix);
    line.fail(fmt::format("found \"{}\"; expected {}NAME and a text; correct the line", shown(rest),
                          label_prefix));
  }
  const std::string_view second = inner_label(rest);
  rest.remove_prefix(label_prefix.size());
  const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  LabeledRow row{.text = std::string(trimmed(rest.substr(end))),
                 .label = std::string(rest.substr(0, end))};
  line.expect(!row.text.starts_with(label_prefix) && (rules == 1 || second.empty()),
              "has more than one label, \"{}\" and \"{}\"; expected one for each text; remove the "
              "others",
              shown(row.label), shown(second));
  return row;
}

// --- files ---

// Calls `take` with the first line that is not empty, up to 1 MiB of it, if there is one.
void with_first_line(const std::string& path, const std::function<void(const FileLine&)>& take) {
  std::string beginning(max_text_bytes, ' ');
  InputFile file(path);
  beginning.resize(file.read(beginning));
  std::erase(beginning, '\0');  // of UTF-16
  std::string_view rest = beginning;
  for (const std::string_view mark : {"\xEF\xBB\xBF", "\xFF\xFE", "\xFE\xFF"})
    if (rest.starts_with(mark)) rest.remove_prefix(mark.size());
  for (std::int64_t number = 1; const auto line = next_line(rest); ++number)
    if (!trimmed(*line).empty()) return take({path, number, trimmed(*line)});
}

bool has_label_of_fasttext(std::string_view line) {
  return line.starts_with(label_prefix) || !inner_label(line).empty();
}

LabeledFormat format_of(const FileLine& first) {
  const std::string_view text = first.text;
  const std::string name = lower_ascii(without_gz(first.path));
  if (text.starts_with('{')) return LabeledFormat::jsonl;
  if (has_label_of_fasttext(text)) return LabeledFormat::fasttext;
  if (name.ends_with(".csv")) return LabeledFormat::csv;
  expect_option(text.find('\t') != text.npos || name.ends_with(".tsv"), "format",
                "{}: found \"{}\"; expected a JSON object, {}NAME and a text, a text and a label "
                "with a tab between them, or a file *.csv",
                place_of(first), shown(text), label_prefix);
  return LabeledFormat::tsv;
}

// Returns the rows of a file. Sets what `options` leaves open, but for tables.
LabeledRows read_rows(const std::string& path, LabeledTextOptions& options,
                      std::optional<TableForm>& form) {
  if (options.format == LabeledFormat::detected)
    with_first_line(path, [&](const FileLine& line) { options.format = format_of(line); });
  if (options.format != LabeledFormat::fasttext && options.format != LabeledFormat::detected)
    return read_table_rows(path, options, form);
  if (options.text_field.empty()) options.text_field = "text";
  if (options.label_field.empty()) options.label_field = "label";
  LabeledRows rows{.path = path};
  for_each_line(path, [&](const FileLine& line) {
    if (trimmed(line.text).empty()) return;
    rows.all.push_back(prefixed_row(line, options.rules));
    rows.all.back().line = line.number;
  });
  return rows;
}

// Trims labels. Throws InputError for a label or a text that is too long, a label that is empty or
// cannot be shown, and if there is no row.
void check(LabeledRows& rows) {
  expect_input(!rows.all.empty(),
               "{}: has no labeled text; expected a text and a label per line; add some",
               printable(rows.path));
  for (LabeledRow& row : rows.all) {
    if (!row.has_label) continue;
    row.label = trimmed(row.label);
    if (row.label.empty())
      rows.at(row).fail(
          "the label is empty; expected the name of a class; add it, or remove the "
          "line");
    if (row.label.size() > max_label_bytes || !is_printable(row.label))
      rows.at(row).fail(
          fmt::format("label \"{}\": expected at most {} bytes without control "
                      "characters; correct it",
                      shown(row.label), max_label_bytes));
    if (row.text.size() > max_text_bytes)
      rows.at(row).fail(fmt::format("the text has {} bytes; expected at most {}; divide it",
                                    row.text.size(), max_text_bytes));
  }
}

std::vector<std::string> classes_of(const LabeledRows& rows) {
  std::set<std::string> names;
  for (const LabeledRow& row : rows.all)
    if (row.has_label) names.insert(row.label);
  expect_option(!names.empty(), "label_field", "{}: no row has a label", printable(rows.path));
  expect_option(names.size() <= most_classes, "label_field",
                "{}: {} different labels, such as \"{}\"; expected at most {}",
                printable(rows.path), names.size(), shown(*names.begin()), most_classes);
  return sorted_classes(names);
}

LabeledTexts& split_of(LabeledSplits& all, int split) {
  return split == 0 ? all.train : split == 1 ? all.validation : all.test;
}

// Adds the rows of a file to their splits; `split` is that of the file.
void add_rows(LabeledSplits& all, LabeledRows rows, int split) {
  std::map<std::string_view, std::int32_t> labels;
  for (const std::string& name : all.options.classes)
    labels.emplace(name, static_cast<std::int32_t>(labels.size()));
  const auto leave_out = [&](LeftOut& kind, const LabeledRow& row) {
    if (kind.count++ == 0)
      kind.first =
          fmt::format("{}: line {}", fs::path(rows.path).filename().string(), rows.at(row).number);
  };
  bool is_any_read = false, is_any_labeled = false;
  for (LabeledRow& row : rows.all) {
    LeftOut* const without = !row.has_label              ? &all.unlabeled
                             : trimmed(row.text).empty() ? &all.empty
                             : row.is_unassigned         ? &all.unassigned
                                                         : nullptr;
    const auto label = labels.find(row.label);
    expect_option(!row.has_label || label != labels.end(), "class_names",
                  "{}: label \"{}\" is not one of the classes {}", place_of(rows.at(row)),
                  shown(row.label), list_briefly(all.options.classes));
    is_any_labeled |= row.has_label;
    if (without != nullptr) {
      leave_out(*without, row);
      continue;
    }
    LabeledTexts& texts = split_of(all, row.split.value_or(split));
    texts.texts.push_back(std::move(row.text));
    texts.labels.push_back(label->second);
    is_any_read = true;
  }
  expect_input(is_any_labeled, "{}: no row has a label; add labels, or remove the file",
               printable(rows.path));
  expect_input(is_any_read,
               "{}: all texts are empty; expected at least one with characters; give other texts",
               printable(rows.path));
}

// The paths of the files of the splits, as split_named() numbers them; empty: there is none.
using SplitFiles = std::array<std::string, 3>;

SplitFiles files_in(const std::string& folder) {
  constexpr std::array endings{".jsonl", ".json", ".csv", ".tsv", ".txt"};
  SplitFiles files;
  for (const std::string& name : file_names(folder)) {
    const fs::path plain = lower_ascii(without_gz(name));
    const auto split = split_named(plain.stem().string());
    if (!split || plain.stem() == "training" || plain.stem() == "testing" ||
        std::ranges::find(endings, plain.extension()) == endings.end())
      continue;
    const std::string path = (fs::path(folder) / name).string();
    expect_input(files[*split].empty(), "{}: is the same split as {}; remove one", printable(path),
                 printable(files[*split]));
    files[*split] = path;
  }
  return files;
}

LabeledSplits read_files(const SplitFiles& files, const LabeledTextOptions& options) {
  LabeledSplits all{.options = options};
  std::vector<TableForm> forms;
  for (int split = 0; split < 3; ++split) {
    if (files[split].empty()) continue;
    std::optional<TableForm> form;
    if (!forms.empty()) form = forms.front();
    const bool may_lack_labels = split == 2 && !files[0].empty() && !options.whole;
    LabeledRows rows;
    bool has_labels = true;
    try {
      rows = read_rows(files[split], all.options, form);
      has_labels = rows.all.empty() || std::ranges::any_of(rows.all, &LabeledRow::has_label);
    } catch (const OptionError& error) {
      if (!may_lack_labels || error.option != "label_field") throw;
      has_labels = false;
    }
    if (may_lack_labels && !has_labels) {  // a model is to predict it
      all.remarks.push_back(printable(files[split]) + " has no labels, and is not the test split");
      continue;
    }
    if (form) forms.push_back(*form);
    if (!rows.columns.empty() && all.columns.empty()) {
      all.columns = std::move(rows.columns);
      all.remarks = std::move(rows.remarks);
    }
    check(rows);
    const bool is_only = std::ranges::count_if(files, &std::string::empty) == 2;
    for (const LabeledRow& row : rows.all)
      if (!is_only && row.split && *row.split != split)
        rows.at(row).fail(
            "the column of splits names another split than the file; remove the column, or write "
            "all rows into one file");
    if (all.options.classes.empty()) all.options.classes = classes_of(rows);
    add_rows(all, std::move(rows), split);
  }
  if (!forms.empty()) set_form(all.options, forms);
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
    std::string text = read_labeled_file(path);
    bytes += text.size();
    expect_input(bytes <= max_total_bytes, "{}: the texts have more than 1 GiB; give less",
                 printable(path));
    if (trimmed(text).empty()) {
      if (all.empty.count++ == 0) all.empty.first = path;
      continue;
    }
    split.texts.push_back(std::move(text));
    split.labels.push_back(label);
  }
  return split;
}

LabeledSplits read_folder(const std::string& path, const LabeledTextOptions& options) {
  ClassFolder folder = list_class_folder(
      path, text_files_of_classes,
      {.classes = options.classes, .whole = options.whole, .rules = options.rules});
  LabeledSplits all{.options = options};
  all.options.format = LabeledFormat::folder;
  all.options.classes = folder.classes;
  all.unlabeled.count = folder.unlabeled;
  all.unused = folder.unused;
  all.unused_count = folder.ignored;
  all.train = read_texts(std::move(folder.train), all);
  all.validation = read_texts(std::move(folder.validation), all);
  all.test = read_texts(std::move(folder.test), all);
  return all;
}

// Moves a share of each class from the training to the validation split.
void divide(LabeledSplits& all) {
  LabeledTexts whole = std::exchange(all.train, {});
  std::vector<std::uint64_t> hashes;
  for (const std::string& text : whole.texts) hashes.push_back(text_hash(text));
  const HeldExamples held = divide_by_rules(all.options.rules, hashes, whole.labels,
                                            {.validation = all.options.validation_share});
  for (std::int64_t i = 0; i < std::ssize(whole.texts); ++i) {
    LabeledTexts& split = split_of(all, std::ranges::binary_search(held.validation, i) ? 1 : 0);
    split.texts.push_back(std::move(whole.texts[i]));
    split.labels.push_back(whole.labels[i]);
  }
  all.moved = held.moved;
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

namespace {

bool is_labeled_text_folder(const std::string& path) {
  if (!files_in(path)[0].empty()) return true;
  std::int64_t texts = 0, classes = 0;
  for (const std::string& name : file_names(path)) {
    const std::string inner = (fs::path(path) / name).string();
    texts += !is_folder(inner) && is_txt(name);
    classes += is_class_folder(inner, text_files_of_classes);
  }
  return texts == 0 ? is_class_folder(path, text_files_of_classes) : classes > 1;
}

}  // namespace

bool has_fasttext_labels(const std::string& path) {
  bool has_labels = false;
  with_first_line(path,
                  [&](const FileLine& line) { has_labels = has_label_of_fasttext(line.text); });
  return has_labels;
}

bool looks_labeled(const std::string& path) {
  if (is_folder(path)) return is_labeled_text_folder(path);
  std::error_code unseen;
  if (!fs::is_regular_file(path, unseen)) return false;
  bool looks_so = false;
  with_first_line(path, [&](const FileLine& line) {
    const JsonValue object = line.text.starts_with('{') && json_depth(line.text) <= max_json_depth
                                 ? JsonValue::parse_or_null(line.text)
                                 : JsonValue();
    looks_so = object.is_object()
                   ? !is_conversation(object)
                   : has_label_of_fasttext(line.text) || line.text.find('\t') != line.text.npos ||
                         line.text.find("\"label\"") != line.text.npos;
  });
  return looks_so;
}

std::string training_file(const std::string& path) {
  return is_folder(path) ? files_in(path)[0] : path;
}

LabeledSplits load_labeled_texts(const std::string& path, const LabeledTextOptions& options) {
  LabeledSplits all;
  if (!is_folder(path)) {
    expect_option(options.format != LabeledFormat::folder, "format",
                  "{}: expected a folder with a folder per class", printable(path));
    all = read_files({path}, options);
  } else if (const SplitFiles files = files_in(path);
             (!files[0].empty() || (options.whole && files != SplitFiles{})) &&
             options.format != LabeledFormat::folder) {
    all = read_files(files, options);
  } else {
    all = read_folder(path, options);
  }
  if (options.whole) {
    join_splits(all, path);
    return all;
  }
  if (all.validation.texts.empty()) divide(all);
  expect_option(!all.train.texts.empty() && !all.validation.texts.empty(), "validation_fraction",
                "leaves {} texts for training and {} for validation; expected at least one of each",
                all.train.texts.size(), all.validation.texts.size());
  return all;
}

}  // namespace tapestry
