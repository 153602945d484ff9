#include "layers/module.hpp"

#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "autograd/dry_run.hpp"

namespace tapestry {

void visit_tree(Module& root, const FieldVisitor::VisitParameter& parameter,
                const FieldVisitor::VisitModule& module) {
  std::unordered_set<const void*> met{&root};
  std::string prefix;
  FieldVisitor visit(
      [&](const std::string& name, Parameter& field) {
        if (met.insert(&field).second) parameter(prefix + name, field);
      },
      [&](const std::string& name, Module& field) {
        if (!met.insert(&field).second) return;
        const std::string outer = prefix;
        module(prefix + name, field);
        prefix += name + ".";
        field.fields(visit);
        prefix = outer;
      });
  root.fields(visit);
}

std::vector<Parameter*> Module::parameters() {
  std::vector<Parameter*> found;
  visit_tree(
      *this,
      [&](const std::string& name, Parameter& parameter) {
        if (parameter.name != name) parameter.name = name;  // other threads may compute meanwhile
        found.push_back(&parameter);
      },
      [](const std::string& path, Module& module) {
        if (module.path_ != path) module.path_ = path;
      });
  return distinct_parameters(std::move(found));
}

void Module::convert(DType dtype) {
  std::unordered_map<const void*, Tensor> converted;  // keyed by the memory before
  visit_tree(
      *this,
      [&](const std::string&, Parameter& parameter) {
        const void* before = parameter.value().raw();
        const auto shared = converted.find(before);
        if (before && shared != converted.end()) {
          parameter.tensor = shared->second;
        } else {
          parameter.convert(dtype);
          converted.emplace(before, parameter.tensor);
        }
      },
      [](const std::string&, Module&) {});
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
