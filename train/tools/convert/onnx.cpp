#include "train/tools/convert/onnx.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "train/inspect/onnx/onnx_file.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/new_folder.hpp"
#include "train/run/version.hpp"
#include "train/task.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

// Writes a graph's file by write(parts), with what the run is.
void write_model(onnx::Graph& graph, const TrainedModel& trained, const auto& write) {
  graph.note("config", trained.config.toml());
  graph.note("steps", std::to_string(trained.state.step));
  for (const auto& [name, text] : trained.task->metadata()) graph.note(name, text);
  onnx::write_graph(write, graph, release());
}

std::string file_of(const std::shared_ptr<onnx::Graph>& graph) { return graph->name() + ".onnx"; }

}  // namespace

std::vector<std::string> export_onnx(const TrainedModel& trained, const std::string& out) {
  const onnx::Models models = spec_of(trained.config).onnx.show(*trained.task);
  if (models.size() == 1) {
    expect_new_file(out);
    write_model(*models.front(), trained,
                [&](const auto& parts) { write_file_atomically(out, parts); });
    return {out};
  }
  std::vector<std::string> names;
  std::ranges::transform(models, std::back_inserter(names), file_of);
  expect_input(!out.ends_with(".onnx"),
               "--out {}: this run's model is {}, files of a new folder: name the folder", out,
               fmt::join(names, " and "));
  NewFolder folder(out);
  std::vector<std::string> files;
  for (const std::shared_ptr<onnx::Graph>& graph : models) {
    write_model(*graph, trained, [&](const auto& parts) { folder.write(file_of(graph), parts); });
    files.push_back((fs::path(out) / file_of(graph)).string());
  }
  folder.finish();
  return files;
}

}  // namespace tapestry
