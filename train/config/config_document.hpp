#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// Configs as they are written: TOML texts, and the configs that they are based on.
namespace tapestry {

// The value of a key.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<std::string>>;

// Returns the value as TOML, on one line.
std::string to_toml(const Value& value);

// A key that a text sets.
struct TomlSetting {
  std::string name;              // dotted: "model.layers"
  std::string origin;            // "source:line:column", or "--set"
  std::optional<Value> value{};  // none: of a type that no key has
  std::string other_type{};      // text for messages if there is no value, such as a date

  // Returns the value for messages, on one line; a list as "[…]".
  std::string shown() const;
  // Returns the value as the type of `like`, or nothing if it is of another type. Integers serve as
  // numbers, and a text with commas as a list of texts.
  std::optional<Value> as_type_of(const Value& like) const;
};

// Returns what "key=value" of --set sets: a value in TOML or, for a key that holds a string, bare
// text. Throws InputError if there is no key.
TomlSetting parse_override(const std::string& text, bool is_string);

// A config's text, parsed once.
struct ConfigDocument {
  std::string source;                 // the name that errors give it: a path, or a shipped config's
  std::vector<TomlSetting> settings;  // in the order of their names
  bool is_file;                       // `source` is a path

  // Throws InputError, which names line and column, if the text is not TOML.
  ConfigDocument(std::string name, const std::string& toml, bool is_path = false);

  const TomlSetting* find(const std::string& name) const;  // null: not set
};

// The key at the top of a config that is based on another one: base = "…".
inline constexpr const char* base_key = "base";

// Returns the configs in train/configs/, which are built into the binary, as TOML by name.
const std::map<std::string, std::string>& shipped_configs();

// Returns whether a shipped config has this name, now or in an earlier version.
bool is_shipped(const std::string& name);

// Reads CONFIG of the command line: a file, or else a shipped config. Throws InputError, which
// names the nearest one, if there is neither.
ConfigDocument read_config(const std::string& path_or_name);

// Returns the config, its base, its base's base and so on. A base is a path, relative to the folder
// of the file that names it, or else the name of a shipped config. Its values hold where the config
// sets none, except `name` and [expected]: a published result is of that very config. Throws
// InputError if there is no base of that name, or if bases go round in a circle.
std::vector<ConfigDocument> with_bases(ConfigDocument document);

}  // namespace tapestry
