#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/json.hpp"
#include "train/plot/figure.hpp"

// Functions that make parts of a page: HTML, and data for its scripts. All text of a run, its data
// or its user is escaped.
namespace tapestry {

// Returns the text with markup and control characters escaped.
std::string html_text(std::string_view text);

std::string base64(std::string_view bytes);  // returns the text of RFC 4648, section 4

// Returns an <img> of a grid with `shows` as alternative text.
std::string html_pictures(const PictureGrid& grid, std::string_view shows);

struct HtmlTableStyle {
  // Values that color the first cells of each row (TablePanel).
  std::vector<std::vector<double>> shares{};
  bool stacks = false;  // on a phone, the cells of a row are shown below each other
};

// Returns a table. The first row is its header; columns of numbers are right-aligned.
std::string html_table(const std::vector<std::vector<std::string>>& rows,
                       const HtmlTableStyle& style = {});

// Returns a table with a row for each name and value.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

// Returns data for the page's scripts: <script type="application/json" id="…">.
std::string html_data(const std::string& id, const JsonValue& data);

// Returns closed <details> that hold HTML.
std::string html_details(std::string_view summary, const std::string& html);

// --- arrays in the form that the page's arrayOf() reads: dtype, shape and bytes in base64 ---

JsonValue as_floats(const Array& array);
JsonValue as_halves(const Array& array);  // float32, rounded to float16
JsonValue as_bytes(const Array& array);   // [0, 1] in 255 steps
JsonValue as_integers(const std::vector<std::int32_t>& values, const Shape& shape);
JsonValue as_labels(const std::vector<std::string>& texts);  // one line per label

}  // namespace tapestry
