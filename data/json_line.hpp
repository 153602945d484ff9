#pragma once

#include <string>

#include "data/input_file.hpp"
#include "data/json.hpp"

// Lines of JSONL files.
namespace tapestry {

// Returns the object of a line, with its members sorted by name. Throws InputError with file and
// line for another value, a line of over 16 MiB, and values nested more than max_json_depth deep.
JsonValue json_object_of(const FileLine& line);

// Returns the names of the members, for a message: "\"text\", \"label\"", or "none".
std::string member_names(const JsonValue& object);

}  // namespace tapestry
