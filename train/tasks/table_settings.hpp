#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "data/table/table.hpp"
#include "data/text/printable.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/recognized.hpp"

namespace tapestry {

// Returns the settings of the form of a table, for options with a delimiter and a header.
// `used_if`: the conditions under which the task reads a table.
template <class Options>
std::vector<Bound<Options>> table_form_rows(const std::vector<Condition>& used_if) {
  using Row = Bound<Options>;
  return {Row("data.delimiter", &Options::delimiter, "character between the cells of the table",
              {{"auto", detected}, {",", ','}, {";", ';'}, {"tab", '\t'}, {"|", '|'}},
              {.used_if = used_if}),
          Row("data.header", &Options::header, "whether the first row has the names of the columns",
              {{"auto", Header::detected}, {"yes", Header::present}, {"no", Header::absent}},
              {.used_if = used_if, .advice = "set data.header to \"yes\" or \"no\""})};
}

// Returns these settings and those of the numbers in a table, for options that are TableOptions.
template <class Options>
std::vector<Bound<Options>> table_rows(const std::vector<Condition>& used_if) {
  using Row = Bound<Options>;
  std::vector<Row> rows = table_form_rows<Options>(used_if);
  rows.insert(
      rows.begin() + 1,
      {Row("data.decimal", &Options::decimal, "decimal mark of the numbers in the table",
           {{"auto", detected}, {".", '.'}, {",", ','}}, {.used_if = used_if}),
       Row("data.thousands", &Options::thousands,
           "mark between the thousands of the numbers in the table",
           {{"auto", detected}, {"none", no_mark}, {",", ','}, {".", '.'}, {" ", ' '}, {"'", '\''}},
           {.used_if = used_if,
            .advice = "set data.thousands to this mark, or to \"none\" if it is the decimal "
                      "mark"})});
  rows.push_back(
      Row("data.missing_words", &Options::missing_words,
          "cells that stand for a missing number, beside empty ones and NA, N/A, NaN, null, none, "
          "nil, missing, -, -- and ?",
          {.used_if = used_if,
           .advice = "correct the cell, or list it in data.missing_words if it means that a number "
                     "is missing"}));
  return rows;
}

// Adds what the first columns are taken for, one line for each.
inline void add_column_uses(Recognized& found, const std::vector<ColumnUse>& uses) {
  constexpr std::size_t most_shown = 100;
  for (std::size_t i = 0; i < std::min(uses.size(), most_shown); ++i)
    found.facts["column " + printable_beginning(uses[i].name)] = uses[i].use;
  if (uses.size() > most_shown) found.facts["other columns"] = uses.size() - most_shown;
}

// The names of the settings above.
inline const std::vector<std::string> table_options = {"delimiter", "decimal", "thousands",
                                                       "header"};

}  // namespace tapestry
