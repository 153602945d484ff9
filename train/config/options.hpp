#pragma once

#include "train/config/config.hpp"

namespace tapestry {

// The command-line options of an inspector. Each is declared as a key; "--" precedes its name.
class Options {
 public:
  explicit Options(const std::vector<KeyInfo>& known);  // sets all options to their defaults

  // Sets an option from its text; a later call overrides it. Throws InputError that names the
  // option if it is unknown, or if the value is of another type or out of range.
  void set(const std::string& name, const std::string& text);
  // Throws InputError that names the option if one was set but is unused (Limits::used_if).
  void expect_all_used() const;

  template <class T>
  const T& operator[](const Key<T>& key) const {
    return std::get<T>(entries_.at(key.name).value);
  }
  template <class Enum>
  Enum operator[](const Choice<Enum>& key) const {
    return key.value_of(std::get<std::string>(entries_.at(key.name).value));
  }
  // Returns all values of an option that may be repeated.
  const std::vector<std::string>& texts(const KeyInfo& key) const {
    return entries_.at(key.name).texts;
  }
  bool is_set(const KeyInfo& key) const { return !entries_.at(key.name).texts.empty(); }

 private:
  struct Entry {
    KeyInfo key;
    Value value;
    std::vector<std::string> texts{};  // texts as given
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace tapestry
