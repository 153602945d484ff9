#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "autograd/check.hpp"
#include "train/config/config_document.hpp"

namespace tapestry {

// Holds where `key` has one of these values, or, if it `excludes` them, another one. Made by the
// key itself: schedule.is(Decay::linear), data_path.is_not("").
struct Condition {
  std::string key;
  std::vector<Value> values;
  bool excludes = false;

  bool holds(const Value& value) const;
  std::string wish() const;  // `set data.path = ""`, or "give another data.path"
};

// What a key may hold, and where it counts. Numbers are finite.
struct Limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices{};   // of a string, and of those in a list; empty: any
  bool may_change_on_resume = false;    // may differ when a run is resumed
  bool does_not_affect_result = false;  // may so too, and changes nothing in what is learnt
  bool repeated = false;                // of an option, a text: it may be typed several times
  std::vector<Condition> used_if{};     // elsewhere it is idle, and must not be set
};

// The declaration of a config key: parsing, validation, --set, resolved configs and the
// documentation all come from it.
struct KeyInfo {
  std::string name;  // dotted: "model.layers"
  Value fallback;    // the default; its type is the key's
  std::string help;
  Limits limits;
};

template <class T>
struct Key : KeyInfo {
  Key(std::string key, T value, std::string text, Limits allowed = {})
      : KeyInfo{std::move(key), Value(std::move(value)), std::move(text), std::move(allowed)} {}

  Condition is(T value) const { return {name, {Value(std::move(value))}}; }
  Condition is_not(T value) const { return {name, {Value(std::move(value))}, true}; }
};

// A key whose values have names, each given once: a config holds the name, and hands out the value.
template <class Enum>
struct Choice : KeyInfo {
  std::vector<std::pair<std::string, Enum>> values;

  Choice(std::string key, Enum otherwise, std::string text,
         std::vector<std::pair<std::string, Enum>> named, std::vector<Condition> used_if = {})
      : KeyInfo{std::move(key), {}, std::move(text), {.used_if = std::move(used_if)}},
        values(std::move(named)) {
    for (const auto& [choice, value] : values) {
      limits.choices.push_back(choice);
      if (value == otherwise) fallback = choice;
    }
    require(std::holds_alternative<std::string>(fallback), "key {}: its default has no name", name);
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
    require(found != values.end(), "key {}: no value is named {}", name, choice);
    return found->second;
  }
};

// After a switch over a Choice's values: one has no case, of which the compiler warned.
[[noreturn]] void throw_unhandled(const KeyInfo& key);

// What is wrong with a value of the key's type: "expected …", or nothing.
std::string range_error(const KeyInfo& key, const Value& value);

// `"adam" or "adamw"`
std::string one_of(const std::vector<Value>& values);

// A value for every declared key, and where it came from. An idle key (Limits::used_if) has its
// default. One that a text sets beside the choice that makes it idle, or after it, is refused; one
// that the choice comes after, as --set comes after a file and a file after its base, is dropped.
class Config {
 public:
  // `documents` are a config and its bases, as with_bases returns them; `overrides` are "key=value"
  // of --set. What an earlier document sets holds in place of what a later one sets. Throws
  // InputError, with file:line:column and the nearest valid name, for a key that is unused or not
  // declared, and for a value of another type or out of range.
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
  // Returns whether the task declares the key and the other settings let it count.
  bool has(const std::string& key) const;
  template <class T>
  void set(const Key<T>& key, T value) {
    entries_.at(key.name).value = std::move(value);
  }

  // Fails unless `holds`: "file:line:column: key = value: message".
  template <class... Args>
  void expect(bool holds, const KeyInfo& key, fmt::format_string<Args...> message,
              Args&&... args) const {
    if (!holds) fail(key, fmt::format(message, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail(const KeyInfo& key, const std::string& message) const;

  // Of all keys but idle ones, a config that resolves to this one; or of those alone whose names
  // begin so, such as "model.".
  std::string toml(const std::vector<std::string>& beginnings = {""}) const;
  // The same of all keys, with the origins of those that were set as comments.
  std::string toml_with_origins() const;
  std::string explain() const;  // all, with origins, help and idle keys as comments
  // The values of all keys but idle ones, as TOML by name.
  std::map<std::string, std::string> settings() const;
  // Of those alone on which depends what a training comes to.
  std::map<std::string, std::string> settings_that_count() const;
  // What was set and dropped: "sort:20:1: optim.beta2 = 0.99: is not used with optim.name = …".
  const std::vector<std::string>& dropped() const { return dropped_; }
  // The keys whose values differ and may not when a run is resumed: "model.width (128, now 64)".
  std::vector<std::string> differences(const Config& resumed) const;

 private:
  struct Entry {
    KeyInfo key;
    Value value;
    std::string origin;    // "default", "--set" or file:line:column
    int layer = 0;         // 0: its default, then the texts from the last base on, and --set
    std::string unused{};  // why it does not count: "is not used with …"
  };
  const Entry& entry(const std::string& name) const;
  std::vector<const Condition*> unmet(const KeyInfo& key) const;
  void drop_unused_settings();
  template <class Written>
  std::string write(Written written) const;

  std::vector<KeyInfo> keys_;  // in the order of declaration
  std::map<std::string, Entry> entries_;
  std::vector<std::string> dropped_;
};

// The candidate that begins with `word`, or differs from it by the fewest edits (letters put in,
// left out, changed, or two that changed places); empty where all are too far to be meant.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);
// `; did you mean "train"?` of the nearest one, within such quotes; empty where there is none.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates,
                         const std::string& quote = "");

}  // namespace tapestry
