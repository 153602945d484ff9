#pragma once

#include "train/config/config.hpp"

namespace tapestry {

// The options of an inspector on the command line. Each is declared as a key, whose name stands
// after two dashes.
class Options {
 public:
  explicit Options(const std::vector<KeyInfo>& known);  // starts with the default values

  // Sets an option to a text of the command line; the last one holds. Throws InputError, which
  // names the option, if it is unknown, or if the value is of another type or out of range.
  void set(const std::string& name, const std::string& text);
  // Throws InputError, which names the option, if one was set and is not used (Limits::used_if).
  void expect_all_used() const;

  template <class T>
  const T& operator[](const Key<T>& key) const {
    return std::get<T>(entries_.at(key.name).value);
  }
  template <class Enum>
  Enum operator[](const Choice<Enum>& key) const {
    return key.value_of(std::get<std::string>(entries_.at(key.name).value));
  }
  // Returns all texts of an option that may be repeated.
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
