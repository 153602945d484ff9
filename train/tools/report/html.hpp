#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/json.hpp"
#include "train/plot/figure.hpp"

// Pieces of HTML. What comes from a run, its data or its user goes in as text alone.
namespace tapestry {

// Shows the text as it is: markup has no effect, and what a terminal would obey is written out.
std::string html_text(std::string_view text);

std::string base64(std::string_view bytes);  // RFC 4648, section 4

// An <img> of a grid, whose text for those who do not see it is `shows`.
std::string html_pictures(const PictureGrid& grid, std::string_view shows);

// Rows of texts, the first of them the heads; columns of numbers stand to the right.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

// Facts, a row each: their names and what they are.
std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts);

// Data for the page's scripts: <script type="application/json" id="…">, which no browser runs.
std::string html_data(const std::string& id, const JsonValue& data);

// <details> that is closed, with HTML in it.
std::string html_details(std::string_view summary, const std::string& html);

}  // namespace tapestry
