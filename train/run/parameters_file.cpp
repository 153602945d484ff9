#include "train/run/parameters_file.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/tape.hpp"
#include "data/text/printable.hpp"
#include "train/run/safetensors.hpp"

namespace tapestry {

void save_parameters(Module& model, const std::string& path) {
  Safetensors file;
  for (const Parameter* parameter : model.parameters())
    file.tensors.emplace_back(parameter->name, parameter->value());
  write_safetensors(path, file);
}

void load_parameters(Module& model, const std::string& path) {
  const std::vector<Parameter*> parameters = model.parameters();
  Tape::require_unused("load_parameters", parameters);
  SafetensorsReader file(path);
  for (const SafetensorsEntry& entry : file.entries())
    expect_input(std::ranges::count(parameters, entry.name, &Parameter::name) > 0,
                 "{}: tensor {} is not in the model; give a file of this model", path,
                 printable(entry.name));
  std::vector<Array> values;
  for (const Parameter* parameter : parameters) {
    const auto entry = std::ranges::find(file.entries(), parameter->name, &SafetensorsEntry::name);
    expect_input(entry != file.entries().end() && entry->shape == parameter->tensor.shape() &&
                     file.dtype_of(*entry) == parameter->tensor.dtype(),
                 "{}: has no tensor {} of {}; give a file of this model", path, parameter->name,
                 parameter->value());
    values.push_back(file.read(*entry));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->value().copy_from(values[i]);
}

}  // namespace tapestry
