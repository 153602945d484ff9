#pragma once

#include "train/config/config.hpp"

namespace tapestry {

// What a look at a trained model may be told on the command line: each option is declared like a
// config's key, under the name that is typed after two dashes.
class Options {
 public:
  explicit Options(const std::vector<KeyInfo>& known);  // all at their defaults

  // Takes what was typed; of what is typed again, the last. InputError names the option, for one
  // that is not known, and for a value of another type or out of range.
  void set(const std::string& name, const std::string& text);
  // When all are set. InputError names an option that another one makes idle (Limits::used_if).
  void expect_all_used() const;

  template <class T>
  const T& operator[](const Key<T>& key) const {
    return std::get<T>(entries_.at(key.name).value);
  }
  template <class Enum>
  Enum operator[](const Choice<Enum>& key) const {
    return key.value_of(std::get<std::string>(entries_.at(key.name).value));
  }
  // All that was typed for an option that may be repeated.
  const std::vector<std::string>& texts(const KeyInfo& key) const {
    return entries_.at(key.name).texts;
  }
  bool is_set(const KeyInfo& key) const { return !entries_.at(key.name).texts.empty(); }

 private:
  struct Entry {
    KeyInfo key;
    Value value;
    std::vector<std::string> texts{};  // as they were typed
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace tapestry
