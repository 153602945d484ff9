#include "train/config/config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

#include "data/json.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

constexpr const char* detected_origin = "data.path";  // of a value that was found in the data
constexpr std::size_t longest_shown = 80;             // bytes of a value in a message

const char* type_name(const Value& value) {
  constexpr const char* names[] = {"boolean", "integer",          "number",
                                   "string",  "list of integers", "list of strings"};
  return names[value.index()];
}

JsonValue json_of(const Value& value) {
  return std::visit([](const auto& one) { return JsonValue(one); }, value);
}

// Returns a bound of the key's numbers; null if there is none.
JsonValue json_of_bound(const KeyInfo& key, double bound) {
  if (std::isinf(bound)) return {};
  return std::holds_alternative<double>(key.fallback) ? JsonValue(bound)
                                                      : JsonValue(static_cast<std::int64_t>(bound));
}

std::string describe_range(const Limits& limits, bool integer) {
  const auto show = [&](double bound) {
    return integer ? fmt::format("{:.0f}", bound) : fmt::format("{}", bound);
  };
  if (std::isinf(limits.low) && std::isinf(limits.high)) return "a finite number";
  if (std::isinf(limits.high)) return "at least " + show(limits.low) + (integer ? "" : ", finite");
  if (std::isinf(limits.low)) return "at most " + show(limits.high);
  return fmt::format("between {} and {}", show(limits.low), show(limits.high));
}

// Returns what is expected instead of a value of another type: "an integer of 64 bits".
std::string expected_type(const KeyInfo& key, const TomlSetting& given) {
  const auto* text = given.value ? std::get_if<std::string>(&*given.value) : nullptr;
  const bool is_long =
      text && text->size() > 18 && text->find_first_not_of("+-0123456789") == text->npos;
  const bool is_integer = std::holds_alternative<std::int64_t>(key.fallback);
  if (std::holds_alternative<bool>(key.fallback)) return "true or false";
  return fmt::format("{} {}{}", is_integer ? "an" : "a", type_name(key.fallback),
                     is_integer && is_long ? " of 64 bits" : "");
}

// Returns whether a config inherits the key from its base: all but its name, the plug-in that it
// requires, and its published result.
bool is_inherited(const std::string& key) {
  return key != "name" && key != key::plugin.name && !key.starts_with("expected.");
}

std::string text_error(const Limits& limits, const std::string& text) {
  if (text.find('\0') != text.npos) return "expected no character U+0000";
  if (limits.choices.empty() || std::ranges::count(limits.choices, text) > 0) return {};
  return fmt::format("expected one of {}{}", fmt::join(limits.choices, ", "),
                     did_you_mean(text, limits.choices, "\""));
}

// Returns the Damerau-Levenshtein distance in which no letter is edited twice ("optimal string
// alignment").
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> two_before, before(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, before[j] + 1, before[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

// Returns the name with its section renamed if that is a common name of one: "optim.name" for
// "optimizer.name".
std::string with_known_section(const std::string& name) {
  constexpr std::array<std::pair<const char*, const char*>, 4> sections{{{"optimizer.", "optim."},
                                                                         {"training.", "train."},
                                                                         {"dataset.", "data."},
                                                                         {"network.", "model."}}};
  for (const auto& [other, known] : sections)
    if (name.starts_with(other)) return known + name.substr(std::string(other).size());
  return name;
}

// Returns the key that has the name `unknown` with another name of its section, in another section
// or in other libraries; "" if there is none.
std::string same_key_elsewhere(const std::vector<KeyInfo>& keys, const std::string& unknown) {
  const std::string known = with_known_section(unknown);
  if (std::ranges::count(keys, known, &KeyInfo::name) > 0) return known;
  const std::string name = unknown.substr(unknown.rfind('.') + 1);
  for (const KeyInfo& key : keys)
    if (key.name.substr(key.name.rfind('.') + 1) == name) return key.name;
  for (const KeyInfo& key : keys)
    if (std::ranges::count(key.limits.also_called, name) > 0) return key.name;
  return {};
}

// Throws InputError for a key that is not declared, with the most similar one.
[[noreturn]] void throw_unknown_key(const TomlSetting& given, const std::vector<KeyInfo>& keys) {
  std::vector<std::string> names;
  for (const KeyInfo& key : keys) names.push_back(key.name);
  names.emplace_back(base_key);
  const std::string same = same_key_elsewhere(keys, given.name);
  throw InputError(fmt::format("{}: unknown key {}{} (tapestry config lists the keys)",
                               given.origin, printable_beginning(given.name),
                               same.empty() ? did_you_mean(with_known_section(given.name), names)
                                            : fmt::format("; did you mean {}?", same)));
}

std::string divisors_of(std::int64_t n) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= n; ++i)
    if (n % i == 0) found.push_back(i);
  return fmt::format("{}", fmt::join(found, ", "));
}

bool may_change_on_resume(const KeyInfo& key) {
  return key.limits.may_change_on_resume || key.limits.does_not_affect_result;
}

}  // namespace

std::string range_error(const KeyInfo& key, const Value& value) {
  const Limits& limits = key.limits;
  const auto outside = [&](double number) {
    return !(std::isfinite(number) && number >= limits.low && number <= limits.high);
  };
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    if (outside(static_cast<double>(*integer))) return "expected " + describe_range(limits, true);
  if (const auto* number = std::get_if<double>(&value))
    if (outside(*number)) return "expected " + describe_range(limits, false);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    for (std::int64_t item : *list)
      if (outside(static_cast<double>(item)))
        return "expected integers " + describe_range(limits, true);
  if (const auto* text = std::get_if<std::string>(&value)) return text_error(limits, *text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& text : *list)
      if (const std::string wrong = text_error(limits, text); !wrong.empty()) return wrong;
  return {};
}

std::string declaration_error(const KeyInfo& key) {
  if (key.help.empty()) return "has no help; say what the key sets";
  const std::string wrong = range_error(key, key.fallback);
  return wrong.empty()
             ? ""
             : fmt::format("the default {} is not allowed; {}", to_toml(key.fallback), wrong);
}

std::string help_with_choices(const KeyInfo& key) {
  const std::vector<std::string>& choices = key.limits.choices;
  return choices.empty() ? key.help
                         : fmt::format("{}; one of {}", key.help, fmt::join(choices, ", "));
}

void throw_unhandled(const KeyInfo& key) {
  throw std::logic_error(fmt::format("key {}: one of its values is not handled", key.name));
}

std::string one_of(const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (const Value& value : values) names.push_back(to_toml(value));
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 100;  // longer words are not compared
  if (word.empty() || word.size() > longest) return "";
  std::string best;
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : candidates) {
    const std::size_t edits =
        candidate.starts_with(word) && word.size() > 2 ? 1 : edits_between(word, candidate);
    if (edits < fewest && edits <= 1 + std::max(word.size(), candidate.size()) / 4) {
      fewest = edits;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates,
                         const std::string& quote) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? "" : fmt::format("; did you mean {0}{1}{0}?", quote, meant);
}

Config::Config(const std::vector<ConfigDocument>& documents,
               const std::vector<std::string>& overrides, const std::vector<KeyInfo>& keys)
    : keys_(keys) {
  for (const KeyInfo& key : keys_)
    entries_[key.name] = {.key = key, .value = key.fallback, .origin = "default"};

  const auto checked = [&](const TomlSetting& given) -> Entry {
    const auto found = entries_.find(current_name(given.name));
    if (found == entries_.end()) throw_unknown_key(given, keys_);
    const KeyInfo& key = found->second.key;
    std::optional<Value> value = given.as_type_of(key.fallback);
    expect_input(value.has_value(), "{}: {} = {}: expected {}", given.origin, given.name,
                 given.shown(), expected_type(key, given));
    if (const auto* text = std::get_if<std::string>(&*value))
      if (const auto old = key.limits.old_choices.find(*text); old != key.limits.old_choices.end())
        value = old->second;
    const std::string wrong = range_error(key, *value);
    expect_input(wrong.empty(), "{}: {} = {}: {}", given.origin, given.name, to_toml(*value),
                 wrong);
    return {.key = key, .value = *value, .origin = given.origin};
  };

  int layer = 0;
  for (const ConfigDocument& document : documents | std::views::reverse) {
    ++layer;
    for (const TomlSetting& given : document.settings) {
      if (given.name == base_key) continue;
      Entry entry = checked(given);
      entry.layer = layer;
      Entry& known = entries_.at(entry.key.name);
      expect_input(known.layer < layer,
                   "{}: {}: is another name of {}, which is set as well; leave one out",
                   given.origin, given.name, entry.key.name);
      if (&document == &documents.front() || is_inherited(given.name))
        known = entry;
      else if (given.name == key::plugin.name)
        dropped_.push_back(fmt::format("{}: {} = {}: ignored; a base cannot require a plug-in",
                                       given.origin, given.name, given.shown()));
    }
  }
  ++layer;
  for (const std::string& override_text : overrides) {
    const std::string name = current_name(override_text.substr(0, override_text.find('=')));
    expect_input(name != base_key,
                 "--set {}: base can be set only in a config file; set base there", override_text);
    const auto known = entries_.find(name);
    const bool is_string =
        known != entries_.end() && std::holds_alternative<std::string>(known->second.key.fallback);
    entries_[name] = checked(parse_override(override_text, is_string));
    entries_[name].layer = layer;
  }
  drop_unused_settings();
}

bool Condition::holds(const Value& value) const {
  return (std::ranges::count(values, value) > 0) != excludes;
}

std::string Condition::wish() const {
  return excludes ? fmt::format("give another {}", key)
                  : fmt::format("set {} = {}", key, one_of(values));
}

// Returns the conditions of a key that are not met.
std::vector<const Condition*> Config::unmet(const KeyInfo& key) const {
  std::vector<const Condition*> conditions;
  for (const Condition& condition : key.limits.used_if)
    if (!condition.holds(value(condition.key))) conditions.push_back(&condition);
  return conditions;
}

std::string Config::why_unused(const KeyInfo& key) const {
  const std::vector<const Condition*> conditions = unmet(key);
  if (conditions.empty()) return "";
  const std::string& first = conditions.front()->key;
  return fmt::format("is not used with {} = {}", first, to_toml(value(first)));
}

void Config::drop_unused_settings() {
  std::vector<std::string> unused;
  for (const KeyInfo& key : keys_) {
    const std::vector<const Condition*> conditions = unmet(key);
    if (conditions.empty()) continue;
    Entry& found = entries_.at(key.name);
    found.unused = why_unused(key);
    unused.push_back(key.name);
    if (found.value == key.fallback) continue;
    for (const Condition* condition : conditions)
      if (entry(condition->key).layer <= found.layer)
        fail(key, fmt::format("is not used with {} = {}; leave out this key, or {}", condition->key,
                              to_toml(value(condition->key)), condition->wish()));
    dropped_.push_back(fmt::format("{}: {} = {}: ignored; it {}", found.origin, key.name,
                                   to_toml(found.value), found.unused));
  }
  for (const std::string& name : unused) {  // after all conditions were tested
    Entry& found = entries_.at(name);
    found.value = found.key.fallback;
    found.origin = "default";
  }
}

const Config::Entry& Config::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  require(
      found != entries_.end(),
      "config: key {} is not declared by this task; add it to TaskSpec::keys, or test with has()",
      name);
  return found->second;
}

void Config::detect(const std::string& key, Value value) {
  Entry& found = entries_.at(key);
  const bool is_chosen = std::holds_alternative<bool>(found.value) && found.layer > 0;
  if (is_chosen || found.value != found.key.fallback) return;
  found.value = std::move(value);
  found.origin = detected_origin;
}

void Config::reset(const std::string& beginning) {
  for (auto& [name, found] : entries_)
    if (name.starts_with(beginning)) {
      found.value = found.key.fallback;
      found.origin = "default";
      found.layer = 0;
    }
  for (auto& [name, found] : entries_)  // after all values were set
    if (name.starts_with(beginning)) found.unused = why_unused(found.key);
}

std::string Config::current_name(const std::string& name) const {
  const auto renamed = std::ranges::find_if(keys_, [&](const KeyInfo& key) {
    return std::ranges::count(key.limits.old_names, name) > 0;
  });
  return renamed == keys_.end() ? name : renamed->name;
}

bool Config::has(const std::string& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.unused.empty();
}

KeyOrigin Config::origin(const std::string& key) const {
  const Entry& found = entry(key);
  std::string value = to_toml(found.value);
  if (value.size() > longest_shown)
    value = value.starts_with('[') ? "[…]" : printable(value.substr(0, longest_shown)) + "…";
  return {.key = key,
          .value = found.value,
          .text = found.origin == "default" ? fmt::format("{} = {} (default)", key, value)
                                            : fmt::format("{}: {} = {}", found.origin, key, value),
          .layer = found.layer};
}

void Config::fail(const KeyInfo& key, const std::string& message) const {
  throw InputError(fmt::format("{}: {}", origin(key.name).text, message));
}

void expect_divides(const KeyOrigin& divisor, const KeyOrigin& whole) {
  const auto small = std::get<std::int64_t>(divisor.value),
             large = std::get<std::int64_t>(whole.value);
  if (large % small == 0) return;
  throw InputError(
      whole.layer > divisor.layer
          ? fmt::format("{}: must be a multiple of {} = {}; or set {} to one of {}", whole.text,
                        divisor.key, small, divisor.key, divisors_of(large))
          : fmt::format("{}: must divide {} = {}: one of {}; or set {} to a multiple of {}",
                        divisor.text, whole.key, large, divisors_of(large), whole.key, small));
}

// Returns the text of all entries. `written` returns the lines of an entry, given "key = value".
template <class Written>
std::string Config::write(Written written) const {
  std::string text, section;
  for (const KeyInfo& key : keys_) {
    const std::size_t dot = key.name.find('.');
    const std::string own = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (own != section) text += fmt::format("\n[{}]\n", section = own);
    const Entry& found = entries_.at(key.name);
    text += written(found, fmt::format("{} = {}", key.name.substr(own.empty() ? 0 : dot + 1),
                                       to_toml(found.value)));
  }
  return text;
}

std::string Config::toml(const std::vector<std::string>& beginnings) const {
  return write([&](const Entry& found, const std::string& line) {
    const bool is_meant = std::ranges::any_of(
        beginnings, [&](const std::string& text) { return found.key.name.starts_with(text); });
    return is_meant && found.unused.empty() ? line + "\n" : "";
  });
}

std::string Config::toml_with_origins() const {
  return write([](const Entry& found, const std::string& line) {
    if (!found.unused.empty()) return std::string();
    if (found.origin == "default") return line + "\n";
    return fmt::format("{:<35} # {}\n", line, printable(found.origin));
  });
}

std::string Config::explain() const {
  return write([](const Entry& found, const std::string& line) {
    if (found.unused.empty())
      return fmt::format("{:<35} # {}: {}\n", line, found.origin, help_with_choices(found.key));
    return fmt::format("{:<35} # {}: {}; {}\n", "# " + line, found.origin,
                       help_with_choices(found.key), found.unused);
  });
}

std::string Config::json() const {
  JsonValue keys = JsonValue::array();
  for (const KeyInfo& key : keys_) {
    const Entry& found = entries_.at(key.name);
    std::vector<std::string> aliases = key.limits.old_names;
    aliases.insert(aliases.end(), key.limits.also_called.begin(), key.limits.also_called.end());
    keys.push_back({{"key", key.name},
                    {"value", json_of(found.value)},
                    {"origin", found.origin},
                    {"unused", found.unused},
                    {"type", type_name(key.fallback)},
                    {"default", json_of(key.fallback)},
                    {"minimum", json_of_bound(key, key.limits.low)},
                    {"maximum", json_of_bound(key, key.limits.high)},
                    {"choices", key.limits.choices},
                    {"help", key.help},
                    {"aliases", aliases}});
  }
  return JsonValue{{"keys", keys}}.dump();
}

std::map<std::string, std::string> Config::settings() const {
  std::map<std::string, std::string> settings;
  for (const auto& [name, found] : entries_)
    if (found.unused.empty()) settings[name] = to_toml(found.value);
  return settings;
}

std::map<std::string, std::string> Config::settings_that_count() const {
  std::map<std::string, std::string> counting = settings();
  std::erase_if(counting, [&](const auto& setting) {
    return entry(setting.first).key.limits.does_not_affect_result;
  });
  return counting;
}

std::vector<std::string> Config::differences(const Config& resumed) const {
  std::vector<std::string> differing;
  for (const KeyInfo& key : keys_) {
    const Entry& mine = entries_.at(key.name);
    const auto other = resumed.entries_.find(key.name);
    if (may_change_on_resume(key) || other == resumed.entries_.end()) continue;
    const Entry& now = other->second;
    // Earlier versions did not record what they found in the data.
    if (now.origin == detected_origin && mine.value == key.fallback) continue;
    // If the key is unused, the key that makes it unused is named instead, unless that one may
    // change.
    const bool counts = (mine.unused.empty() && now.unused.empty()) ||
                        std::ranges::all_of(key.limits.used_if, [&](const Condition& condition) {
                          return may_change_on_resume(entry(condition.key).key);
                        });
    if (counts && mine.value != now.value)
      differing.push_back(
          fmt::format("{} ({}, now {})", key.name, to_toml(mine.value), to_toml(now.value)));
  }
  return differing;
}

}  // namespace tapestry
