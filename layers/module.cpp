#include "layers/module.hpp"

namespace tapestry {

std::vector<Parameter*> Module::parameters() {
  std::vector<Parameter*> found;
  std::string prefix;
  FieldVisitor visit(
      [&](const std::string& name, Parameter& parameter) {
        parameter.name = prefix + name;
        found.push_back(&parameter);
      },
      [&](const std::string& name, Module& module) {
        const std::string outer = prefix;
        module.path_ = prefix + name;
        prefix = module.path_ + ".";
        module.fields(visit);
        prefix = outer;
      });
  fields(visit);
  return found;
}

void Module::convert(DType dtype) {
  for (Parameter* parameter : parameters()) parameter->convert(dtype);
}

}  // namespace tapestry
