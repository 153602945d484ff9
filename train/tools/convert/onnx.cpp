#include <fmt/ranges.h>

#include <filesystem>

#include "train/inspect/onnx/onnx_file.hpp"
#include "train/run/atomic_file.hpp"
#include "train/run/new_folder.hpp"
#include "train/run/version.hpp"
#include "train/task_spec.hpp"
#include "train/tools/convert/export.hpp"

namespace tapestry {
namespace {
namespace fs = std::filesystem;

// Writes a graph with the metadata of the run through write(parts).
void write_model(onnx::Graph& graph, const TrainedModel& trained, const auto& write) {
  graph.note("config", trained.config.toml());
  graph.note("steps", std::to_string(trained.state.step));
  for (const auto& [name, text] : trained.task->metadata()) graph.note(name, text);
  onnx::write_graph(write, graph, release());
}

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
  for (const std::shared_ptr<onnx::Graph>& graph : models) names.push_back(graph->name() + ".onnx");
  expect_input(!out.ends_with(".onnx"),
               "--out {}: expected the name of a new folder, for {}; leave out the ending", out,
               fmt::join(names, " and "));
  NewFolder folder(out);
  for (std::size_t i = 0; i < names.size(); ++i) {
    write_model(*models[i], trained, [&](const auto& parts) { folder.write(names[i], parts); });
    names[i] = (fs::path(out) / names[i]).string();
  }
  folder.finish();
  return names;
}

}  // namespace tapestry
