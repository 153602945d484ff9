#pragma once

#include <optional>
#include <string_view>

#include "data/json.hpp"

namespace tapestry {

// A line of metrics.jsonl, with an integer "step", a string "split", a number "elapsed_s", and
// figures in the order of the line. Nothing where it is damaged, or above 16 KiB.
std::optional<JsonValue> parse_metrics_line(std::string_view line);

}  // namespace tapestry
