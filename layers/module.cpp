#include "layers/module.hpp"

#include <limits>

#include "autograd/dry_run.hpp"

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

namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
thread_local std::int64_t bytes_left = no_limit;
thread_local bool left_out = false, makes_shapes_only = false;

Array room_for(const Shape& shape) {
  const auto bytes = static_cast<std::int64_t>(shape.elements() * sizeof(float));
  if (bytes > bytes_left)
    throw InitialValuesTooLarge(
        "initial values: the model needs more bytes than InitialValuesLimit allows; expected a "
        "smaller model");
  if (bytes_left != no_limit) bytes_left -= bytes;
  return Array(shape);
}

}  // namespace

InitialValuesLimit::InitialValuesLimit(std::int64_t bytes) : Restore(bytes_left, bytes) {}
std::int64_t InitialValuesLimit::left() { return bytes_left; }

SkipInitialValues::SkipInitialValues(bool is_left_out) : Restore(left_out, is_left_out) {}

InitialDryRun::InitialDryRun() : Restore(makes_shapes_only, true) {}

Array initial_normal(const Shape& shape, double standard_deviation, Random& init) {
  const DryRun dry_run(makes_shapes_only || is_dry_run());
  Array values = room_for(shape);
  if (!left_out) init.fill_normal(values, 0, standard_deviation);
  return values;
}

Array initial_uniform(const Shape& shape, double bound, Random& init) {
  const DryRun dry_run(makes_shapes_only || is_dry_run());
  Array values = room_for(shape);
  if (!left_out) init.fill_uniform(values, -bound, bound);
  return values;
}

}  // namespace tapestry
