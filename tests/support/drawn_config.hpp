#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/random.hpp"
#include "tests/support/folder.hpp"
#include "train/config/config.hpp"
#include "train/task.hpp"

// Random configs: small versions of shipped configs, on data of each kind, with random values of
// the other keys.
namespace tapestry {

// Bounds of a number within its key's declared range, so that the config is sound and its doctor
// takes about a second. An integer is low, 2 · low, 4 · low, … up to high.
struct Bounds {
  double low, high;
  bool or_zero = false;  // 0 has a meaning of its own: none, or the default
};
using BoundsOf = std::map<std::string, Bounds>;
constexpr Bounds clipped_by_sgd = {3e-2, 1e-1};  // learning rates with a limit of the norm

extern const BoundsOf usual_bounds;                         // by key
extern const std::map<std::string, std::string> not_drawn;  // keys that are not drawn, and why

// Returns whether the program has the key: tests register more optimizers, whose keys it lacks.
bool is_of_program(const KeyInfo& key);

// A shipped config, its fixed settings, and its bounds.
struct SoundConfig {
  std::string name;
  Strings fixed{};  // "key=value", "--from=RUN"
  BoundsOf bounds{};
  Strings kept{};                        // keys that have the value of the config
  Bounds rates_of_sgd = clipped_by_sgd;  // without a limit of the gradient's norm
};

// A random config: the values of the keys that were drawn or fixed, in the order of the keys.
class DrawnConfig {
 public:
  DrawnConfig(const SoundConfig& sound, Random& random);

  const std::string& name() const { return sound_.name; }
  // Returns the settings behind the name: "key=value", "--from=RUN".
  Strings words() const;
  Config config() const;
  bool begins_with_a_run() const { return base_settings().size() < sound_.fixed.size(); }

  // Returns whether all nodes of a graph have equal values after every layer, as with features that
  // are all 1, so that no graph network can tell graphs of the same size apart.
  bool is_blind() const;

  Strings keys() const;  // that were drawn
  DrawnConfig without(const std::string& key) const;

 private:
  Strings base_settings() const;
  bool is_drawn(const KeyInfo& key) const;
  bool is_needed(const KeyInfo& key) const;
  Value value(const std::string& name) const;
  double number(const std::string& name) const;  // 0 if the task has no such key, or it is unused
  bool is_used(const KeyInfo& key) const;
  Value draw(const KeyInfo& key, Random& random) const;

  SoundConfig sound_;
  Config base_;
  std::map<std::string, Value> values_;
};

// Removes each setting without which violation() still returns a fault, and returns the config that
// is left. violation() returns "" for a config without a fault.
DrawnConfig shrink(DrawnConfig config,
                   const std::function<std::string(const DrawnConfig&)>& violation);

// Makes a config of any task from its number, on data in its own folder.
class ConfigGenerator {
 public:
  ConfigGenerator();
  DrawnConfig draw(std::uint64_t number) const;

 private:
  TemporaryFolder folder_;
  std::vector<SoundConfig> sound_;
};

}  // namespace tapestry
