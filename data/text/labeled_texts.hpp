#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapestry {

enum class LabeledFormat {
  detected,
  jsonl,     // an object per line: {"text": "So good!", "label": "praise"}
  csv,       // a table with a header or without one, with a comma or a semicolon between cells
  tsv,       // the same with tabs; quotes within a cell are text
  fasttext,  // __label__praise So good!
  folder,    // a folder per class with a text in each *.txt file
};

struct LabeledTextOptions {
  LabeledFormat format = LabeledFormat::detected;
  // Names of the fields of JSONL and of the columns of a table with a header.
  std::string text_field = "text", label_field = "label";
  // Column of the labels of a table without header: 1 or 2; 0: the one with fewer different values.
  std::int64_t label_column = 0;
  std::vector<std::string> classes{};  // in the order of the labels; empty: those of the training
  double validation_share = 0.1;       // of each class, if there is no validation split
  bool whole = false;                  // the texts of all splits are the validation split
  // How the texts are divided then: 1, by validation_examples_of_classes(); 2, by divide_by_hash().
  std::int64_t rules = 2;
};

// The texts of a split, none empty, each with the number of its class.
struct LabeledTexts {
  std::vector<std::string> texts{};
  std::vector<std::int32_t> labels{};
};

struct LabeledSplits {
  LabeledFormat format = LabeledFormat::detected;
  std::int64_t label_column = 0;       // 0: the format has no columns
  std::vector<std::string> classes{};  // sorted: numbers by their value, other names by their bytes
  LabeledTexts train{}, validation{}, test{};
  bool is_divided = false;  // the validation split is a part of the training texts
  std::int64_t moved = 0;   // HeldExamples::moved
  std::int64_t empty = 0;   // number of texts without characters, which are left out
};

// Describes what load_labeled_texts reads.
inline constexpr const char* labeled_text_files =
    "labeled texts: JSONL, CSV, TSV or __label__ lines, a folder with such files train, validation "
    "and test, or a folder of *.txt files per class";

// Returns whether the path is a folder with labeled texts: with a file "train.jsonl" or the like,
// or with sub-folders of *.txt files.
bool is_labeled_text_folder(const std::string& path);

// The names of the columns of a table with a header.
struct LabeledColumns {
  std::string text{}, label{};
};
// Returns the columns of a CSV or TSV that seem to be the texts, which are the longest and have
// several words, and the labels, which have the fewest different values, at least two; nothing if
// there are none. Throws InputError as load_labeled_texts() does.
std::optional<LabeledColumns> guess_columns(const std::string& path);

// Reads a file, or a folder: one with the files train, validation (or val, valid) and test of one
// of the endings .jsonl, .json, .csv, .tsv and .txt, also .gz; or one as list_class_folder() lists
// it. A file is a CSV if its name ends with .csv; the other formats are seen in the first line.
// Throws InputError with file and line for what is not a labeled text, labels of over 256 bytes,
// texts of over 1 MiB, more than 1000 classes, and more than 1 GiB; and OptionError of "text_field"
// and "label_field" for a name that is missing, "label_column" if both columns may be the labels,
// "format" for a line of another format, "class_names" for a label that is not one of the classes,
// and "validation_fraction" if no text is left for the training or the validation.
LabeledSplits load_labeled_texts(const std::string& path, const LabeledTextOptions& options = {});

}  // namespace tapestry
