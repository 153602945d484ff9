#pragma once

#include <concepts>
#include <functional>
#include <type_traits>

#include "data/option_error.hpp"
#include "train/config/config.hpp"

// The settings of components: each key is declared once, with the member of the component's options
// that it sets.
namespace tapestry {

// Returns the condition that a key which holds text is one of these.
template <class... Texts>
Condition key_is(const std::string& key, const Texts&... texts) {
  return {key, {Value(std::string(texts))...}};
}

// A member of a member: within(&A::b, &B::c) of `a` is a.b.c.
template <class Outer, class Inner>
auto within(Outer outer, Inner inner) {
  return [=](auto& whole) -> auto& { return std::invoke(inner, std::invoke(outer, whole)); };
}

// The values of a setting by the names that a config has for them. The first name of a value is
// listed; others are accepted, because earlier versions wrote them.
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

template <class T>
concept PlainNumber = std::integral<T> && !std::same_as<T, char> && !std::same_as<T, bool>;
// What a config can hold without a name.
template <class T>
concept PlainValue = PlainNumber<T> || std::same_as<T, bool> || std::same_as<T, double> ||
    std::same_as<T, std::string> || std::same_as<T, std::vector<std::int64_t>> ||
    std::same_as<T, std::vector<std::string>>;

template <class Options, class Member>
using MemberOf = std::remove_cvref_t<std::invoke_result_t<const Member&, Options&>>;

// A key, and the member of `Options` that it sets, whose initial value is the key's default.
// `member` is &Options::member, or within() another.
template <class Options>
struct Bound : KeyInfo {
  std::function<Value(const Options&)> get;
  std::function<void(Options&, const Value&)> set;

  template <class Member>
  requires PlainValue<MemberOf<Options, Member>> Bound(std::string key, Member member,
                                                       std::string text, Limits allowed = {})
      : KeyInfo{std::move(key), {}, std::move(text), std::move(allowed)} {
    using T = MemberOf<Options, Member>;
    using Held = std::conditional_t<PlainNumber<T>, std::int64_t, T>;
    get = [member](const Options& options) {
      return Value(static_cast<Held>(std::invoke(member, options)));
    };
    set = [member](Options& options, const Value& value) {
      std::invoke(member, options) = static_cast<T>(std::get<Held>(value));
    };
    fallback = Value(static_cast<Held>(initial(member)));
  }

  // A key whose values have names: a config holds the name.
  template <class Member>
  requires(!PlainValue<MemberOf<Options, Member>>)
      Bound(std::string key, Member member, std::string text,
            std::type_identity_t<Named<MemberOf<Options, Member>>> names, Limits allowed = {})
      : Bound(Choice<MemberOf<Options, Member>>(std::move(key), initial(member), std::move(text),
                                                std::move(names)),
              member, std::move(allowed)) {}

  // A key that is declared elsewhere.
  template <class T, class Member>
  Bound(const Key<T>& key, Member member, std::string advice = {})
      : Bound(key.name, member, key.help, key.limits) {
    limits.advice = std::move(advice);
  }
  template <class T, class Member>
  Bound(const Choice<T>& choice, Member member) : Bound(choice, member, choice.limits) {}

 private:
  template <class Member>
  static MemberOf<Options, Member> initial(Member member) {
    static const Options options{};  // static: GCC warns of a local one that its padding is read
    return std::invoke(member, options);
  }
  template <class T, class Member>
  Bound(const Choice<T>& choice, Member member, Limits allowed)
      : KeyInfo{choice.name, choice.fallback, choice.help, std::move(allowed)} {
    limits.choices = choice.limits.choices;
    limits.old_choices = choice.limits.old_choices;
    get = [member, choice](const Options& options) {
      return Value(choice.name_of(std::invoke(member, options)));
    };
    set = [member, choice](Options& options, const Value& value) {
      std::invoke(member, options) = choice.value_of(std::get<std::string>(value));
    };
  }
};

// Returns the name of an option: that of its key without the section, "gaps" for data.gaps.
std::string option_name(const std::string& key);

// The error for data that can be read in several ways; its message names the settings that decide.
class Undecided final : public InputError {
 public:
  using InputError::InputError;
};

// Where the options of a component were set, for messages. Options are named as option_name() does.
class Origins {
 public:
  // Throws InputError unless `holds`: "file:line:column: key = value: message".
  template <class... Args>
  void expect(bool holds, const std::string& option, fmt::format_string<Args...> message,
              Args&&... args) const {
    if (!holds) fail(option, fmt::format(message, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail(const std::string& option, const std::string& message) const;

  // Throws InputError unless the integer `divisor` divides `whole`.
  void expect_divides(const std::string& divisor, const std::string& whole) const;

  // Returns what `read` returns. An OptionError is thrown as fail() does, with the advice of its
  // key; one that names none of these options is thrown unchanged. `names` are the names here of
  // options that `read` names otherwise.
  template <class Read>
  auto checked(Read read, const std::map<std::string, std::string>& names = {}) const {
    try {
      return read();
    } catch (const OptionError& error) {
      rethrow(error, names);
    }
  }

  // Returns data.path. Throws InputError if it names no existing file or folder; `missing` and
  // `wanted` complete "there is …; give …".
  const std::string& required_path(const std::string& missing, const std::string& wanted) const;
  // Throws InputError if data.path is set, although the data are synthetic.
  void expect_no_path() const;

 protected:
  Origins(const Config& config, const std::vector<KeyInfo>& keys);

 private:
  struct Option : KeyOrigin {
    std::string advice;
  };
  const Option& of(const std::string& option) const;
  [[noreturn]] void rethrow(const OptionError& error,
                            const std::map<std::string, std::string>& names) const;

  std::map<std::string, Option> options_;
};

// The options of a component as a config sets them.
template <class Options>
struct Given : Options, Origins {
  Given(const Config& config, const std::vector<KeyInfo>& keys) : Origins(config, keys) {}
};

// Returns these lists of keys as one.
std::vector<KeyInfo> joined(const std::vector<std::vector<KeyInfo>>& lists);
// Returns the keys with a further condition on all of them except these.
std::vector<KeyInfo> used_with(const Condition& condition, std::vector<KeyInfo> keys,
                               const std::vector<std::string>& except = {});

// The settings of a component.
template <class Options>
class SettingsOf {
 public:
  SettingsOf(std::vector<Bound<Options>> all) : all_(std::move(all)) {}

  std::vector<KeyInfo> keys() const { return {all_.begin(), all_.end()}; }
  // Returns the keys up to that of `last`.
  std::vector<KeyInfo> keys_to(const std::string& last) const {
    const auto end = std::ranges::find(all_, (*this)[last].name, &KeyInfo::name);
    return {all_.begin(), end + 1};
  }

  // Returns the setting of an option. Throws std::invalid_argument for an unknown one.
  const Bound<Options>& operator[](const std::string& option) const {
    const auto found =
        std::ranges::find(all_, option, [](const auto& bound) { return option_name(bound.name); });
    require(found != all_.end(), "settings: no key ends in {}; expected one of them", option);
    return *found;
  }

  // Returns the options that a config sets. Options whose keys its task does not have, and unused
  // ones, have their defaults.
  Given<Options> of(const Config& config) const {
    Given<Options> given(config, keys());
    for (const Bound<Options>& bound : all_)
      if (config.declares(bound.name)) bound.set(given, config.value(bound.name));
    return given;
  }

  // Adds those of these options to `settings` that differ from their defaults.
  template <class Settings>
  void add_chosen(Settings& settings, const Options& found, const std::vector<std::string>& options,
                  const std::string& comment) const {
    for (const std::string& option : options) {
      const Bound<Options>& bound = (*this)[option];
      if (bound.get(found) != bound.fallback)
        settings.push_back({bound.name, bound.get(found), comment});
    }
  }

  // Returns the name of an option's value, as a config holds it.
  std::string text(const std::string& option, const Options& options) const {
    return std::get<std::string>((*this)[option].get(options));
  }

  // Sets the keys of these options to what was found in the data, as Config::detect does.
  void detect(Config& config, const Options& found, const std::vector<std::string>& options) const {
    for (const std::string& option : options)
      config.detect((*this)[option].name, (*this)[option].get(found));
  }

 private:
  std::vector<Bound<Options>> all_;
};

}  // namespace tapestry
