#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string_view>

#include "train/config/config.hpp"

// TOML as configs hold it. Private to train/config/.
namespace tapestry {

// "source:line:column"
std::string position(const std::string& source, const toml::source_region& region);

// InputError where a text has so many dots that its keys may be nested deeper than the TOML
// library, which follows them recursively, can stand.
void require_few_dots(std::string_view text, const std::string& source);

// InputError says where the text is not TOML.
toml::table parse_toml(const std::string& text, const std::string& source);

// The node as the type of `like`; nothing when it is of another type. Integers serve as numbers,
// and a text with commas as a list of texts.
std::optional<Value> convert(const toml::node& node, const Value& like);

// A value of any type, on one line.
std::string show(const toml::node& node);

}  // namespace tapestry
