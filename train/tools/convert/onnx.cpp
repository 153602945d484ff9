#include "train/tools/convert/onnx.hpp"

#include <fmt/ranges.h>

#include <filesystem>

#include "train/inspect/onnx/onnx_file.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/new_folder.hpp"
#include "train/run/version.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

onnx::Origin origin_of(const TrainedModel& trained) {
  onnx::Origin origin{.version = release(), .metadata = trained.task->metadata()};
  origin.metadata["config"] = trained.config.toml();
  origin.metadata["steps"] = std::to_string(trained.state.step);
  return origin;
}

std::string file_of(const onnx::Graph& graph) { return graph.name() + ".onnx"; }

void write_file(const onnx::Graph& graph, const onnx::Origin& origin, const std::string& path) {
  expect_new_file(path);
  onnx::write_graph([&](const auto& parts) { write_file_atomically(path, parts); }, graph, origin);
}

void write_folder(const onnx::Models& models, const onnx::Origin& origin, const std::string& path) {
  NewFolder made(path);
  for (const std::unique_ptr<onnx::Graph>& graph : models)
    onnx::write_graph([&](const auto& parts) { made.write(file_of(*graph), parts); }, *graph,
                      origin);
  made.finish();
}

}  // namespace

std::vector<std::string> export_onnx(const TrainedModel& trained, const std::string& out) {
  const auto models = spec_of(trained.config).onnx.show(*trained.task);
  const onnx::Origin origin = origin_of(trained);
  if (models.size() == 1) {
    write_file(*models.front(), origin, out);
    return {out};
  }
  std::vector<std::string> names, files;
  for (const std::unique_ptr<onnx::Graph>& graph : models) {
    names.push_back(file_of(*graph));
    files.push_back((fs::path(out) / names.back()).string());
  }
  expect_input(!out.ends_with(".onnx"),
               "--out {}: this run's model is {}, files of a new folder: name the folder", out,
               fmt::join(names, " and "));
  write_folder(models, origin, out);
  return files;
}

}  // namespace tapestry
