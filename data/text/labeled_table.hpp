#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/table/table.hpp"
#include "data/text/labeled_texts.hpp"

// Labeled texts in the rows of a table.
namespace tapestry {

// A text and the name of its class, as a row has them.
struct LabeledRow {
  std::string text{}, label{};
  std::int64_t line = 0;  // number of the line; in a table, of the row from 0
  bool has_label = true;
  std::optional<int> split{};  // as split_named() returns it; nothing: that of the file
  bool is_unassigned = false;  // the cell of its split is empty
};

// The rows of a file.
struct LabeledRows {
  std::string path{};
  std::vector<LabeledRow> all{};
  std::shared_ptr<const Table> table{};  // null: the file has none
  std::vector<ColumnUse> columns{};      // of the first table, and what was decided while reading,
  std::vector<std::string> remarks{};    // if the options ask for them

  FileLine at(const LabeledRow& row) const {
    return table ? table->line(row.line) : FileLine{path, row.line};
  }
};

// The form of the training split's table, which the tables of other splits have, too.
struct TableForm {
  Header header = Header::detected;
  std::int64_t columns = 0, text = 0, label = 0;
  std::string text_name{}, label_name{};
  char delimiter = detected;

  bool operator==(const TableForm&) const = default;
};

// Reads a table, and sets `form`, which is null or that of the training split's table before; or
// reads JSONL, and sets the names of the fields in `options`. Throws InputError and OptionError as
// load_labeled_texts() does.
LabeledRows read_table_rows(const std::string& path, LabeledTextOptions& options,
                            std::optional<TableForm>& form);

// Sets the options of tables that are left open to what was found in all of them.
void set_form(LabeledTextOptions& options, const std::vector<TableForm>& forms);

}  // namespace tapestry
