#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autograd/variant.hpp"

// Configs before they are resolved: TOML texts, and the configs on which they are based.
namespace tapestry {

// The value of a key.
using Value = Variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                      std::vector<std::string>>;

// Returns the value as TOML, on one line.
std::string to_toml(const Value& value);

// A setting of a key in a text.
struct TomlSetting {
  std::string name;              // dotted: "model.layers"
  std::string origin;            // "source:line:column", or "--set"
  std::optional<Value> value{};  // none if no key has values of this type
  std::string other_type{};      // for messages, if there is no value: the text of a date

  // Returns the value for messages, on one line; a list as "[…]".
  std::string shown() const;
  // Returns the value as the type of `like`, or nothing if it cannot be converted. An integer is
  // converted to a number, and a text with commas to a list of texts.
  std::optional<Value> as_type_of(const Value& like) const;
};

// Returns the setting of "key=value" of --set. The value is TOML, or else unquoted text; with
// `is_string`, for a key that holds a string, only a TOML string counts as TOML. Throws InputError
// if there is no key, and for more than 1000 dots.
TomlSetting parse_override(const std::string& text, bool is_string);

// The settings of a config's text.
struct ConfigDocument {
  std::string source;                 // name in messages: a path, or the name of a shipped config
  std::vector<TomlSetting> settings;  // sorted by name
  bool is_file;                       // `source` is a path

  // Throws InputError, which names line and column, if the text is not TOML.
  ConfigDocument(std::string name, const std::string& toml, bool is_path = false);

  const TomlSetting* find(const std::string& name) const;  // returns null if the key is not set
};

// The key at the top of a config that is based on another one: base = "…".
inline constexpr const char* base_key = "base";

// Returns the configs in train/configs/, which are built into the binary, as TOML by name.
const std::map<std::string, std::string>& shipped_configs();

// Returns whether a shipped config has this name, now or in an earlier version.
bool is_shipped(const std::string& name);

// Reads CONFIG of the command line: a file, or else a shipped config. Throws InputError for a
// folder, and if there is neither; the message then names the most similar shipped config.
ConfigDocument read_config(const std::string& path_or_name);

// Returns the config, its base, its base's base and so on. A base is a path, relative to the folder
// of the file that names it, or else the name of a shipped config. Its values hold where the config
// sets none, except `name`, `plugin` and [expected], because a published result is of one exact
// config, and what code runs is decided by the config that is given.
// Throws InputError if a base does not exist, if bases form a cycle, or if there are more than 16.
std::vector<ConfigDocument> with_bases(ConfigDocument document);

}  // namespace tapestry
