#include "train/config/settings.hpp"

#include "data/input_file.hpp"

namespace tapestry {

std::string option_name(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::vector<KeyInfo> joined(const std::vector<std::vector<KeyInfo>>& lists) {
  std::vector<KeyInfo> all;
  for (const std::vector<KeyInfo>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<KeyInfo> used_with(const Condition& condition, std::vector<KeyInfo> keys,
                               const std::vector<std::string>& except) {
  for (KeyInfo& key : keys)
    if (std::ranges::count(except, key.name) == 0) key.limits.used_if.push_back(condition);
  return keys;
}

Origins::Origins(const Config& config, const std::vector<KeyInfo>& keys) {
  for (const KeyInfo& key : keys)
    if (config.declares(key.name))
      options_[option_name(key.name)] = {config.origin(key.name), key.limits.advice};
}

const Origins::Option& Origins::of(const std::string& option) const {
  const auto found = options_.find(option);
  require(found != options_.end(), "settings: no key ends in {}; expected one of them", option);
  return found->second;
}

void Origins::fail(const std::string& option, const std::string& message) const {
  throw InputError(fmt::format("{}: {}", of(option).text, message));
}

void Origins::rethrow(const OptionError& error,
                      const std::map<std::string, std::string>& names) const {
  const auto name = names.find(error.option);
  const auto found = options_.find(name == names.end() ? error.option : name->second);
  if (found == options_.end()) throw;
  const std::string& advice = found->second.advice;
  if (advice.empty()) fail(found->first, error.what());
  throw Undecided(fmt::format("{}: {}; {}", found->second.text, error.what(), advice));
}

void Origins::expect_divides(const std::string& divisor, const std::string& whole) const {
  tapestry::expect_divides(of(divisor), of(whole));
}

const std::string& Origins::required_path(const std::string& missing,
                                          const std::string& wanted) const {
  const auto& path = std::get<std::string>(of("path").value);
  const auto source = options_.find("source");
  std::string advice = "give " + wanted;
  if (source != options_.end())
    if (const auto& text = std::get<std::string>(source->second.value); !text.empty())
      advice += ", such as " + text;
  expect(!path.empty(), "path", "there is {}; {}", missing, advice);
  expect(is_there(path), "path", "no such file or folder; {}", advice);
  return path;
}

void Origins::expect_no_path() const {
  expect(std::get<std::string>(of("path").value).empty(), "path",
         "the data of this config are synthetic; leave out this key");
}

}  // namespace tapestry
