#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/fuzz/target.hpp"
#include "tests/support/tensor_files.hpp"
#include "train/run/checkpoint.hpp"
#include "train/run/lines.hpp"
#include "train/run/safetensors.hpp"
#include "train/task_spec.hpp"
#include "train/tools/report/comparison.hpp"
#include "train/tools/report/page.hpp"
#include "train/tools/search/ledger.hpp"
#include "train/trainer/callbacks/callbacks.hpp"

// Fuzzes the files of a run's folder.
namespace tapestry {
namespace {

const RegisterFuzzTarget safetensors("safetensors", [](std::string_view bytes) {
  read_safetensors(written_file("file.safetensors", bytes));
});

// The metrics that `compare` reads and a resumed run keeps.
const RegisterFuzzTarget metrics("metrics", [](std::string_view bytes) {
  const std::string path = written_file("metrics.jsonl", bytes);
  for (LineReader line(path); line.next();)
    if (const auto entry = parse_metrics_line(line.text())) entry->dump();
  RunLock lock(Run(scratch_folder()), RunLock::Folder::find);
  record_metrics(lock)->on_begin(20, true);
});

// The checkpoint that `verify` reads to name different tensors.
const RegisterFuzzTarget checksums("checksums", [](std::string_view bytes) {
  const Run run(std::filesystem::path(written_file("checksums.jsonl", bytes)).parent_path());
  for (RecordedChecksums recorded(run); const RecordedChecksum* first = recorded.front();)
    recorded.of(first->step);
  RunLock lock(run, RunLock::Folder::find);
  record_checksums(lock)->on_begin(20, false);
});

// The ledger of a resumed search.
const RegisterFuzzTarget ledger("ledger", [](std::string_view bytes) {
  const std::string folder = scratch_folder() + "/search";
  std::filesystem::create_directories(folder);
  written_file("search/ledger.jsonl", bytes);
  Ledger read(Run(folder), nullptr);
  read.interim_tests(4);
  while (const auto line = read.recorded(JsonValue::object()))
    if (line->contains("run")) read.recorded_run();
  read.expect_end();
});

// The files that `report` reads: metrics, sessions, samples and config, with a zero byte after
// each.
const RegisterFuzzTarget report("report", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  const char* names[] = {"metrics.jsonl", "sessions.jsonl", "samples.jsonl", "config.toml"};
  for (std::size_t i = 0; i < 4; ++i)
    written_file(names[i], i < parts.size() ? parts[i] : std::string_view());
  for (const char* model : {"best.safetensors", "checkpoint.safetensors"})
    std::filesystem::remove(scratch_folder() + "/" + model);  // of other targets
  report_of({scratch_folder()});
});

// A checkpoint's header in a file without tensors, with its checksum.
std::string file_with_metadata(std::map<std::string, std::string> metadata) {
  metadata["xxh3"] = metadata_checksum(metadata);
  const nlohmann::json header = {{"__metadata__", metadata}};
  const std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

// The metrics of four runs of two configs for `compare`, with a zero byte after each.
const RegisterFuzzTarget comparison("comparison", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::string name = fmt::format("compared-{}", i);
    std::filesystem::create_directories(scratch_folder() + "/" + name);
    written_file(name + "/metrics.jsonl", i < parts.size() ? parts[i] : std::string_view());
    const std::string config =
        fmt::format("task = \"graph\"\nseed = {}\n[model]\nlayers = {}\n", i % 2, 1 + i / 2);
    // No evaluation has this step, because its parameters are not recorded.
    written_file(name + "/checkpoint.safetensors", file_with_metadata({{"format", "tapestry 1"},
                                                                       {"config", config},
                                                                       {"step", "123456789"},
                                                                       {"position", "1"},
                                                                       {"best_loss", "1"},
                                                                       {"elapsed_s", "1"},
                                                                       {"examples", "1"},
                                                                       {"engines", "none"}}));
    runs.push_back(scratch_folder() + "/" + name);
  }
  const std::vector<RunGroup> groups = read_groups(runs);
  require(groups.size() == 2, "{} groups of four runs", groups.size());
  settings_that_differ(groups);
  for (const std::string& figure : measured_figures(groups))
    difference_of(groups[0], groups[1], figure);
});

// Models are small here; large ones are refused by the size of their file.
bool is_small(const Config& config, const std::vector<KeyInfo>& keys) {
  return std::ranges::all_of(keys, [&](const KeyInfo& key) {
    const auto* integer = std::get_if<std::int64_t>(&config.value(key.name));
    const auto* list = std::get_if<std::vector<std::int64_t>>(&config.value(key.name));
    if (key.name == "model.rotary_original_context") return true;  // it determines no size
    return (!integer || *integer <= 64) &&
           (!list || std::ranges::all_of(*list, [](std::int64_t i) { return i <= 64; }));
  });
}

// Names and values, with a zero byte after each.
const RegisterFuzzTarget checkpoint("checkpoint", [](std::string_view bytes) {
  const std::vector<std::string_view> parts = cut_at_zeros(bytes);
  std::map<std::string, std::string> metadata;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) metadata.emplace(parts[i], parts[i + 1]);
  const Checkpoint loaded =
      load_checkpoint(written_file("checkpoint.safetensors", file_with_metadata(metadata)));
  const Config config = resolved_config(loaded.config, loaded.path, {});
  if (!is_small(config, spec_of(config).keys)) return;
  const std::unique_ptr<Task> task = make_task(loaded, config, false);
  restore_parameters(loaded, task->model());
});

}  // namespace
}  // namespace tapestry
