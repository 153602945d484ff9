#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tapestry {

// How deep the lists and objects of a JSON text go: 0 of "1", 1 of "[1]", 2 of "[[1]]". Of a text
// that is not JSON, at least as deep as a parser follows it. The JSON library copies, compares and
// prints recursively, so that what a file holds is refused above max_json_depth.
int json_depth(std::string_view text);

inline constexpr int max_json_depth = 32;

// InputError, which names the file and the line, for what is not JSON or deeper than that.
nlohmann::json parse_json(std::string_view text, const std::string& path);

// What it holds, for a message: on one line, in ASCII, and not for long.
std::string brief(const nlohmann::json& json);

}  // namespace tapestry
