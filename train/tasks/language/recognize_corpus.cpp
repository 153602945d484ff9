#include <algorithm>
#include <filesystem>
#include <map>

#include "data/images/picture_folder.hpp"
#include "data/input_file.hpp"
#include "data/text/conversations.hpp"
#include "data/text/labeled_texts.hpp"
#include "data/text/names.hpp"
#include "data/text/text.hpp"
#include "data/text/token_shards.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {
namespace {

using Fit = Recognized::Fit;

constexpr std::int64_t most_text_bytes = std::int64_t{1} << 30;  // of texts in memory
constexpr std::int64_t least_characters = 1000;

// Counts the lines and characters of texts in constant memory.
class TextStatistics {
 public:
  explicit TextStatistics(const std::string& path) {
    for (const std::string& file : text_files(path)) {
      ++files;
      before_file_ = bytes;
      read_plain_text(file, [&](std::string_view part) { add(part, file); });
      if (position_ > 0) end_line();  // the last line lacks its end
    }
  }

  std::int64_t files = 0, bytes = 0, characters = 0, symbols = 0;
  std::int64_t lines = 0, empty_lines = 0, longest_line = 0;
  std::int64_t sentences = 0;      // lines of more than two words, or that end with a mark
  std::int64_t numeric_lines = 0;  // lines of several words, more than half of them with a digit
  std::map<std::int64_t, std::int64_t> delimited_lines{};  // by the number of delimiters
  std::string beginning{};  // first nine bytes that are not white space

 private:
  void add(std::string_view part, const std::string& file) {
    for (std::size_t at = 0; at < part.size();) {
      const CodePoint point = code_point_at(part, at);
      const char32_t value = point.value;
      expect_input(value >= ' ' || value == '\t' || value == '\n' || value == '\r' || value == '\f',
                   "{}: byte {}: control character {:#04x}; expected a text", file,
                   bytes - before_file_ + static_cast<std::int64_t>(at),
                   static_cast<unsigned>(value));
      at += point.bytes;
      ++characters;
      if (!seen_[value]) ++symbols;
      seen_[value] = true;
      if (value == '\n') {
        end_line();
        continue;
      }
      const bool is_space = value <= ' ';
      if (beginning.size() < 9 && !is_space)
        beginning += part.substr(at - point.bytes, point.bytes);
      if (!is_space && last_ <= ' ') ++words_, has_digit_ = false;
      if (value >= '0' && value <= '9' && !has_digit_) ++numbers_, has_digit_ = true;
      // A comma before a space is one of a sentence.
      if (last_ == ',' || last_ == ';') delimiters_ += !is_space;
      delimiters_ += value == '\t' || value == '|';
      if (!is_space) length_ = position_ + 1;
      if (!is_space) last_mark_ = value;
      ++position_;
      last_ = value;
    }
    bytes += std::ssize(part);
    expect_input(
        bytes <= most_text_bytes,
        "{}: with this file the text has more than 1 GiB; convert the text to token shards with "
        "`tapestry tokens`",
        file);
  }

  void end_line() {
    (length_ == 0 ? empty_lines : lines) += 1;
    longest_line = std::max(longest_line, length_);
    const bool is_marked = std::u32string_view(U".,;:!?").find(last_mark_) != std::string::npos;
    if (length_ > 0 && (words_ > 2 || is_marked)) ++sentences;
    numeric_lines += words_ > 1 && 2 * numbers_ > words_;
    if (length_ > 0) ++delimited_lines[delimiters_];
    position_ = length_ = words_ = numbers_ = delimiters_ = 0;
    last_ = last_mark_ = 0;
  }

  std::vector<bool> seen_ = std::vector<bool>(0x110000);
  std::int64_t before_file_ = 0;  // bytes of the earlier files
  std::int64_t position_ = 0, length_ = 0, words_ = 0, numbers_ = 0, delimiters_ = 0;
  bool has_digit_ = false;  // the last word
  char32_t last_ = 0, last_mark_ = 0;
};

// Returns whether the path, or a file in this folder, is named as plain text is.
bool is_named_as_text(const std::string& path) {
  const std::vector<std::string> names = is_folder(path) ? file_names(path) : std::vector{path};
  return std::ranges::any_of(names, [](const std::string& name) {
    return name.ends_with(".txt") || name.ends_with(".txt.gz");
  });
}

// Returns whether files with this name are seldom meant as plain text.
bool is_named_as_table(const std::string& path) {
  std::filesystem::path name = path;
  if (name.extension() == ".gz") name.replace_extension();
  const std::string ending = name.extension().string();
  return std::ranges::count(std::vector<std::string>{".csv", ".tsv", ".json", ".jsonl"}, ending) >
         0;
}

// Returns whether nine tenths of the lines have as many columns, or numbers between spaces.
bool has_columns(const TextStatistics& text) {
  std::int64_t most = text.numeric_lines;
  for (const auto& [delimiters, lines] : text.delimited_lines)
    if (delimiters >= 2) most = std::max(most, lines);
  return text.lines >= 10 && most * 10 >= text.lines * 9;
}

// Returns whether a file is seldom meant as plain text, by its name or its beginning.
bool looks_like_data(const TextStatistics& text, const std::string& path) {
  return is_named_as_table(path) || has_columns(text) || text.beginning.starts_with('{') ||
         text.beginning.starts_with('[') || text.beginning.starts_with("__label__") ||
         text.beginning.starts_with("<?xml") || (!is_folder(path) && has_fasttext_labels(path));
}

// Adds the settings of a small model, with 0.1 M parameters.
void set_small_model(Recognized& found, const std::string& reason) {
  const auto set = [&](const char* key, Value value, const std::string& comment = "") {
    found.settings.push_back({key, std::move(value), comment});
  };
  set("model.layers", std::int64_t{2}, reason);
  set("model.width", std::int64_t{64});
  set("model.feed_forward", std::int64_t{172}, "8/3 of the width");
  set("model.dropout", 0.2, "a small text is soon memorized");
}

// Chooses tokens and model by the number of characters. The guide shows these rules.
void choose_text_model(Recognized& found, const TextStatistics& text) {
  constexpr std::int64_t few = 100'000, some = 500'000, many = 10'000'000;
  constexpr double bytes_per_token = 2.4;  // of 1024 byte pairs
  found.most_epochs = 20;
  if (text.characters < some) {
    found.base = "llama-nano";
    found.examples = 0.9 * static_cast<double>(text.characters) / 64;
    if (text.characters < few)
      set_small_model(found, "a small model for less than 100000 characters");
    return;
  }
  found.base = "shakespeare-bpe";
  found.examples = 0.9 * static_cast<double>(text.bytes) / bytes_per_token / 128;
  found.settings.push_back({"data.tokenizer", std::string(train_tokenizer),
                            "byte pairs, trained on the text; characters below 500000 characters"});
  if (text.characters < many) return;
  found.settings.push_back(
      {"data.vocabulary", std::int64_t{4096}, "for 10 million characters or more"});
  found.settings.push_back({"model.layers", std::int64_t{6}, "for 10 million characters or more"});
  found.settings.push_back({"model.width", std::int64_t{256}});
  found.settings.push_back({"model.heads", std::int64_t{8}});
  found.settings.push_back({"model.key_value_heads", std::int64_t{4}});
  found.settings.push_back({"model.feed_forward", std::int64_t{688}, "8/3 of the width"});
  found.settings.push_back({"optim.learning_rate", 2e-3, "lower than for a smaller model"});
}

// Returns how well the lines fit a list of names.
Fit fit_of_names(const TextStatistics& text) {
  if (text.lines < 10 || text.empty_lines > 0 || text.longest_line > 48) return Fit::refused;
  return text.longest_line <= 32 && text.sentences <= text.lines / 100 ? Fit::certain
                                                                       : Fit::possible;
}

void recognize_text(Recognized& found, const TextStatistics& text, const std::string& path) {
  const bool is_data = looks_like_data(text, path) || !table_of_pictures(path).empty();
  if (!is_data) found.fit = Fit::similar;
  expect_input(text.characters >= least_characters,
               "has {} characters, expected at least {}; give a longer text", text.characters,
               least_characters);
  if (has_columns(text) && !is_named_as_table(path))
    found.refusal =
        "the lines have columns; to read them as a table, divide them by commas in a file *.csv";
  if (text.beginning.starts_with("[{"))
    found.refusal =
        "this is one JSON array; write a line for each object: jq -c '.[]' FILE > NEW.jsonl";
  if (text.beginning.starts_with("<?xml"))
    found.refusal = "this is XML; write its text into a file *.txt";
  found.facts = {{"files", text.files},           {"bytes", text.bytes},
                 {"characters", text.characters}, {"different characters", text.symbols},
                 {"lines", text.lines},           {"split", "the last tenth is for validation"}};
  found.fit = is_data                              ? Fit::on_request
              : fit_of_names(text) == Fit::refused ? Fit::certain
                                                   : Fit::possible;
  choose_text_model(found, text);
}

void recognize_names(Recognized& found, const TextStatistics& text, const std::string& path) {
  expect_input(text.files == 1, "has {} files, expected one with a name per line; give one file",
               text.files);
  const bool is_short_list = text.lines > 1 && text.lines < 10 && text.longest_line <= 32;
  if (is_short_list && !looks_like_data(text, path)) found.fit = Fit::similar;
  expect_input(!is_short_list, "has {} names, expected at least 10; give more names", text.lines);
  found.fit = fit_of_names(text);
  expect_input(found.fit != Fit::refused,
               "has {} lines, {} of them empty, the longest of {} characters, expected at least 10 "
               "lines of at most 48, none empty",
               text.lines + text.empty_lines, text.empty_lines, text.longest_line);
  if (looks_like_data(text, path)) found.fit = Fit::on_request;
  const NameList list = load_names(path);
  const std::int64_t names = std::ssize(list.names);
  const std::int64_t distinct = std::ssize(load_names(path, true).names);
  const std::int64_t held_back = split_names(list, name_vocabulary(list)).test.size();
  found.facts = {{"names", names},
                 {"different names", distinct},
                 {"different characters", name_vocabulary(list).size() - 1},
                 {"longest name", text.longest_line},
                 {"split", fmt::format("{} random names are for validation", held_back)}};
  if (distinct < names)
    found.problems.push_back(fmt::format(
        "{} names repeat an earlier one; equal names are in the same split", names - distinct));
  found.base = "names";
  found.examples = static_cast<double>(names - held_back);
  found.most_epochs = 30;
  if (text.longest_line >= 16)
    found.settings.push_back(
        {"model.context", text.longest_line + 1, "the longest name and the line end after it"});
  if (names >= 2000) return;
  found.settings.push_back(
      {"model.layers", std::int64_t{2}, "a small model for less than 2000 names"});
  found.settings.push_back({"model.dropout", 0.2, "few names are soon memorized"});
  found.settings.push_back({"train.batch_size", std::int64_t{32}, "few names have few batches"});
}

void recognize_conversations(Recognized& found, const TextStatistics& text,
                             const std::string& path) {
  expect_input(text.beginning.starts_with('{'), "expected a JSON object per line");
  found.fit = Fit::similar;
  std::int64_t conversations = 0, messages = 0, bytes = 0, empty_answers = 0;
  for (const std::string& file : text_files(path))
    for (const Conversation& conversation : load_conversations(file).conversations) {
      ++conversations;
      messages += std::ssize(conversation.messages);
      for (const Message& message : conversation.messages) {
        bytes += std::ssize(message.content);
        empty_answers += message.is_learned && trimmed(message.content).empty();
      }
    }
  expect_input(conversations >= 2,
               "has one conversation, expected at least 2, one for validation; give more");
  found.fit = Fit::certain;
  found.facts = {{"conversations", conversations},
                 {"messages", messages},
                 {"bytes", bytes},
                 {"split", "about a tenth of the conversations is for validation"}};
  if (empty_answers > 0)
    found.problems.push_back(fmt::format(
        "{} empty; the model learns to say nothing",
        empty_answers == 1 ? "one answer is" : fmt::format("{} answers are", empty_answers)));
  found.problems.emplace_back(
      "a model that is trained from random weights learns little but the form of answers; "
      "fine-tune an imported one with --from for more");
  found.base = "shakespeare-bpe";
  found.examples =
      0.9 * std::min(static_cast<double>(conversations), static_cast<double>(bytes) / 600);
  found.most_epochs = 20;
  found.settings = {
      {"data.kind", std::string("conversations"), "one per line, as JSON"},
      {"data.tokenizer", std::string(train_tokenizer), "byte pairs, trained on the messages"},
      {"data.template", std::string("chatml"), "how messages are joined to a text"},
      {"model.context", std::int64_t{256}, "longer conversations are truncated to these tokens"}};
  if (bytes < 500'000) set_small_model(found, "a small model for less than 500000 bytes");
}

// Returns what the shards of tokens in a folder contain.
Recognized recognize_shards(const std::string& path) {
  return recognized_as("text", "text", [&](Recognized& found) {
    found.fit = Fit::similar;
    const TokenShards shards(path);
    found.fit = Fit::certain;
    found.facts = {{"tokens", shards.size()},
                   {"vocabulary", shards.vocabulary()},
                   {"split", "the last tenth is for validation"}};
    found.base = "shakespeare-bpe";
    found.settings = {{"data.tokenizer", std::string(), "that of the shards"}};
    found.examples = 0.9 * static_cast<double>(shards.size()) / 128;
    found.most_epochs = 20;
  });
}

}  // namespace

std::vector<Recognized> recognize_corpora(const UserData& data) {
  const std::string& path = data.path;
  if (holds_shards(path)) return {recognize_shards(path)};
  std::optional<TextStatistics> text;
  std::vector<Recognized> all;
  const auto add = [&](const char* name, const char* kind, const auto& recognize) {
    all.push_back(recognized_as(name, kind, [&](Recognized& found) {
      if (!text && !all.empty()) throw InputError(all.front().refusal);  // not text
      if (!text && is_named_as_text(path)) found.fit = Fit::similar;
      if (!text) text.emplace(path);
      recognize(found, *text, path);
    }));
  };
  add("text", "text", recognize_text);
  add("names", "names", recognize_names);
  add("conversations", "conversations (JSONL)", recognize_conversations);
  return all;
}

}  // namespace tapestry
