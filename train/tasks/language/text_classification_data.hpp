#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/labeled_text_dataset.hpp"
#include "data/text/labeled_texts.hpp"
#include "data/text/tokenizer.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/recognized.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/language/corpus.hpp"

namespace tapestry {

enum class LabeledKind { text, reports };

// The labeled texts of a config, and the tokenizer that reads them.
struct LabeledTextSettings : LabeledTextOptions, TokenizerSettings {
  LabeledTextSettings() : TokenizerSettings{.tokenizer = train_tokenizer, .vocabulary = 2000} {}
  LabeledKind kind = LabeledKind::text;
  std::string path{}, source{};
  std::uint64_t seed = 0;
  ClassWeights class_weights = ClassWeights::none;
  std::int64_t examples = 10'000, held_back = 1000;  // numbers of reports
  std::int64_t context = 128;
};

extern const SettingsOf<LabeledTextSettings> labeled_text_settings;

// Detects format, column and classes of labeled texts, as TaskSpec::detect does. Leaves what a
// missing path determines.
void detect_labeled_texts(Config& config);

// Returns what was found at a path, as TaskSpec::recognize does.
std::vector<Recognized> recognize_labeled_texts(const UserData& data);

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
    // Numbers of texts that were left out, and truncated.
    std::int64_t empty = 0, unlabeled = 0, cut = 0;
    bool is_divided = false;  // the validation split is a part of the training texts
    std::int64_t moved = 0;   // number of texts that are in a split for lack of others
  };
  const Splits& splits();
  bool is_read() const { return splits_.has_value(); }  // whether splits() was called
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  ClassWeights class_weights() const { return given_.class_weights; }
  std::int64_t context() const { return given_.context; }  // most tokens of a row
  Metadata metadata() const;
  // Returns what was found at data.path, on one line; "" for synthetic texts.
  std::string remark() const;

  // Returns how texts that may have no label are read, and the text in their only field. The second
  // throws InputError for an empty text, and as read_labeled_file() does.
  PredictorInput predictor_input() const;
  std::string predicted_text(const std::string& field) const;
  // Returns whether more than half of a text's tokens occur in no text of the training; false for a
  // model of earlier versions, which did not record them.
  bool is_unusual(const Tokens& tokens) const;

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
  // Marks the tokens of the split as `seen`, unless that is null.
  std::optional<LabeledTextDataset> encoded(const LabeledTexts& split, std::int64_t& cut,
                                            std::vector<bool>* seen = nullptr) const;

  Given<LabeledTextSettings> given_;
  bool whole_data_;
  std::optional<LabeledSplits> texts_{};  // until they are encoded
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> class_names_;
  TextRows rows_{};
  std::optional<Splits> splits_{};
  std::vector<bool> seen_{};  // for each token, whether it occurs in training; empty: not known
};

}  // namespace tapestry
