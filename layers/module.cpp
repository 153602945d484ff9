#include "layers/module.hpp"

namespace tapestry {

// Walks a tree of modules and names what it meets.
class Collector final : public FieldVisitor {
 public:
  void operator()(const std::string& name, Parameter& parameter) override {
    parameter.name = prefix_ + name;
    parameters.push_back(&parameter);
  }

  void operator()(const std::string& name, Module& module) override {
    const std::string outer = prefix_;
    module.path_ = prefix_ + name;
    prefix_ = module.path_ + ".";
    module.fields(*this);
    prefix_ = outer;
  }

  std::vector<Parameter*> parameters;

 private:
  std::string prefix_;
};

std::vector<Parameter*> Module::parameters() {
  Collector collector;
  fields(collector);
  return collector.parameters;
}

void Module::convert(DType dtype) {
  for (Parameter* parameter : parameters()) parameter->convert(dtype);
}

}  // namespace tapestry
