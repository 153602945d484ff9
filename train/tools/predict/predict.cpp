#include "train/tools/predict/predict.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/table/record_stream.hpp"
#include "data/table/records.hpp"
#include "data/text/printable.hpp"

namespace tapestry {
namespace {

using Kind = PredictorInput::Kind;

// The examples of an input, one after the other.
class Examples {
 public:
  virtual ~Examples() = default;
  virtual bool next(SourceExample& example) = 0;
};

std::string line_text(std::int64_t line) { return fmt::format("line {}", line); }

// --- rows of delimited text ---

class RowExamples final : public Examples {
 public:
  RowExamples(const std::string& data, ExampleForm& form)
      : form_(form), stream_(data, form.input.delimiter) {
    has_first_ = stream_.next(first_);
    while (has_first_ && is_skipped(first_)) has_first_ = stream_.next(first_);
    expect_input(has_first_, "{}: is empty; expected rows", stream_.name());
    if (form.input.has_header) {
      form.header = first_.raw;
      form.names = first_.cells;
      for (const PredictorField& field : form.input.fields) columns_.push_back(column_of(field));
      count_ = std::ssize(first_.cells);
      has_first_ = false;
    } else {
      count_ = std::ssize(first_.cells);
      for (std::int64_t i = 0; i < count_; ++i)
        form.names.push_back(fmt::format("column {}", i + 1));
      for (const PredictorField& field : form.input.fields) columns_.push_back(place_of(field));
    }
  }

  bool next(SourceExample& example) override {
    if (!has_first_ && !stream_.next(first_)) return false;
    has_first_ = false;
    example = {.place = line_text(first_.line), .raw = std::move(first_.raw)};
    const std::int64_t found = std::ssize(first_.cells);
    if (found != count_)
      example.flaw = fmt::format("expected {} cells as in the first row, found {}", count_, found);
    else
      for (const std::int64_t column : columns_) example.fields.push_back(first_.cells[column]);
    example.cells = std::move(first_.cells);
    return true;
  }

 private:
  // Returns whether a record before the header is none: a comment, or a line "sep=;".
  bool is_skipped(const StreamedRecord& record) const {
    if (record.raw.starts_with("sep=") && record.raw.size() == 5) return true;
    return record.raw.starts_with('#') && form_.input.has_header &&
           std::ranges::none_of(form_.input.fields, [&](const PredictorField& field) {
             return std::ranges::count(record.cells, field.name) > 0;
           });
  }

  std::int64_t column_of(const PredictorField& field) const {
    const auto found = std::ranges::find(form_.names, field.name);
    expect_input(found != form_.names.end(),
                 "{}: line {}: no column is named {}, which the model reads; found {}",
                 stream_.name(), first_.line, shown(field.name),
                 printable(list_briefly(form_.names)));
    return found - form_.names.begin();
  }

  // Returns the column of a field in a table without header, which may lack that of the answers.
  std::int64_t place_of(const PredictorField& field) const {
    const std::int64_t label = form_.input.label;
    std::int64_t last = label;
    for (const PredictorField& one : form_.input.fields) last = std::max(last, one.column);
    const bool lacks_label = label >= 0 && count_ == last;
    const std::int64_t column = field.column - (lacks_label && field.column > label);
    expect_input(column < count_, "{}: line {}: expected at least {} columns, found {}",
                 stream_.name(), first_.line, lacks_label ? last : last + 1, count_);
    return column;
  }

  ExampleForm& form_;
  RecordStream stream_;
  StreamedRecord first_{};  // the next record, if it was read before
  bool has_first_ = false;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> columns_{};
};

// --- objects, and lines ---

// Returns the member "a.b" of an object as a text; nothing if it has none.
std::optional<std::string> member_text(const JsonValue& object, const std::string& name) {
  if (object.contains(name)) {
    const JsonValue& value = object.at(name);
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
    if (const std::string outer = name.substr(0, dot);
        object.contains(outer) && object.at(outer).is_object())
      if (auto text = member_text(object.at(outer), name.substr(dot + 1))) return text;
  return std::nullopt;
}

class LineExamples final : public Examples {
 public:
  LineExamples(const std::string& data, const PredictorInput& input)
      : input_(input), stream_(data, no_delimiter) {}

  bool next(SourceExample& example) override {
    StreamedRecord record;
    do
      if (!stream_.next(record)) return false;
    while (input_.kind == Kind::objects && record.cells.front().empty());
    example = {.place = line_text(record.line), .raw = std::move(record.raw)};
    if (input_.kind == Kind::lines)
      example.fields = example.cells = std::move(record.cells);
    else
      read_object(example);
    return true;
  }

 private:
  void read_object(SourceExample& example) const {
    const JsonValue object = JsonValue::parse_or_null(trimmed(example.raw));
    if (!object.is_object()) {
      example.flaw = "is no JSON object";
      return;
    }
    for (const PredictorField& field : input_.fields) {
      auto text = member_text(object, field.name);
      if (!text) {
        example.flaw = fmt::format("the field {} is missing", shown(field.name));
        return;
      }
      example.fields.push_back(*std::move(text));
    }
  }

  const PredictorInput& input_;
  RecordStream stream_;
};

// --- files ---

void add_files(const std::string& folder, const FileKind& kind, std::vector<std::string>& paths) {
  for (const std::string& name : file_names(folder)) {
    if (name.starts_with('.') || name == "__MACOSX") continue;
    const std::string path = (std::filesystem::path(folder) / name).string();
    if (is_folder(path))
      add_files(path, kind, paths);
    else if (kind.has_ending(name))
      paths.push_back(path);
  }
}

// Returns the file, or the files of a folder and the folders in it.
std::vector<std::string> files_of(const std::string& data, const FileKind& kind) {
  if (!is_folder(data)) {
    require_file(data);
    return {data};
  }
  std::vector<std::string> paths;
  add_files(data, kind, paths);
  expect_input(!paths.empty(), "{}: has no {}; give another folder", data, kind.expected);
  return paths;
}

// Examples that are texts, each its own place: paths of files, or what the task made.
class ListedExamples final : public Examples {
 public:
  explicit ListedExamples(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  bool next(SourceExample& example) override {
    if (at_ == texts_.size()) return false;
    const std::string& text = texts_[at_++];
    example = {.place = text, .raw = text, .cells = {text}, .fields = {text}};
    return true;
  }

 private:
  std::vector<std::string> texts_;
  std::size_t at_ = 0;
};

std::unique_ptr<Examples> examples_of(const std::string& data, ExampleForm& form) {
  switch (form.input.kind) {
    case Kind::rows:
      return std::make_unique<RowExamples>(data, form);
    case Kind::objects:
    case Kind::lines:
      return std::make_unique<LineExamples>(data, form.input);
    case Kind::files:
      return std::make_unique<ListedExamples>(files_of(data, form.input.files));
    case Kind::made:
      return std::make_unique<ListedExamples>(form.input.made());
  }
  throw_unhandled("kind of the examples");
}

// --- output ---

// Returns the names of the columns; one that is taken gets the ending _2, or the next that is free.
std::vector<std::string> free_names(const std::vector<PredictedColumn>& columns,
                                    std::vector<std::string> taken) {
  std::vector<std::string> names;
  for (const PredictedColumn& column : columns) {
    std::string name = column.name;
    for (int n = 2; std::ranges::count(taken, name) > 0; ++n)
      name = fmt::format("{}_{}", column.name, n);
    names.push_back(name);
    taken.push_back(name);
  }
  return names;
}

class DelimitedWriter final : public PredictionSink {
 public:
  DelimitedWriter(const std::vector<PredictedColumn>& columns,
                  std::function<bool(std::string_view)> write)
      : columns_(columns), write_(std::move(write)) {}

  void begin(const ExampleForm& form) override {
    kind_ = form.input.kind;
    expect_input(kind_ != Kind::objects,
                 "the data are objects, whose members are no columns; write them as JSONL: --out "
                 "NAME.jsonl");
    delimiter_ = kind_ == Kind::rows ? form.input.delimiter : ',';
    count_ = std::ssize(form.names);
    std::string row = form.header;
    std::vector<std::string> taken = form.names;
    if (kind_ == Kind::rows && !form.input.has_header) return;
    if (kind_ != Kind::rows) taken = {row = form.input.fields.front().name};
    for (const std::string& name : free_names(columns_, taken)) add(row, name);
    write_(row + '\n');
  }

  bool take(const SourceExample& example, const Prediction& prediction) override {
    std::string row = kind_ == Kind::rows ? example.raw : csv_quoted(example.raw, delimiter_);
    if (kind_ == Kind::rows)
      for (std::int64_t cell = std::ssize(example.cells); cell < count_; ++cell) row += delimiter_;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      add(row, prediction.flaw.empty() ? prediction.cells[i] : "");
    return write_(row + '\n');
  }

 private:
  void add(std::string& row, std::string_view cell) const {
    row += delimiter_;
    row += csv_quoted(cell, delimiter_);
  }

  std::vector<PredictedColumn> columns_;
  std::function<bool(std::string_view)> write_;
  Kind kind_ = Kind::rows;
  char delimiter_ = ',';
  std::int64_t count_ = 0;
};

class ObjectWriter final : public PredictionSink {
 public:
  ObjectWriter(const std::vector<PredictedColumn>& columns,
               std::function<bool(std::string_view)> write)
      : columns_(columns), write_(std::move(write)) {}

  void begin(const ExampleForm& form) override {
    kind_ = form.input.kind;
    own_names_ = form.names;
    if (kind_ != Kind::rows && kind_ != Kind::objects)
      own_names_ = {form.input.fields.front().name};
    names_ = free_names(columns_, own_names_);
  }

  bool take(const SourceExample& example, const Prediction& prediction) override {
    std::string object = kind_ == Kind::objects ? members_of(example.raw) : cells_of(example);
    // Members of objects differ from one to the other, and so may a clash of names.
    const std::vector<std::string> names =
        kind_ == Kind::objects ? free_names(columns_, member_names_of(example.raw)) : names_;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool has_cell = prediction.flaw.empty() && !prediction.cells[i].empty();
      object += fmt::format("{}{}: {}", object.size() > 1 ? ", " : "", JsonValue(names[i]).dump(),
                            !has_cell               ? "null"
                            : columns_[i].is_number ? prediction.cells[i]
                                                    : JsonValue(prediction.cells[i]).dump());
    }
    return write_(object + "}\n");
  }

 private:
  // Returns an object without its closing brace; one that cannot be read becomes a member "row".
  static std::string members_of(const std::string& raw) {
    const std::string_view text = trimmed(raw);
    if (!JsonValue::parse_or_null(text).is_object())
      return "{\"row\": " + JsonValue(std::string(text)).dump();
    return std::string(trimmed(text.substr(0, text.size() - 1)));
  }
  static std::vector<std::string> member_names_of(const std::string& raw) {
    std::vector<std::string> names;
    const JsonValue object = JsonValue::parse_or_null(trimmed(raw));
    if (object.is_object())
      for (const auto& [name, value] : object.items()) names.push_back(name);
    return names;
  }

  std::string cells_of(const SourceExample& example) const {
    std::string object = "{";
    for (std::size_t i = 0; i < std::min(own_names_.size(), example.cells.size()); ++i)
      object += fmt::format("{}{}: {}", i > 0 ? ", " : "", JsonValue(own_names_[i]).dump(),
                            JsonValue(example.cells[i]).dump());
    return object;
  }

  std::vector<PredictedColumn> columns_;
  std::function<bool(std::string_view)> write_;
  Kind kind_ = Kind::rows;
  std::vector<std::string> own_names_{}, names_{};
};

// Returns the place of the first example for which the predictor throws, or else of all.
std::string failing_place(const Predictor& predictor, std::span<const ExampleFields> examples,
                          std::span<const std::string> places) {
  for (std::size_t i = 0; i < examples.size(); ++i) try {
      predictor.predict(examples.subspan(i, 1));
    } catch (const std::exception&) {
      return places[i];
    }
  return places.front() + " to " + places.back();
}

}  // namespace

std::vector<Prediction> predictions_of(const Predictor& predictor, const std::string& task,
                                       std::span<const ExampleFields> examples,
                                       std::span<const std::string> places) try {
  std::vector<Prediction> all;
  if (!examples.empty()) all = predictor.predict(examples);
  expect_input(all.size() == examples.size(),
               "task {}: TaskSpec::predictor: {} predictions of {} examples; expected one for each",
               task, all.size(), examples.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    expect_input(!all[i].flaw.empty() || all[i].cells.size() == predictor.columns.size(),
                 "task {}: TaskSpec::predictor: {} cells for {}; expected {}, one for each column",
                 task, all[i].cells.size(), places[i], predictor.columns.size());
  return all;
} catch (const InputError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  throw InputError(fmt::format(
      "task {}: TaskSpec::predictor: {}: {}; return a Prediction::flaw for what cannot be read",
      task, failing_place(predictor, examples, places), error.what()));
}

PredictedCount predict_all(const Predictor& predictor, const std::string& task,
                           const std::string& data, PredictionSink& sink) {
  constexpr std::size_t at_once = 512, most_flaws = 10;
  ExampleForm form{.input = predictor.input};
  const auto examples = examples_of(form.input.path.empty() ? data : form.input.path, form);
  sink.begin(form);
  PredictedCount count;
  std::vector<SourceExample> block(at_once);
  std::vector<ExampleFields> fields;
  std::vector<std::string> places;
  while (true) {
    std::size_t size = 0;
    fields.clear();
    places.clear();
    for (; size < at_once && examples->next(block[size]); ++size) {
      if (!block[size].flaw.empty()) continue;
      fields.push_back(std::move(block[size].fields));
      places.push_back(block[size].place);
    }
    if (size == 0) return count;
    std::vector<Prediction> predicted = predictions_of(predictor, task, fields, places);
    auto next = predicted.begin();
    for (std::size_t i = 0; i < size; ++i) {
      const SourceExample& example = block[i];
      const Prediction prediction =
          example.flaw.empty() ? std::move(*next++) : Prediction{.flaw = example.flaw};
      ++count.examples;
      if (!prediction.flaw.empty() && count.flawed++ < static_cast<std::int64_t>(most_flaws))
        count.flaws.push_back(example.place + ": " + prediction.flaw);
      if (!sink.take(example, prediction)) return count;
    }
  }
}

std::unique_ptr<PredictionSink> prediction_writer(
    const std::vector<PredictedColumn>& columns, bool as_objects,
    std::function<bool(std::string_view bytes)> write) {
  if (as_objects) return std::make_unique<ObjectWriter>(columns, std::move(write));
  return std::make_unique<DelimitedWriter>(columns, std::move(write));
}

}  // namespace tapestry
