#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "autograd/check.hpp"
#include "train/config/config_document.hpp"

namespace tapestry {

// A condition on a key: that its value is one of these or, with `excludes`, none of these.
// Conditions are made from keys: schedule.is(Decay::linear), data_path.is_not("").
struct Condition {
  std::string key;
  std::vector<Value> values;
  bool excludes = false;

  bool holds(const Value& value) const;
  std::string wish() const;  // returns advice: `set data.path = ""`, or "give another data.path"
};

// The allowed values of a key, and the conditions on which it is used. Numbers must be finite.
struct Limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  // Choices of a string, or of the strings in a list; empty: any.
  std::vector<std::string> choices{};
  bool may_change_on_resume = false;    // may differ when a run is resumed
  bool does_not_affect_result = false;  // may differ, and does not change the trained model
  bool repeated = false;                // an option that may be repeated
  std::vector<Condition> used_if{};     // the key must not be set unless all of these hold
  // Names in other libraries, for which a message suggests this key.
  std::vector<std::string> also_called{};
  std::vector<std::string> old_names{};  // names in earlier versions, which are accepted
  std::map<std::string, std::string> old_choices{};  // current choices by their earlier names
  std::string advice{};  // what to do about a value that does not fit the data
};

// The declaration of a config key: parsing, validation, --set, resolved configs and the
// documentation all come from it.
struct KeyInfo {
  std::string name;  // dotted: "model.layers"
  Value fallback;    // the default; its type is the key's
  std::string help;
  Limits limits;
};

// Returns the help of a key, with its choices if it has any.
std::string help_with_choices(const KeyInfo& key);

template <class T>
struct Key : KeyInfo {
  Key(std::string key, T value, std::string text, Limits allowed = {})
      : KeyInfo{std::move(key), Value(std::move(value)), std::move(text), std::move(allowed)} {}

  Condition is(T value) const { return {name, {Value(std::move(value))}}; }
  Condition is_not(T value) const { return {name, {Value(std::move(value))}, true}; }
};

// A key whose values have names: a config holds the name and returns the value. The first name of a
// value is listed; others are accepted, because earlier versions wrote them.
template <class Enum>
struct Choice : KeyInfo {
  std::vector<std::pair<std::string, Enum>> values;

  Choice(std::string key, Enum otherwise, std::string text,
         std::vector<std::pair<std::string, Enum>> named, std::vector<Condition> used_if = {})
      : KeyInfo{std::move(key), {}, std::move(text), {.used_if = std::move(used_if)}},
        values(std::move(named)) {
    for (const auto& [choice, value] : values) {
      const std::string& current = name_of(value);
      if (choice != current)
        limits.old_choices[choice] = current;
      else
        limits.choices.push_back(choice);
      if (value == otherwise) fallback = current;
    }
    require(std::holds_alternative<std::string>(fallback),
            "key {}: its default has no name; expected one of the values that have names", name);
  }

  template <class... Enums>
  Condition is(Enums... chosen) const {
    return {name, {Value(name_of(chosen))...}};
  }
  const std::string& name_of(Enum value) const {
    return std::ranges::find(values, value, &std::pair<std::string, Enum>::second)->first;
  }
  Enum value_of(const std::string& choice) const {
    const auto found = std::ranges::find(values, choice, &std::pair<std::string, Enum>::first);
    require(found != values.end(), "key {}: no value is named {}; expected one of its choices",
            name, choice);
    return found->second;
  }
};

// Throws std::logic_error. Stands after a switch over a Choice that has a case for each value.
[[noreturn]] void throw_unhandled(const KeyInfo& key);

// Returns what is wrong with a value of the key's type, "expected …", or "".
std::string range_error(const KeyInfo& key, const Value& value);

// Returns what is wrong with the declaration of a key, other than its name: no help, or a default
// that the limits do not allow; "" if nothing is.
std::string declaration_error(const KeyInfo& key);

// Returns `"adam" or "adamw"`.
std::string one_of(const std::vector<Value>& values);

// The value of a key in a config, and where it was set.
struct KeyOrigin {
  std::string key;
  Value value;
  std::string text;  // for messages: "file:line:column: key = value", or "key = value (default)"
  int layer = 0;     // settings of higher layers have precedence; 0: default
};

// Throws InputError unless `divisor` divides `whole`, which are integers. The message begins with
// the one of the two that was set later, such as by --set.
void expect_divides(const KeyOrigin& divisor, const KeyOrigin& whole);

// The values of all declared keys, and their origins. An unused key (Limits::used_if) has its
// default. If it was set together with the setting that makes it unused, or later, the config is an
// error; if it was set earlier (in a base, and the other one in the config or by --set), it is
// dropped.
class Config {
 public:
  // `documents` are a config and its bases, as with_bases returns them, of which earlier ones have
  // precedence; `overrides` are "key=value" of --set. Throws InputError, with file:line:column and
  // the nearest valid name, for a key that is unused or not declared, and for a value of another
  // type or out of range.
  Config(const std::vector<ConfigDocument>& documents, const std::vector<std::string>& overrides,
         const std::vector<KeyInfo>& keys);

  template <class T>
  const T& operator[](const Key<T>& key) const {
    return std::get<T>(entry(key.name).value);
  }
  template <class Enum>
  Enum operator[](const Choice<Enum>& key) const {
    return key.value_of(std::get<std::string>(entry(key.name).value));
  }
  const Value& value(const std::string& key) const { return entry(key).value; }
  // Returns the current name of a key; `name` may be the name that an earlier version used. Returns
  // unknown names unchanged.
  std::string current_name(const std::string& name) const;
  // Returns whether the task has the key.
  bool declares(const std::string& key) const { return entries_.contains(key); }
  // Returns whether the task has the key and the other settings do not make it unused.
  bool has(const std::string& key) const;
  // Sets a value without checking it; its origin stays.
  template <class T>
  void set(const Key<T>& key, T value) {
    entries_.at(key.name).value = std::move(value);
  }
  // Sets the keys whose names begin with `beginning` to their defaults, as if none had been set.
  // Keys with other names must not depend on them.
  void reset(const std::string& beginning);
  // Sets a key to a value that was found in the data, if the key has its default; a boolean only if
  // it is not set.
  void detect(const std::string& key, Value value);

  // Throws InputError unless `holds`: "file:line:column: key = value: message".
  template <class... Args>
  void expect(bool holds, const KeyInfo& key, fmt::format_string<Args...> message,
              Args&&... args) const {
    if (!holds) fail(key, fmt::format(message, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail(const KeyInfo& key, const std::string& message) const;
  // Returns the value of a key with its origin.
  KeyOrigin origin(const std::string& key) const;

  // Returns a text, without unused keys, that resolves to this config; or the part of it with the
  // keys whose names have one of these beginnings, such as "model.".
  std::string toml(const std::vector<std::string>& beginnings = {""}) const;
  // Returns toml() with the origins of keys that were set as comments.
  std::string toml_with_origins() const;
  // Returns all keys, with origins, help and unused keys as comments.
  std::string explain() const;
  // Returns {"keys": […]} with an object for each key: its value, origin, type, range, choices and
  // help.
  std::string json() const;
  // Returns the values of all keys that are used, as TOML by name.
  std::map<std::string, std::string> settings() const;
  // Returns the settings() that affect the result of a training.
  std::map<std::string, std::string> settings_that_count() const;
  // Returns messages about the dropped settings: "sort:20:1: optim.beta2 = 0.99: ignored; it is not
  // used with optim.name = …". `plugin` of a base is dropped as well.
  const std::vector<std::string>& dropped() const { return dropped_; }
  // Returns the keys that must not differ when a run is resumed, but do: "model.width (128, now
  // 64)".
  std::vector<std::string> differences(const Config& resumed) const;

 private:
  struct Entry {
    KeyInfo key;
    Value value;
    std::string origin;    // "default", "data.path" (detected), "--set" or file:line:column
    int layer = 0;         // 0: default; then the documents, the last base first, and --set
    std::string unused{};  // why it is unused: "is not used with …"
  };
  const Entry& entry(const std::string& name) const;
  std::vector<const Condition*> unmet(const KeyInfo& key) const;
  std::string why_unused(const KeyInfo& key) const;  // returns "" if the key is used
  void drop_unused_settings();
  template <class Written>
  std::string write(Written written) const;

  std::vector<KeyInfo> keys_;  // in declaration order
  std::map<std::string, Entry> entries_;
  std::vector<std::string> dropped_;
};

// Returns the candidate that begins with `word`, or that differs from it by the fewest edits
// (insertions, deletions, substitutions and transpositions); "" if all differ too much.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);
// Returns `; did you mean "train"?` with the nearest candidate in these quotes; "" if there is
// none.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates,
                         const std::string& quote = "");

}  // namespace tapestry
