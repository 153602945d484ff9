#include "train/run/checkpoint.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>

#include "autograd/checksum.hpp"
#include "autograd/kernels/broadcast.hpp"
#include "autograd/parallel.hpp"
#include "layers/linear.hpp"
#include "layers/module.hpp"
#include "train/run/version.hpp"
#include "train/task_spec.hpp"

namespace tapestry {
namespace {

constexpr const char* format = "tapestry 1";
constexpr const char* optimizer_prefix = "optimizer.";
constexpr const char* checksum_prefix = "xxh3.";  // prefix of a tensor's checksum
constexpr const char* checksum_name = "xxh3";     // checksum of all other metadata
constexpr std::size_t most_norms = 1000;          // maximum number of norms in a checkpoint

const std::string& metadata(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.reader->metadata().find(name);
  expect_input(found != checkpoint.reader->metadata().end(),
               "{}: is not a checkpoint of tapestry: its metadata have no \"{}\"; use another file",
               checkpoint.path, name);
  return found->second;
}

// Returns a metadata field that not every checkpoint has; empty if it is missing.
std::string metadata_or_none(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.reader->metadata().find(name);
  return found == checkpoint.reader->metadata().end() ? "" : found->second;
}

// Returns a number in the metadata, or `missing` if it is an optional field that the checkpoint
// lacks. Throws InputError if it is no number, or negative for an integer type.
template <class Number>
Number number(const Checkpoint& checkpoint, const std::string& name,
              std::optional<Number> missing = std::nullopt) {
  if (missing && !checkpoint.reader->metadata().contains(name)) return *missing;
  const std::string& text = metadata(checkpoint, name);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool counts = std::is_integral_v<Number>;
  expect_input(error == std::errc() && end == text.data() + text.size() && !(counts && value < 0),
               "{}: metadata {} = \"{}\": expected {}; use another copy", checkpoint.path, name,
               text, counts ? "a whole number from 0 on" : "a number");
  return value;
}

// Returns up to most_norms finite numbers from 0 on, such as "0.5 1.25"; none if the field is
// missing. Throws InputError for anything else.
std::vector<double> numbers(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<double> values;
  std::istringstream text(metadata_or_none(checkpoint, name));
  for (std::string word; text >> word && values.size() <= most_norms;) {
    double value = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    expect_input(
        error == std::errc() && end == word.data() + word.size() && value >= 0 &&
            std::isfinite(value) && values.size() < most_norms,
        "{}: metadata {}: expected at most {} numbers from 0 on, found \"{}\"; use another copy",
        checkpoint.path, name, most_norms, word.substr(0, 40));
    values.push_back(value);
  }
  return values;
}

void expect_written(const Checkpoint& checkpoint, const std::string& name,
                    const std::string& checksum) {
  expect_input(metadata(checkpoint, checksum_prefix + name) == checksum,
               "{}: tensor {} is damaged: its checksum differs; use another copy", checkpoint.path,
               name);
}

// Returns the tensor's entry. Throws InputError if there is none, or if it has another shape or
// dtype than the array.
const SafetensorsEntry& entry_of(const Checkpoint& checkpoint, const std::string& name,
                                 const Array& into) {
  const auto& entries = checkpoint.reader->entries();
  const auto entry = std::ranges::find(entries, name, &SafetensorsEntry::name);
  expect_input(
      entry != entries.end(),
      "{}: tensor {} {} is missing: the file belongs to another model; give one of this model",
      checkpoint.path, name, to_string(into.shape()));
  const DType dtype = checkpoint.reader->dtype_of(*entry);
  expect_input(entry->shape == into.shape() && dtype == into.dtype(),
               "{}: tensor {} is {} {}; the config expects {} {}; give a checkpoint of this model",
               checkpoint.path, name, to_string(dtype), to_string(entry->shape),
               to_string(into.dtype()), to_string(into.shape()));
  return *entry;
}

// Reads a tensor into an array. Throws InputError if its checksum differs from the recorded one.
void restore(const Checkpoint& checkpoint, const std::string& name, Array into) {
  const SafetensorsEntry& entry = entry_of(checkpoint, name, into);
  checkpoint.reader->read(entry, into);
  expect_written(checkpoint, name, checksum(into));
}

bool is_of_adapter(const std::string& parameter) {
  return parameter.find(std::string(".") + adapter_name + ".") != parameter.npos;
}

bool is_within(const std::string& parameter, const std::string& module) {
  return !module.empty() && parameter.starts_with(module + ".");
}

// Returns the parameters that a checkpoint must have.
std::vector<const Parameter*> saved_parameters(const Checkpoint& checkpoint, Module& model,
                                               const Differences& allowed) {
  const bool begins_adapters =
      allowed.new_adapters &&
      std::ranges::none_of(checkpoint.reader->entries(), [](const SafetensorsEntry& entry) {
        return !entry.name.starts_with(optimizer_prefix) && is_of_adapter(entry.name);
      });
  std::vector<const Parameter*> saved;
  for (const Parameter* parameter : model.parameters())
    if (!(begins_adapters && is_of_adapter(parameter->name)) &&
        !is_within(parameter->name, allowed.model_has))
      saved.push_back(parameter);
  return saved;
}

}  // namespace

Checksums checksums_of(const OptimizerState& tensors) {
  std::vector<std::string> sums(tensors.size());
  parallel_for(std::ssize(tensors), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sums[i] = checksum(tensors[i].second);
  });
  Checksums checksums;
  for (std::size_t i = 0; i < tensors.size(); ++i) checksums[tensors[i].first] = std::move(sums[i]);
  return checksums;
}

std::string combined(const Checksums& checksums) {
  Checksum sum;
  for (const auto& [name, checksum] : checksums) {
    const std::string line = name + " " + checksum + "\n";
    sum.add(std::as_bytes(std::span(line)));
  }
  return sum.hex();
}

std::vector<std::string> differing_tensors(const Checksums& one, const Checksums& other) {
  std::set<std::string> names;
  const auto add = [&](const Checksums& from, const Checksums& to) {
    for (const auto& [name, sum] : from)
      if (const auto found = to.find(name); found == to.end() || found->second != sum)
        names.insert(name);
  };
  add(one, other);
  add(other, one);
  return {names.begin(), names.end()};
}

std::string metadata_checksum(std::map<std::string, std::string> metadata) {
  metadata.erase(checksum_name);
  Checksum sum;
  for (const auto& [name, value] : metadata) {
    sum.add_list(std::vector<char>(name.begin(), name.end()));
    sum.add_list(std::vector<char>(value.begin(), value.end()));
  }
  return sum.hex();
}

OptimizerState tensors_of(Module& model, const OptimizerState& optimizer) {
  OptimizerState tensors;
  for (const Parameter* parameter : model.parameters())
    tensors.emplace_back(parameter->name, parameter->value());
  for (const auto& [name, array] : optimizer) tensors.emplace_back(optimizer_prefix + name, array);
  return tensors;
}

void save_checkpoint(const WriteParts& write, Task& task, const OptimizerState& optimizer,
                     const Config& config, const TrainingState& state) {
  Safetensors file;
  file.tensors = tensors_of(task.model(), optimizer);
  file.metadata = {{"format", format},
                   {"config", config.toml()},
                   {"step", std::to_string(state.step)},
                   {"position", std::to_string(state.position)},
                   {"best_loss", fmt::format("{}", state.best_loss)},
                   {"elapsed_s", fmt::format("{}", state.elapsed_s)},
                   {"examples", std::to_string(state.examples)},
                   {"engines", backends()}};
  if (state.evaluation_due) file.metadata["evaluation"] = "due";
  if (!state.data.empty()) file.metadata["data"] = state.data;
  for (const auto& [name, sum] : state.splits) file.metadata[name] = sum;
  if (const auto& section = state.early_stopping; std::isfinite(section.improved_loss)) {
    file.metadata["gained_loss"] = fmt::format("{}", section.improved_loss);
    file.metadata["evaluations_without_gain"] = std::to_string(section.patience_counter);
  }
  if (state.skipped.count > 0) file.metadata["bad_steps"] = std::to_string(state.skipped.count);
  if (!state.skipped.norms.empty())
    file.metadata["gradient_norms"] = fmt::format("{}", fmt::join(state.skipped.norms, " "));
  for (const auto& [name, value] : task.metadata()) file.metadata["task." + name] = value;
  for (const auto& [name, sum] : checksums_of(file.tensors))
    file.metadata[checksum_prefix + name] = sum;
  file.metadata[checksum_name] = metadata_checksum(file.metadata);
  write_safetensors(write, file);
}

void save_weights(const WriteParts& write, Task& task, const Config& config) {
  save_checkpoint(write, task, {}, config, {});
}

Checkpoint load_checkpoint_metadata(const std::string& path) {
  Checkpoint checkpoint{.path = path, .reader = std::make_shared<SafetensorsReader>(path)};
  const std::string written = metadata(checkpoint, "format");
  expect_input(written == format, "{}: format \"{}\", expected \"{}\"; use another file",
               checkpoint.path, written, format);
  expect_input(
      metadata(checkpoint, checksum_name) == metadata_checksum(checkpoint.reader->metadata()),
      "{}: the metadata are damaged: their checksum differs; use another copy", checkpoint.path);
  checkpoint.config = metadata(checkpoint, "config");
  checkpoint.state = {.step = number<std::int64_t>(checkpoint, "step"),
                      .position = number<std::int64_t>(checkpoint, "position"),
                      .best_loss = number<double>(checkpoint, "best_loss"),
                      .evaluation_due = metadata_or_none(checkpoint, "evaluation") == "due",
                      .elapsed_s = number<double>(checkpoint, "elapsed_s"),
                      .examples = number<std::int64_t>(checkpoint, "examples"),
                      .data = metadata_or_none(checkpoint, "data")};
  for (const char* name : split_checksums)
    if (const std::string sum = metadata_or_none(checkpoint, name); !sum.empty())
      checkpoint.state.splits[name] = sum;
  checkpoint.state.early_stopping = {
      .improved_loss = number(checkpoint, "gained_loss",
                              std::optional(TrainingState().early_stopping.improved_loss)),
      .patience_counter =
          number(checkpoint, "evaluations_without_gain", std::optional<std::int64_t>(0))};
  checkpoint.state.skipped = {
      .count = number(checkpoint, "bad_steps", std::optional<std::int64_t>(0)),
      .norms = numbers(checkpoint, "gradient_norms")};
  expect_input(checkpoint.state.skipped.count <= checkpoint.state.step,
               "{}: metadata bad_steps = {}: expected at most {}, the step of the checkpoint; use "
               "another copy",
               checkpoint.path, checkpoint.state.skipped.count, checkpoint.state.step);
  for (const auto& [name, value] : checkpoint.reader->metadata())
    if (name.starts_with("task.")) checkpoint.metadata[name.substr(5)] = value;
  checkpoint.backends = metadata(checkpoint, "engines");
  return checkpoint;
}

std::string checksum_of(const Checkpoint& checkpoint, const SafetensorsEntry& entry) {
  const std::string sum = checksum(checkpoint.reader->read(entry));
  expect_written(checkpoint, entry.name, sum);
  return sum;
}

Checksums parameter_checksums(const Checkpoint& checkpoint) {
  Checksums checksums;
  for (const SafetensorsEntry& entry : checkpoint.reader->entries())
    if (!entry.name.starts_with(optimizer_prefix))
      checksums[entry.name] = metadata(checkpoint, checksum_prefix + entry.name);
  return checksums;
}

std::int64_t count_parameters(const Checkpoint& checkpoint) {
  std::int64_t count = 0;
  for (const SafetensorsEntry& entry : checkpoint.reader->entries())
    if (!entry.name.starts_with(optimizer_prefix)) count += entry.shape.elements();
  return count;
}

std::int64_t count_parameters(Module& model) {
  std::int64_t count = 0;
  for (const Parameter* parameter : model.parameters()) count += parameter->tensor.size();
  return count;
}

std::unique_ptr<Task> make_task(const Checkpoint& checkpoint, const Config& config, bool needs_data,
                                bool whole_data) {
  const auto bytes = static_cast<std::int64_t>(count_parameters(checkpoint) * sizeof(float));
  // A model that is slightly too large is constructed, so that a message can name the tensor.
  constexpr std::int64_t slack = 64 << 20;
  const InitialValuesLimit limit(bytes + slack);
  const SkipInitialValues left_out;
  try {
    return make_task({.config = config,
                      .metadata = checkpoint.metadata,
                      .needs_data = needs_data,
                      .whole_data = whole_data});
  } catch (const InitialValuesTooLarge&) {
    throw InputError(
        fmt::format("{}: contains {} bytes of parameters, but the config expects more than {}: the "
                    "file belongs to another model; give one of this model",
                    checkpoint.path, bytes, bytes + slack));
  } catch (const InputError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: the metadata are damaged: {}; use another copy",
                                 checkpoint.path, error.what()));
  }
}

void expect_parameters(const Checkpoint& checkpoint, Module& model, const Differences& allowed) {
  std::set<std::string> names;
  for (const Parameter* parameter : saved_parameters(checkpoint, model, allowed)) {
    entry_of(checkpoint, parameter->name, parameter->value());
    names.insert(parameter->name);
  }
  for (const SafetensorsEntry& entry : checkpoint.reader->entries())
    expect_input(entry.name.starts_with(optimizer_prefix) || names.contains(entry.name) ||
                     is_within(entry.name, allowed.file_has),
                 "{}: tensor {} is not in the model of the config{}", checkpoint.path, entry.name,
                 is_of_adapter(entry.name) ? ", which has no such model.lora; `tapestry export "
                                             "--merge` writes a model without adapters"
                                           : "; give a checkpoint of this model");
}

void restore_parameters(const Checkpoint& checkpoint, Module& model, const Differences& allowed) {
  expect_parameters(checkpoint, model, allowed);
  for (const Parameter* parameter : saved_parameters(checkpoint, model, allowed)) {
    restore(checkpoint, parameter->name, parameter->value());
    expect_input(std::isfinite(sum_of_squares(parameter->value())),
                 "{}: tensor {} contains values that are not finite; use another checkpoint",
                 checkpoint.path, parameter->name);
  }
}

void restore_optimizer(const Checkpoint& checkpoint, Optimizer& optimizer) {
  for (const Optimizer::Slot& slot : optimizer.state()) {
    Array whole(slot.parameter.value().shape(), slot.parameter.value().dtype());
    restore(checkpoint, optimizer_prefix + slot.name, whole);
    Array(slot.values)
        .copy_from(whole.part(slot.part.begin, slot.part.end).reshaped(slot.values.shape()));
  }
  for (const auto& [name, array] : optimizer.numbers())
    restore(checkpoint, optimizer_prefix + name, array);
  optimizer.set_steps(checkpoint.state.step - checkpoint.state.skipped.count);
}

void restore_weights(const Checkpoint& checkpoint, AveragedWeights& average) {
  for (const auto& [name, array] : average.arrays())
    restore(checkpoint, optimizer_prefix + name, array);
}

}  // namespace tapestry
