#include "train/tools/convert/published_weights.hpp"

#include <filesystem>
#include <set>

#include "data/input_file.hpp"
#include "data/json.hpp"
#include "data/text/text.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";
constexpr std::int64_t max_index_bytes = std::int64_t{1} << 25;

// Which file each tensor is in: the index's weight_map. A file is one of the same folder.
std::map<std::string, std::string> read_index(const std::string& path) {
  const JsonValue index = parse_json(read_file(path, max_index_bytes), path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  expect_input(index.is_object() && map != index.end() && map->is_object() && !map->empty(),
               "{}: weight_map: expected the tensors and the file that each is in", path);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    expect_input(!name.empty() && name != ".." && fs::path(name).filename() == name,
                 "{}: weight_map: {}: expected the name of a file in this folder, found {}", path,
                 printable(tensor), brief(file));
    files[tensor] = name;
  }
  return files;
}

}  // namespace

PublishedWeights::PublishedWeights(const std::string& folder) {
  const std::string single = (fs::path(folder) / single_name).string(),
                    index = (fs::path(folder) / index_name).string();
  if (fs::exists(single)) {
    path_ = single;
    add_file(single);
    return;
  }
  expect_input(fs::exists(index),
               "{}: holds neither {} nor {}; give a folder with weights as "
               "safetensors",
               folder, single_name, index_name);
  path_ = index;
  const std::map<std::string, std::string> files = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    expect_input(fs::exists(path), "{}: {} is missing, which {} names; copy it as well", folder,
                 printable(name), index_name);
    add_file(path);
  }
  for (const auto& [tensor, file] : files) {
    const auto found = tensors_.find(tensor);
    expect_input(found != tensors_.end() && fs::path(path_of(found->second)).filename() == file,
                 "{}: weight_map: tensor {} is not in {}; copy the files of one model", index,
                 printable(tensor), printable(file));
  }
}

void PublishedWeights::add_file(const std::string& path) {
  const SafetensorsReader& file = files_.emplace_back(path);
  for (const SafetensorsEntry& entry : file.entries()) {
    const bool is_new = tensors_.emplace(entry.name, Tensor{files_.size() - 1, entry}).second;
    expect_input(is_new, "{}: tensor {} is in another file of the index too", path,
                 printable(entry.name));
  }
}

std::int64_t PublishedWeights::elements() const {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.entry.shape.elements();
  return sum;
}

}  // namespace tapestry
