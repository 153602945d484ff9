#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace tapestry {

// A line of metrics.jsonl, with an integer "step", a string "split", a number "elapsed_s", and
// figures in the order of the line. Nothing where it is damaged, or above 16 KiB.
std::optional<nlohmann::ordered_json> parse_metrics_line(std::string_view line);

}  // namespace tapestry
