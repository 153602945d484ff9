#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "autograd/parameter.hpp"
#include "autograd/tape.hpp"
#include "optim/array_part.hpp"

namespace tapestry {

// Decoupled: with gradients of 0, a parameter shrinks by (1 - η λ) a step.
struct WeightDecay {
  double rate = 0;   // λ
  bool all = false;  // also biases, norms and embeddings
};

// Moves parameters, but fixed ones, against their gradients. A subclass is the mathematics of an
// element.
class Optimizer {
 public:
  explicit Optimizer(std::vector<Parameter*> parameters, const WeightDecay& decay = {});
  virtual ~Optimizer() = default;

  // One step with gradients scaled by `scale` (clipping's factor). A parameter that has no
  // gradient is std::invalid_argument, which names it.
  void step(const Gradients& gradients, double learning_rate, double scale = 1);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  // Before the first step: moves only these parts of the parameters, in order, whose index does not
  // count fixed ones, and keeps a state of no others.
  void keep_to(std::vector<ArrayPart> share);

  // What a checkpoint keeps: "first_moment.<parameter>" and its like, zeros before the first step.
  struct Slot {
    std::string name, kind;  // "first_moment.<parameter>", "first_moment"
    const Parameter& parameter;
    ArrayPart part;  // of the parameter: all of it, unless keep_to() said less
    Array values;
  };
  std::vector<Slot> state() const;
  std::vector<std::string> slot_kinds() const { return slot_names(); }

  const std::vector<Parameter*>& parameters() const { return parameters_; }  // without fixed ones

 protected:
  // Of the elements [begin, end) of one parameter, its gradient and its slots.
  struct Update {
    Array parameter;        // written in place
    const Array& gradient;  // before scaling
    const std::vector<Array>& slots;
    std::int64_t slots_begin;  // the element of the parameter that a slot's first one belongs to
    std::int64_t begin, end;
    double scale, learning_rate;
    double weight_decay;  // 0 where the parameter is excluded
    std::int64_t step;    // from 1

    // Those elements of the parameter or its gradient, and of a slot.
    template <class T>
    std::span<T> of(Array array) const {
      return array.mutable_values<T>().subspan(begin, end - begin);
    }
    template <class T>
    std::span<T> of_slot(std::size_t slot) const {
      return Array(slots[slot]).mutable_values<T>().subspan(begin - slots_begin, end - begin);
    }
  };
  virtual std::vector<std::string> slot_names() const = 0;
  virtual void update(const Update& update) const = 0;  // called on several threads

 private:
  void make_slots() const;

  WeightDecay decay_;
  std::vector<Parameter*> parameters_;
  std::vector<ArrayPart> share_;                   // of them
  mutable std::vector<std::vector<Array>> slots_;  // one list a part of the share
  std::int64_t steps_ = 0;
};

// An optimiser's arrays, each of a whole parameter, by their names.
using OptimizerState = std::vector<std::pair<std::string, Array>>;
OptimizerState whole_state(const Optimizer& optimizer);  // of one that keeps to no share

// What a setting may be.
using OptimizerValue = std::variant<bool, std::int64_t, double>;
using OptimizerValues = std::map<std::string, OptimizerValue>;  // by the settings' names

struct AllowedRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// An option of an optimiser that can be given by name.
struct OptimizerSetting {
  std::string name;
  OptimizerValue fallback;  // the default; its type is the setting's
  std::string help;
  AllowedRange range{};  // of a number
};

struct OptimizerType {
  std::vector<OptimizerSetting> settings;
  // Settings that `values` does not name keep their defaults; names of no setting are ignored.
  std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>, const OptimizerValues& values)>
      make;

  bool has(const std::string& setting) const;
};

// Optimisers by name. Each one's source file registers it. Settings of two optimisers that share a
// name mean the same, with the same default and range.
std::map<std::string, OptimizerType>& optimizer_registry();

// The declaration of a setting: the field of the options that it is, from which its default comes.
template <class Options>
struct Setting {
  using Field = std::variant<bool Options::*, std::int64_t Options::*, double Options::*>;
  std::string name;
  Field field;
  std::string help;
  AllowedRange range{};
};

inline constexpr const char* weight_decay_setting = "weight_decay";

// Those of an optimiser that decays weights, after its own.
template <class Options>
std::vector<Setting<Options>> with_weight_decay(std::vector<Setting<Options>> settings) {
  settings.push_back({weight_decay_setting,
                      &Options::weight_decay,
                      "decoupled, a step and unit of learning rate",
                      {.low = 0, .high = 1e3}});
  settings.push_back(
      {"decay_all", &Options::decay_all, "decay biases, norms and embeddings as well"});
  return settings;
}

// At namespace scope in its source file: registers the optimiser T, which is made from parameters
// and its T::Options.
template <class T>
struct RegisterOptimizer {
  using Options = typename T::Options;

  RegisterOptimizer(const std::string& name, const std::vector<Setting<Options>>& settings) {
    OptimizerType& type = optimizer_registry()[name];
    for (const Setting<Options>& setting : settings)
      type.settings.push_back(
          {setting.name, default_of(setting.field), setting.help, setting.range});
    type.make = [settings](std::vector<Parameter*> parameters, const OptimizerValues& values) {
      return std::make_unique<T>(std::move(parameters), options_of(settings, values));
    };
  }

 private:
  static OptimizerValue default_of(const typename Setting<Options>::Field& field) {
    static const Options defaults{};  // static: of a local one GCC thinks that its padding is read
    return std::visit([](auto member) { return OptimizerValue(defaults.*member); }, field);
  }

  static Options options_of(const std::vector<Setting<Options>>& settings,
                            const OptimizerValues& values) {
    Options options;
    for (const Setting<Options>& setting : settings)
      if (const auto given = values.find(setting.name); given != values.end())
        std::visit([&]<class Held>(
                       Held Options::*field) { options.*field = std::get<Held>(given->second); },
                   setting.field);
    return options;
  }
};

}  // namespace tapestry
