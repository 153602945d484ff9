#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/labeled_text_dataset.hpp"
#include "data/text/labeled_texts.hpp"
#include "data/text/tokenizer.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/recognized.hpp"

namespace tapestry {

// The keys of labeled texts, and the tokenizer that reads them.
std::vector<KeyInfo> labeled_text_keys();

// Detects format, column and classes of labeled texts, as TaskSpec::detect does. Leaves what a
// missing path determines.
void detect_labeled_texts(Config& config);

// Returns what was found at a path, as TaskSpec::recognize does.
std::vector<Recognized> recognize_labeled_texts(const std::string& path);

// How texts become rows of tokens.
struct TextRows {
  std::int32_t padding = 0;
  std::vector<std::int32_t> before{};  // tokens before each text
};

// The texts of a task as tokens, their tokenizer and their classes.
class TextClassificationData {
 public:
  using Metadata = std::map<std::string, std::string>;
  using Tokens = LabeledTextDataset::Tokens;

  explicit TextClassificationData(const TaskSetup& setup);

  // Sets how rows are made; called once, before splits().
  void set_rows(TextRows rows) { rows_ = std::move(rows); }
  const TextRows& rows() const { return rows_; }

  struct Splits {
    LabeledTextDataset train, validation;
    std::optional<LabeledTextDataset> test{};
    std::int64_t empty = 0, cut = 0;  // numbers of texts that were left out, and truncated
    bool is_divided = false;          // the validation split is a part of the training texts
    std::int64_t moved = 0;           // number of texts that are in a split for lack of others
  };
  const Splits& splits();
  bool is_read() const { return splits_.has_value(); }  // whether splits() was called
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  std::int64_t context() const;  // most tokens of a row
  Metadata metadata() const;
  // Returns what was found at data.path, on one line; "" for synthetic texts.
  std::string remark() const;

  // Returns the row of a text, which is cut to the context. Throws InputError for a character that
  // the tokenizer does not know.
  struct Row {
    Tokens tokens{};
    bool is_cut = false;
  };
  Row row(const std::string& text) const;
  // Returns the text of a row, without special tokens.
  std::string text(std::span<const std::int32_t> row) const;
  // Returns the text of each token of a row, for labels.
  std::vector<std::string> labels(std::span<const std::int32_t> row) const;

 private:
  std::optional<LabeledTextDataset> encoded(const LabeledTexts& split, std::int64_t& cut) const;

  Config config_;
  bool whole_data_;
  std::optional<LabeledSplits> texts_{};  // until they are encoded
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> class_names_;
  TextRows rows_{};
  std::optional<Splits> splits_{};
};

}  // namespace tapestry
