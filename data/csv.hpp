#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/input_file.hpp"

// Lines of tables: cells between delimiters (RFC 4180), without cells of several lines.
namespace tapestry {

// Returns the delimiter of a table's header: a tab if there is one outside of quotes, else a
// semicolon if there is one, else a comma.
char csv_delimiter(const FileLine& header);

// Returns the cells of a line, trimmed. A cell in quotes may contain delimiters; it is returned
// without these quotes, but with doubled quotes within it. Throws InputError for a closing quote
// that is missing, or that is followed by other text.
std::vector<std::string_view> csv_cells(const FileLine& line, char delimiter);

// Returns a cell in which each doubled quote is replaced by one.
std::string csv_text(std::string_view cell);

// Returns the first 40 bytes of a text, printable, for a message; "..." replaces the rest.
std::string shown(std::string_view text);

}  // namespace tapestry
