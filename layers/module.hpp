#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/random.hpp"
#include "autograd/restore.hpp"
#include "autograd/tensor.hpp"

namespace tapestry {

class Module;

// A function that is called once for each field of a module, in the order of their declaration.
class FieldVisitor final {
 public:
  using VisitParameter = std::function<void(const std::string& name, Parameter& parameter)>;
  using VisitModule = std::function<void(const std::string& name, Module& module)>;

  FieldVisitor(VisitParameter parameter, VisitModule module)
      : parameter_(std::move(parameter)), module_(std::move(module)) {}
  void operator()(const std::string& name, Parameter& parameter) { parameter_(name, parameter); }
  void operator()(const std::string& name, Module& module) { module_(name, module); }
  // Visit the object, if there is one.
  template <class T>
  void operator()(const std::string& name, std::optional<T>& field) {
    if (field) (*this)(name, *field);
  }
  template <class T>
  void operator()(const std::string& name, std::unique_ptr<T>& field) {
    if (field) (*this)(name, *field);
  }
  // Visits the elements, which are named "name.0", "name.1", ….
  template <class T>
  void operator()(const std::string& name, std::vector<T>& fields) {
    for (std::size_t i = 0; i < fields.size(); ++i)
      (*this)(name + "." + std::to_string(i), fields[i]);
  }

  // Visits several members, for TAPESTRY_FIELDS: `names` are theirs, separated by ", ".
  template <class... Fields>
  void all(std::string_view names, Fields&... fields) {
    const auto next_name = [&names] {
      const std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(names.size(), name.size() + 2));
      return std::string(name);
    };
    ((*this)(next_name(), fields), ...);
  }

 private:
  VisitParameter parameter_;
  VisitModule module_;
};

// Defines fields() of a module: it visits these members in this order, named as they are.
#define TAPESTRY_FIELDS(Class, ...) \
  void Class::fields(FieldVisitor& visit) { visit.all(#__VA_ARGS__, __VA_ARGS__); }

// A layer or model: named fields (parameters and modules), a constructor that draws the initial
// values, and `forward`, which throws std::invalid_argument for shapes and dtypes that do not fit.
// Parameters are float32 until convert().
class Module {
 public:
  Module() = default;
  // A copy would share its parameters' memory. An optimizer of the parameters is made after a move.
  Module(Module&&) = default;
  virtual ~Module() = default;

  // Calls visit("name", field) for each field, in the order of declaration.
  virtual void fields(FieldVisitor& visit) = 0;

  // Returns the parameters of the whole tree, and gives them dotted names, and modules their paths.
  // Must be called before the first forward(). A parameter or module that is reached several times
  // counts once, under its first name, and so do parameters that are copies of each other. Throws
  // std::invalid_argument for parameters that share memory and have separate gradients.
  std::vector<Parameter*> parameters();

  void convert(DType dtype);  // converts all parameters; shared ones stay shared

  // Returns the dotted path from the module whose parameters() was called, or "model" for that
  // module, for errors and profiles.
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "model";
};

// Calls parameter(name, field) and module(path, field) for each field of a tree once, with dotted
// names; for a module before its own fields.
void visit_tree(Module& root, const FieldVisitor::VisitParameter& parameter,
                const FieldVisitor::VisitModule& module);

// Returns all modules of a kind in a tree, without its root.
template <class Kind>
std::vector<Kind*> modules_of(Module& root) {
  std::vector<Kind*> found;
  visit_tree(
      root, [](const std::string&, Parameter&) {},
      [&](const std::string&, Module& module) {
        if (auto* kind = dynamic_cast<Kind*>(&module)) found.push_back(kind);
      });
  return found;
}

// --- initial values of parameters, float32 ---

// A guard that limits the total size of the initial values of this thread. Beyond the limit,
// initial_normal() and initial_uniform() throw InitialValuesTooLarge, so that a model that is
// larger than its checkpoint is rejected before it fills the memory.
class InitialValuesLimit final : Restore<std::int64_t> {
 public:
  explicit InitialValuesLimit(std::int64_t bytes);
  static std::int64_t left();  // returns the remaining bytes; the largest number without a limit
};
struct InitialValuesTooLarge : std::length_error {
  using std::length_error::length_error;
};

// A guard that leaves the initial values of this thread undefined, because a checkpoint overwrites
// them; or, with false, computes them again.
class SkipInitialValues final : Restore<bool> {
 public:
  explicit SkipInitialValues(bool is_left_out = true);
};

// A guard that makes the initial values of this thread a dry run: models have only shapes.
class InitialDryRun final : Restore<bool> {
 public:
  InitialDryRun();
};

// Return initial values from N(0, standard_deviation²), and uniform in [-bound, bound). Throw
// InitialValuesTooLarge beyond the limit of an InitialValuesLimit.
Array initial_normal(const Shape& shape, double standard_deviation, Random& init);
Array initial_uniform(const Shape& shape, double bound, Random& init);

}  // namespace tapestry
