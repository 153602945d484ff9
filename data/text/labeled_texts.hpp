#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/class_folder.hpp"
#include "data/table/table.hpp"

namespace tapestry {

enum class LabeledFormat {
  detected,
  jsonl,     // an object per line: {"text": "So good!", "label": "praise"}
  csv,       // a table with a header or without one
  tsv,       // the same with tabs; quotes within a cell are text
  fasttext,  // __label__praise So good!
  folder,    // a folder per class with a text in each *.txt file
};

struct LabeledTextOptions {
  LabeledFormat format = LabeledFormat::detected;
  // Names of the columns of a table, or of the fields of JSONL, which are its columns; without a
  // header these are "column 1", "column 2" and so on. Empty: detected.
  std::string text_field{}, label_field{};
  // Column of the labels of a table from 1, unless label_field names it; 0: detected.
  std::int64_t label_column = 0;
  std::vector<std::string> classes{};  // in the order of the labels; empty: those of the training
  double validation_share = 0.1;       // of each class, if there is no validation split
  bool whole = false;                  // the texts of all splits are the validation split
  // How tables are read and texts are divided: 1, the header names both columns or there are two
  // columns without header, and validation_examples_of_classes(); 2, as Table and
  // find_label_column() do, and divide_by_hash().
  std::int64_t rules = 2;
  bool explains = false;      // fills LabeledSplits::columns and remarks
  char delimiter = detected;  // of a table
  Header header = Header::detected;
};

// The texts of a split, none empty, each with the number of its class.
struct LabeledTexts {
  std::vector<std::string> texts{};
  std::vector<std::int32_t> labels{};
};

// Number of examples of one kind, and where the first one stands: "a.tsv: line 7"; empty: nowhere.
struct LeftOut {
  std::int64_t count = 0;
  std::string first{};
};

struct LabeledSplits {
  LabeledTextOptions options{};  // with format, columns and classes as they were found
  LabeledTexts train{}, validation{}, test{};
  bool is_divided = false;  // the validation split is a part of the training texts
  std::int64_t moved = 0;   // HeldExamples::moved
  // Texts without characters; without a label; and in a table with a column `split`, without one.
  LeftOut empty{}, unlabeled{}, unassigned{};
  std::vector<ColumnUse> columns{};    // of the training split's table, what they are taken for
  std::vector<std::string> remarks{};  // what was decided while the table was read
  std::vector<std::string> unused{};   // paths of at most ten files in a folder that are not read
  std::int64_t unused_count = 0;       // number of all of them
};

// Describes what load_labeled_texts reads.
inline constexpr const char* labeled_text_files =
    "labeled texts: JSONL, CSV, TSV or __label__ lines, a folder with such files train, validation "
    "and test, or a folder of *.txt files per class";

// Returns whether a file or folder is likely to contain labeled texts: a folder with a file
// "train.jsonl" or the like, or with sub-folders of *.txt files; a file by its first line, which is
// an object but no conversation, or has a tab or a label of fastText.
bool looks_labeled(const std::string& path);

// Returns the path of a file itself, or of the file train.csv or the like in a folder; or "".
std::string training_file(const std::string& path);

// Returns whether the first line of a file has labels of fastText.
bool has_fasttext_labels(const std::string& path);

// Returns whether a table has a column of texts and, if it has times, one that may have labels.
bool may_be_labeled_table(const std::string& path, const LabeledTextOptions& options);

// Reads a file, or a folder: one with the files train, validation (or val, valid, dev) and test of
// one of the endings .jsonl, .json, .csv, .tsv and .txt, also .gz; or one as list_class_folder()
// lists it. A file is a CSV if its name ends with .csv; the other formats are seen in the first
// line. A column `split` of a table divides its rows; rows without a label are left out.
// Throws InputError with file and line for what is not a labeled text, for several labels of a
// text, labels of over 256 bytes, texts of over 1 MiB, more than 1000 classes, and more than 1 GiB;
// and OptionError of "text_field", "label_field", "label_column" and "header" for a table that can
// be read in several ways and for a name that is missing, "format" for a line of another format,
// "class_names" for a label that is not one of the classes, and "validation_fraction" if no text is
// left for the training or the validation.
LabeledSplits load_labeled_texts(const std::string& path, const LabeledTextOptions& options = {});

// The files of a folder of texts. read_labeled_file() returns the text of one. Throws InputError as
// read_text() does, and above 1 MiB.
extern const FileKind text_files_of_classes;
std::string read_labeled_file(const std::string& path);

// Returns the text of a line of fastText, which may have a label.
std::string without_label(std::string_view line);

}  // namespace tapestry
