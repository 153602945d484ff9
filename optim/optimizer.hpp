#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "autograd/tape.hpp"
#include "autograd/tensor.hpp"
#include "optim/array_part.hpp"

namespace tapestry {

// Decoupled weight decay: each step multiplies a parameter by 1 - η λ.
struct WeightDecay {
  double rate = 0;   // λ
  bool all = false;  // decays biases, norms and embeddings as well as weights
};

// How the updates of one parameter differ from those of the others.
struct ParameterOptions {
  double rate_factor = 1;                // factor of the learning rate
  std::optional<double> weight_decay{};  // λ, whatever the role; none: that of the optimizer
};

// The arrays of an optimizer by name, each for a whole parameter.
using OptimizerState = std::vector<std::pair<std::string, Array>>;

// The base of optimizers, which update parameters, except fixed ones, from their gradients; shared
// parameters once. A subclass implements the update of a range of elements.
class Optimizer {
 public:
  explicit Optimizer(std::vector<Parameter*> parameters, const WeightDecay& decay = {});
  virtual ~Optimizer();

  // Makes a step with the gradients times `scale`, the factor of clipping. Throws
  // std::invalid_argument for a parameter without gradient, for one of another size or dtype than
  // in the first step or whose model was moved, between a forward pass with a parameter and
  // backward(), and for a rate or scale that is not finite.
  void step(const Gradients& gradients, double learning_rate, double scale = 1);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  // Sets the options of one of parameters(). Throws std::invalid_argument for another parameter.
  void set_options(const Parameter& parameter, const ParameterOptions& options);

  // Restricts updates and state to these parts of the parameters, in ascending order; the index
  // does not count fixed parameters. Throws std::invalid_argument after the first step or call of
  // state(), and for a part that is empty or outside its parameter, or only a part of a parameter
  // that is updated as a whole.
  void keep_to(std::vector<ArrayPart> share);

  // An array of the optimizer state, which checkpoints save: zeros before the first step.
  struct Slot {
    std::string name, kind;  // "first_moment.<parameter>", "first_moment"
    const Parameter& parameter;
    ArrayPart part;  // the part of the parameter, which is whole unless keep_to() was called
    Array values;
  };
  std::vector<Slot> state() const;
  // Returns the kinds of a parameter's slots.
  virtual std::vector<std::string> slot_names(const Parameter& parameter) const = 0;

  // Returns whether the parameter is updated by one call of update_whole(), which needs all of its
  // gradient, instead of by calls of update() for parts.
  virtual bool updates_whole(const Parameter& /*parameter*/) const { return false; }

  // Returns the arrays of the state that belong to no parameter. They share memory with those of
  // the optimizer.
  virtual OptimizerState numbers() const { return {}; }

  // Returns whether an average of the parameters after each step is to be evaluated and saved in
  // their place, as AveragedWeights does, and the share of the newest ones in it.
  virtual bool averages() const { return false; }
  virtual double average_share() const { return 0; }

  const std::vector<Parameter*>& parameters() const { return parameters_; }  // without fixed ones

 protected:
  // The elements [begin, end) of one parameter, with its gradient and its slots.
  struct Update {
    Array parameter;        // written in place
    const Array& gradient;  // before scaling
    const std::vector<Array>& slots;
    std::int64_t slots_begin;  // index in the parameter of the first element of a slot
    std::int64_t begin, end;
    double scale, learning_rate;
    double weight_decay;  // 0 if the parameter does not decay
    std::int64_t step;    // number of the step, from 1

    // Return these elements of the parameter or its gradient, and of a slot. Throw
    // std::invalid_argument unless T is their dtype.
    template <class T>
    std::span<T> of(Array array) const {
      return array.mutable_values<T>().subspan(begin, end - begin);
    }
    template <class T>
    std::span<T> of_slot(std::size_t slot) const {
      return Array(slots[slot]).mutable_values<T>().subspan(begin - slots_begin, end - begin);
    }
  };
  virtual void begin_step(double /*learning_rate*/) {}  // called once before the updates of a step
  virtual void update(const Update& update) const = 0;  // called on several threads
  // Updates all elements of a parameter. Called on the thread of step(), also in a dry run.
  virtual void update_whole(const Update& /*update*/) const {}

 private:
  void make_slots() const;
  Update update_of(std::size_t part, const Gradients& gradients, double learning_rate,
                   double scale) const;

  WeightDecay decay_;
  std::vector<Parameter*> parameters_;
  std::vector<ParameterOptions> options_;          // of each parameter
  std::vector<ArrayPart> share_;                   // the updated parts of parameters_
  mutable std::vector<std::vector<Array>> slots_;  // one element for each part of the shard
  std::int64_t steps_ = 0;
};

// Returns the arrays of the optimizer. Throws std::invalid_argument if keep_to() left only a part
// of a parameter.
OptimizerState whole_state(const Optimizer& optimizer);

// The value of an OptimizerSetting, of the type of its default.
using OptimizerValue = std::variant<bool, std::int64_t, double>;
using OptimizerValues = std::map<std::string, OptimizerValue>;  // keyed by the name of the setting

// A range of numbers with its ends; infinity: no limit.
struct AllowedRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// An option of an optimizer that is set by name.
struct OptimizerSetting {
  std::string name;
  OptimizerValue fallback;  // the default; its type is the setting's
  std::string help;
  AllowedRange range{};  // range of a number
};

struct OptimizerType {
  std::vector<OptimizerSetting> settings;
  // Constructs the optimizer. Settings without a value keep their defaults; other values are
  // ignored. Throws std::bad_variant_access for a value of another type than the default's.
  std::function<std::unique_ptr<Optimizer>(std::vector<Parameter*>, const OptimizerValues& values)>
      make;
  int registrations = 0;  // more than 1: several optimizers have this name; the first is kept

  bool has(const std::string& setting) const;
};

// Returns the optimizers by name, which their sources register. Settings of two optimizers with the
// same name have the same meaning, default and range.
std::map<std::string, OptimizerType>& optimizer_registry();

// Declares a setting by the field of the options that it sets, which has the default.
template <class Options>
struct Setting {
  using Field = std::variant<bool Options::*, std::int64_t Options::*, double Options::*>;
  std::string name;
  Field field;
  std::string help;
  AllowedRange range{};
};

inline constexpr const char* weight_decay_setting = "weight_decay";

// Returns the settings, followed by those of weight decay.
template <class Options>
std::vector<Setting<Options>> with_weight_decay(std::vector<Setting<Options>> settings) {
  settings.push_back({weight_decay_setting,
                      &Options::weight_decay,
                      "decoupled weight decay, times the learning rate at each step",
                      {.low = 0, .high = 1e3}});
  settings.push_back({"decay_all", &Options::decay_all,
                      "apply the weight decay also to biases, norms and embeddings"});
  return settings;
}

// Registers the optimizer T when it is defined at namespace scope in T's source. T is constructed
// from parameters and T::Options.
template <class T>
struct RegisterOptimizer {
  using Options = typename T::Options;

  RegisterOptimizer(const std::string& name, const std::vector<Setting<Options>>& settings) {
    OptimizerType& type = optimizer_registry()[name];
    if (type.registrations++ > 0) return;
    for (const Setting<Options>& setting : settings)
      type.settings.push_back(
          {setting.name, default_of(setting.field), setting.help, setting.range});
    type.make = [settings](std::vector<Parameter*> parameters, const OptimizerValues& values) {
      return std::make_unique<T>(std::move(parameters), options_of(settings, values));
    };
  }

 private:
  static OptimizerValue default_of(const typename Setting<Options>::Field& field) {
    const auto defaults = std::make_unique<Options>();  // GCC warns of a local one's padding
    return std::visit([&](auto member) { return OptimizerValue(*defaults.*member); }, field);
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
