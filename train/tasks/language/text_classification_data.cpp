#include "train/tasks/language/text_classification_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <unordered_map>

#include "autograd/counted.hpp"
#include "data/images/picture_folder.hpp"
#include "data/input_file.hpp"
#include "data/table/table.hpp"
#include "data/text/byte_pair.hpp"
#include "data/text/printable.hpp"
#include "data/text/text.hpp"
#include "data/text/unicode.hpp"
#include "data/toys/match_reports.hpp"
#include "data/validation_split.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/language/corpus.hpp"
#include "train/tasks/table_settings.hpp"

namespace tapestry {
namespace {

LabeledSplits load(const Given<LabeledTextSettings>& given, bool whole = false) {
  const std::string& path = given.required_path(
      "no labeled text", std::string(labeled_text_files) + ", with --set data.path=PATH");
  LabeledTextOptions options = given;
  options.whole = whole;
  return given.checked([&] { return load_labeled_texts(path, options); });
}

LabeledSplits make_reports(const Given<LabeledTextSettings>& given) {
  given.expect(given.path.empty(), "path",
               "data.kind = \"reports\" makes the texts; set data.kind = \"text\" to read yours");
  return {.options = {.classes = match_report_classes()},
          .train = make_match_reports({.examples = given.examples, .seed = given.seed}),
          .validation = make_match_reports(
              {.examples = given.held_back, .seed = given.seed, .split = Split::validation})};
}

LabeledSplits read_texts(const Given<LabeledTextSettings>& given, bool whole) {
  return given.kind == LabeledKind::text ? load(given, whole) : make_reports(given);
}

// Returns the characters of all splits, so that each of them can be read.
CharVocabulary characters_of(const LabeledSplits& all) {
  std::string text;
  for (const LabeledTexts* split : {&all.train, &all.validation, &all.test})
    for (const std::string& one : split->texts) text += one;
  return CharVocabulary::of_text(text);
}

std::shared_ptr<const Tokenizer> make_tokenizer(const Given<LabeledTextSettings>& given,
                                                const LabeledSplits& all) {
  if (given.tokenizer.empty()) return std::make_shared<const CharVocabulary>(characters_of(all));
  return std::make_shared<const BytePairTokenizer>(
      given.checked([&] { return chosen_tokenizer(given, all.train.texts, {}); }));
}

std::shared_ptr<const Tokenizer> kept_tokenizer(const TextClassificationData::Metadata& metadata) {
  if (const auto found = metadata.find("tokenizer"); found != metadata.end())
    return std::make_shared<const BytePairTokenizer>(
        BytePairTokenizer::from_json(found->second, "the checkpoint"));
  return std::make_shared<const CharVocabulary>(
      JsonValue::parse(kept_value(metadata, "vocabulary")).get<std::vector<std::string>>());
}

// Returns four bits in each digit, and reads them.
std::string hexadecimal(const std::vector<bool>& bits) {
  std::string digits((bits.size() + 3) / 4, '0');
  for (std::size_t digit = 0; digit < digits.size(); ++digit) {
    int value = 0;
    for (std::size_t i = 4 * digit; i < std::min(4 * digit + 4, bits.size()); ++i)
      value |= bits[i] << (i % 4);
    digits[digit] = "0123456789abcdef"[value];
  }
  return digits;
}

std::vector<bool> bits_of(const std::string& hexadecimal, std::int64_t count) {
  require(std::ssize(hexadecimal) == (count + 3) / 4 &&
              hexadecimal.find_first_not_of("0123456789abcdef") == hexadecimal.npos,
          "seen_tokens: expected a hexadecimal digit for each 4 of {} tokens", count);
  std::vector<bool> bits(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const char digit = hexadecimal[i / 4];
    bits[i] = (digit <= '9' ? digit - '0' : digit - 'a' + 10) >> (i % 4) & 1;
  }
  return bits;
}

const char* name_of(LabeledFormat format) {
  switch (format) {
    case LabeledFormat::detected:
      return "synthetic";
    case LabeledFormat::jsonl:
      return "JSONL";
    case LabeledFormat::csv:
      return "CSV";
    case LabeledFormat::tsv:
      return "TSV";
    case LabeledFormat::fasttext:
      return "__label__ lines";
    case LabeledFormat::folder:
      return "a folder per class";
  }
  throw_unhandled("format of labeled texts");
}

}  // namespace

const Condition is_text = key_is("data.kind", "text"), is_reports = key_is("data.kind", "reports");

const SettingsOf<LabeledTextSettings> labeled_text_settings = [] {
  using S = LabeledTextSettings;
  using Row = Bound<S>;
  std::vector<Row> rows{
      Row("data.kind", &S::kind, "the labeled texts of data.path, or synthetic reports of matches",
          {{"text", LabeledKind::text}, {"reports", LabeledKind::reports}}),
      Row(key::data_path, &S::path),
      Row(key::seed, &S::seed),
      Row(key::data_rules, &S::rules),
      Row("data.format", &S::format,
          "format of the texts: JSONL, CSV, TSV, fastText's lines (__label__NAME TEXT), or a "
          "folder per class",
          {{"auto", LabeledFormat::detected},
           {"jsonl", LabeledFormat::jsonl},
           {"csv", LabeledFormat::csv},
           {"tsv", LabeledFormat::tsv},
           {"fasttext", LabeledFormat::fasttext},
           {"folder", LabeledFormat::folder}},
          {.used_if = {is_text}, .advice = "correct the data, or set this key"}),
      Row("data.text_field", &S::text_field,
          "name of the column of a table, or field of JSONL, with the texts (empty: detected); "
          "without header: \"column 1\", \"column 2\", …",
          {.used_if = {is_text},
           .advice = "correct the line, or set this key to the field or column of the text"}),
      Row("data.label_field", &S::label_field,
          "name of the column of a table, or field of JSONL, with the labels (empty: detected)",
          {.used_if = {is_text},
           .advice = "correct the line, or set this key (init: --label COLUMN) to that of the "
                     "labels"}),
      Row("data.label_column", &S::label_column,
          "column of the labels in a table, from 1, unless data.label_field names it; 0: detected",
          {.low = 0,
           .high = 1e6,
           .used_if = {is_text},
           .advice = "set this key to the column of the labels"}),
      Row(key::class_names, &S::classes, "correct the label, or list all classes here"),
      Row(key::class_weights, &S::class_weights),
      Row(key::data_source, &S::source),
      Row("data.validation_fraction", &S::validation_share,
          "fraction of each class for validation, if the data have no validation split",
          {.low = 0.0001,
           .high = 0.9,
           .used_if = {is_text},
           .advice = "change the value, or give more texts"}),
      Row("data.examples", &S::examples, "synthetic training texts",
          {.low = 1, .high = 1e6, .used_if = {is_reports}}),
      Row("data.held_back", &S::held_back,
          "number of synthetic validation texts, none of which is a training text",
          {.low = 1, .high = 1e6, .used_if = {is_reports}}),
      Row("data.tokenizer", &S::tokenizer,
          "a tokenizer.json; \"train\": byte pairs, trained on the training texts; empty: "
          "characters"),
      Row("data.vocabulary", &S::vocabulary, "vocabulary size of a tokenizer that is trained",
          {.low = 257,
           .high = 1e6,
           .used_if = {key_is("data.tokenizer", train_tokenizer)},
           .advice = "raise this value"}),
      Row("model.context", &S::context, "maximum number of tokens of a text; longer ones are cut",
          {.low = 2, .high = 1048576})};
  const std::vector<Row> of_table = table_form_rows<S>({is_text});
  rows.insert(rows.end(), of_table.begin(), of_table.end());
  return rows;
}();

namespace {

const std::vector<std::string> found_options = {"format",       "text_field", "label_field",
                                                "label_column", "delimiter",  "header"};

}  // namespace

void detect_labeled_texts(Config& config) {
  Given<LabeledTextSettings> given = labeled_text_settings.of(config);
  const bool is_known = !given.classes.empty() && given.format != LabeledFormat::detected;
  if (given.path.empty() || is_known || given.kind != LabeledKind::text || !is_there(given.path))
    return;
  static_cast<LabeledTextOptions&>(given) = load(given).options;
  labeled_text_settings.detect(config, given, found_options);
  labeled_text_settings.detect(config, given, {"class_names"});
}

namespace {

// Chooses the model by the number of texts and their length in bytes, which ascend.
void choose_text_classifier(Recognized& found, const std::vector<std::int64_t>& lengths) {
  constexpr std::int64_t few = 2000, bytes_per_token = 3;
  const std::int64_t tokens = lengths[lengths.size() * 9 / 10] / bytes_per_token;
  std::int64_t context = 32;
  while (context < tokens && context < 512) context *= 2;
  found.settings.push_back(
      {"model.context", context,
       context < tokens ? "tokens; longer texts are cut" : "tokens, enough for most texts"});
  if (std::ssize(lengths) >= few) return;
  found.settings.push_back({"model.dropout", 0.2, "few texts are soon memorized"});
  found.settings.push_back({"data.vocabulary", std::int64_t{1000}, "few texts have few words"});
  found.settings.push_back({key::batch_size.name, std::int64_t{32}, "few texts have few batches"});
}

// Adds how many texts occur with different labels.
void note_contradictions(Recognized& found, const LabeledTexts& texts) {
  std::unordered_map<std::string_view, std::set<std::int32_t>> labels;
  for (std::size_t i = 0; i < texts.texts.size(); ++i)
    labels[texts.texts[i]].insert(texts.labels[i]);
  const std::int64_t contradicted =
      std::ranges::count_if(labels, [](const auto& text) { return text.second.size() > 1; });
  if (contradicted > 0)
    found.problems.push_back(counted(contradicted, "text occurs", "texts occur") +
                             " with different labels");
}

// Returns whether most texts have letters: other columns are numbers or times.
bool have_letters(const LabeledTexts& texts) {
  const std::int64_t with = std::ranges::count_if(texts.texts, [](const std::string& text) {
    return std::ranges::any_of(
        text, [](unsigned char byte) { return byte >= 128 || std::isalpha(byte); });
  });
  return 2 * with > std::ssize(texts.texts);
}

// Returns the texts that a user has. Throws InputError for a CSV without texts.
LabeledSplits load_users(Recognized& found, const UserData& data) {
  Given<LabeledTextSettings> given = labeled_text_settings.of(
      parse_config("task = \"text-classification\"", "init", data.overrides));
  if (!data.label.empty()) given.label_field = data.label;
  given.explains = true;
  const std::string file = training_file(data.path);
  const bool is_csv = has_csv_ending(file);
  expect_input(is_csv || looks_labeled(data.path), "expected {}", labeled_text_files);
  const bool may_have_numbers = is_csv || (has_table_ending(file) && is_table_of_numbers(file));
  if (!may_have_numbers) found.fit = Recognized::Fit::similar;
  try {
    return given.checked([&] { return load_labeled_texts(data.path, given); });
  } catch (const InputError&) {
    if (may_have_numbers && may_be_labeled_table(file, given)) found.fit = Recognized::Fit::similar;
    throw;
  }
}

// Adds what was left out, by kind.
void note_left_out(Recognized& found, const LabeledSplits& texts) {
  const auto note = [&](const LeftOut& kind, const char* noun, const char* plural) {
    if (kind.count > 0)
      found.problems.push_back(fmt::format("{} left out{}", counted(kind.count, noun, plural),
                                           kind.first.empty() ? "" : ", first " + kind.first));
  };
  note(texts.empty, "empty text", "empty texts");
  note(texts.unlabeled, "text without label", "texts without label");
  note(texts.unassigned, "text without split", "texts without split");
  if (texts.unused_count > 0)
    found.problems.push_back(fmt::format(
        "{} not read: {}{}", counted(texts.unused_count, "file"), fmt::join(texts.unused, ", "),
        texts.unused_count > std::ssize(texts.unused) ? ", ..." : ""));
}

}  // namespace

std::vector<Recognized> recognize_labeled_texts(const UserData& data) {
  return {recognized_as("text-classification", "labeled texts", [&](Recognized& found) {
    const LabeledSplits texts = load_users(found, data);
    const std::vector<std::string>& classes = texts.options.classes;
    const std::int64_t train = std::ssize(texts.train.texts);
    std::vector<std::int64_t> lengths;
    for (const std::string& text : texts.train.texts) lengths.push_back(std::ssize(text));
    std::ranges::sort(lengths);
    expect_input(classes.size() >= 2, "all texts have the label {}; expected at least two",
                 classes.front());
    found.facts = {{"format", name_of(texts.options.format)},
                   {"training texts", train},
                   {"validation texts", std::ssize(texts.validation.texts)},
                   {"test texts", std::ssize(texts.test.texts)},
                   {"classes", std::ssize(classes)},
                   {"class names", list_briefly(classes)},
                   {"median bytes of a text", lengths[lengths.size() / 2]},
                   {"longest text in bytes", lengths.back()}};
    if (texts.options.label_column > 0)
      found.facts["column of labels"] = texts.options.label_column;
    if (texts.is_divided) found.facts["split"] = "about a tenth of each class is for validation";
    add_column_uses(found, texts.columns);
    found.problems.insert(found.problems.end(), texts.remarks.begin(), texts.remarks.end());
    note_left_out(found, texts);
    note_class_names(found, classes);
    compare_class_sizes(found, count_classes(texts.train.labels, std::ssize(classes)), classes,
                        "training text");
    note_contradictions(found, texts.train);
    const bool are_texts = have_letters(texts.train) && table_of_pictures(data.path).empty();
    found.fit = are_texts ? Recognized::Fit::certain : Recognized::Fit::on_request;
    found.base = "match-reports";
    found.settings.push_back({"data.kind", std::string("text")});
    LabeledTextSettings chosen;
    static_cast<LabeledTextOptions&>(chosen) = texts.options;
    labeled_text_settings.add_chosen(found.settings, chosen, found_options, "found in the data");
    choose_text_classifier(found, lengths);
    found.examples = static_cast<double>(train);
    found.most_epochs = 30;
    constexpr std::int64_t most_small = 50'000;
    found.is_small = train < most_small;
  })};
}

namespace {

// Returns the settings, with what is detected if the model is a new one.
Given<LabeledTextSettings> labeled_settings_of(const TaskSetup& setup) {
  Config config = setup.config;
  if (setup.metadata.empty()) detect_labeled_texts(config);
  return labeled_text_settings.of(config);
}

}  // namespace

TextClassificationData::TextClassificationData(const TaskSetup& setup)
    : given_(labeled_settings_of(setup)), whole_data_(setup.whole_data) {
  if (setup.needs_data || setup.metadata.empty()) texts_ = read_texts(given_, whole_data_);
  class_names_ = given_.kind == LabeledKind::reports ? match_report_classes() : given_.classes;
  tokenizer_ =
      setup.metadata.empty() ? make_tokenizer(given_, *texts_) : kept_tokenizer(setup.metadata);
  if (const auto seen = setup.metadata.find("seen_tokens"); seen != setup.metadata.end())
    seen_ = bits_of(seen->second, tokenizer_->size());
}

TextClassificationData::Metadata TextClassificationData::metadata() const {
  Metadata all;
  if (const BytePairTokenizer* pairs = tokenizer_->byte_pairs())
    all["tokenizer"] = pairs->to_json();
  else
    all["vocabulary"] = JsonValue(tokenizer_->characters()->symbols()).dump();
  if (!seen_.empty()) all["seen_tokens"] = hexadecimal(seen_);
  return all;
}

const TextClassificationData::Splits& TextClassificationData::splits() {
  if (splits_) return *splits_;
  if (!texts_) texts_ = read_texts(given_, whole_data_);
  std::int64_t cut = 0;
  std::vector<bool> seen(tokenizer_->size());
  auto train = encoded(texts_->train, cut, &seen), validation = encoded(texts_->validation, cut),
       test = encoded(texts_->test, cut);
  if (seen_.empty() && !whole_data_) seen_ = std::move(seen);
  splits_.emplace(Splits{.train = whole_data_ ? *validation : *std::move(train),
                         .validation = *std::move(validation),
                         .test = std::move(test),
                         .empty = texts_->empty.count,
                         .unlabeled = texts_->unlabeled.count + texts_->unassigned.count,
                         .cut = cut,
                         .is_divided = texts_->is_divided,
                         .moved = texts_->moved});
  texts_.reset();
  return *splits_;
}

PredictorInput TextClassificationData::predictor_input() const {
  PredictorInput input{.kind = PredictorInput::Kind::lines,
                       .fields = {{given_.text_field.empty() ? "text" : given_.text_field}},
                       .files = text_files_of_classes};
  const LabeledFormat format = given_.format;
  if (format == LabeledFormat::jsonl) input.kind = PredictorInput::Kind::objects;
  if (format == LabeledFormat::folder) input.kind = PredictorInput::Kind::files;
  if (format != LabeledFormat::csv && format != LabeledFormat::tsv) return input;
  input.kind = PredictorInput::Kind::rows;
  input.delimiter = given_.delimiter != detected          ? given_.delimiter
                    : given_.format == LabeledFormat::csv ? ','
                                                          : '\t';
  input.has_header = given_.header != Header::absent;
  input.label = given_.label_column - 1;
  input.fields.front().column = index_of_unnamed(given_.text_field);
  return input;
}

std::string TextClassificationData::predicted_text(const std::string& field) const {
  std::string text = given_.format == LabeledFormat::folder     ? read_labeled_file(field)
                     : given_.format == LabeledFormat::fasttext ? without_label(field)
                                                                : field;
  expect_input(!trimmed(text).empty(), "the text is empty");
  return text;
}

bool TextClassificationData::is_unusual(const Tokens& tokens) const {
  const auto is_unseen = [&](std::int32_t token) {
    return token < std::ssize(seen_) && !seen_[token];
  };
  return 2 * std::ranges::count_if(tokens, is_unseen) > std::ssize(tokens);
}

std::optional<LabeledTextDataset> TextClassificationData::encoded(const LabeledTexts& split,
                                                                  std::int64_t& cut,
                                                                  std::vector<bool>* seen) const {
  if (split.texts.empty()) return std::nullopt;
  std::vector<Tokens> rows;
  try {
    for (const std::string& text : split.texts) {
      auto [tokens, is_cut] = row(text);
      if (seen)
        for (const std::int32_t token : tokens)
          if (token < std::ssize(*seen)) (*seen)[token] = true;
      rows.push_back(std::move(tokens));
      cut += is_cut;
    }
  } catch (const InputError& error) {  // the tokenizer does not know a character
    given_.fail("path", error.what());
  }
  return LabeledTextDataset(std::move(rows), split.labels, rows_.padding);
}

TextClassificationData::Row TextClassificationData::row(const std::string& text) const {
  Row row{.tokens = tokenizer_->encode(text)};
  expect_input(!row.tokens.empty(), "text \"{}\": the tokenizer has no token for it; remove it",
               printable_beginning(text));
  row.tokens.insert(row.tokens.begin(), rows_.before.begin(), rows_.before.end());
  row.is_cut = std::ssize(row.tokens) > given_.context;
  if (row.is_cut) row.tokens.resize(given_.context);
  return row;
}

std::string TextClassificationData::text(std::span<const std::int32_t> row) const {
  Tokens tokens;
  for (const std::int32_t token : row.subspan(rows_.before.size()))
    if (token < tokenizer_->size()) tokens.push_back(token);
  return tokenizer_->decode(tokens);
}

std::vector<std::string> TextClassificationData::labels(std::span<const std::int32_t> row) const {
  std::vector<std::string> labels;
  for (const std::int32_t token : row)
    labels.push_back(token < tokenizer_->size() ? printable(tokenizer_->decode(std::array{token}))
                                                : "class token");
  return labels;
}

std::string TextClassificationData::remark() const {
  if (!splits_ || given_.kind == LabeledKind::reports) return "";
  const auto& [train, validation, test, empty, unlabeled, cut, is_divided, moved] = *splits_;
  std::string text =
      fmt::format("texts: {} for training, {} for validation, {} for test; {}; {}: {}",
                  whole_data_ ? 0 : train.size(), validation.size(), test ? test->size() : 0,
                  name_of(given_.format), counted(std::ssize(class_names_), "class", "classes"),
                  list_briefly(class_names_));
  if (moved > 0)
    text += fmt::format("; {} moved to a split without its class", counted(moved, "text"));
  if (empty > 0) text += fmt::format("; {} left out", counted(empty, "empty text"));
  if (unlabeled > 0)
    text += fmt::format("; {} without label or split left out", counted(unlabeled, "text"));
  if (cut > 0) text += fmt::format("; {} cut to {} tokens", counted(cut, "text"), given_.context);
  return text;
}

}  // namespace tapestry
