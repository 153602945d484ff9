#pragma once

#include "train/run/checkpoint.hpp"

// Reads and writes whole files of tensors.
namespace tapestry {

inline Safetensors read_safetensors(const std::string& path) {
  SafetensorsReader reader(path);
  Safetensors file{.tensors = {}, .metadata = reader.metadata()};
  for (const SafetensorsEntry& entry : reader.entries())
    file.tensors.emplace_back(entry.name, reader.read(entry));
  return file;
}

// Returns null if there is none.
inline const Array* find_tensor(const Safetensors& file, const std::string& name) {
  const auto entry = std::ranges::find(file.tensors, name, &std::pair<std::string, Array>::first);
  return entry == file.tensors.end() ? nullptr : &entry->second;
}

struct LoadedCheckpoint : Checkpoint {
  Safetensors file{};
};
inline LoadedCheckpoint load_checkpoint(const std::string& path) {
  return {load_checkpoint_metadata(path), read_safetensors(path)};
}

}  // namespace tapestry
