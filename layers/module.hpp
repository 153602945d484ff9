#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/parameter.hpp"
#include "autograd/random.hpp"

namespace tapestry {

class Module;

// Is called once for each field of a module, in the order of their declaration.
class FieldVisitor final {
 public:
  using VisitParameter = std::function<void(const std::string& name, Parameter& parameter)>;
  using VisitModule = std::function<void(const std::string& name, Module& module)>;

  FieldVisitor(VisitParameter parameter, VisitModule module)
      : parameter_(std::move(parameter)), module_(std::move(module)) {}
  void operator()(const std::string& name, Parameter& parameter) { parameter_(name, parameter); }
  void operator()(const std::string& name, Module& module) { module_(name, module); }

 private:
  VisitParameter parameter_;
  VisitModule module_;
};

// Fields (parameters and modules, by name), a constructor that takes the random numbers of its
// initial values, and forward. Parameters are float32 until convert().
class Module {
 public:
  Module() = default;
  Module(Module&&) = default;  // not copied: a copy would share its parameters' memory
  virtual ~Module() = default;

  // Calls visit("name", field) for every field.
  virtual void fields(FieldVisitor& visit) = 0;

  // The parameters of the whole tree, with dotted names from here. The call also gives every module
  // its path: whoever trains, loads or converts a model makes it before the first forward().
  std::vector<Parameter*> parameters();

  void convert(DType dtype);  // every parameter

  // Dotted, from the module whose parameters() named it; errors name the module by it.
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "model";
};

}  // namespace tapestry
