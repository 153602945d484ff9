#pragma once

#include "tests/support/arrays.hpp"
#include "tests/support/process.hpp"
#include "tests/support/small.hpp"
#include "tests/support/tensor_files.hpp"

// Trainings of tiny models by the command line.
namespace tapestry {

// --- tiny configs: a step takes about a millisecond ---

inline constexpr const char* toy_toml = R"(task = "toy-sequence"
[data]
length = 3
alphabet = 4
held_back = 20
[model]
layers = 1
heads = 2
width = 16
dropout = 0.1
[optim]
learning_rate = 3e-3
schedule = "cosine"
warmup_steps = 3
weight_decay = 0.1
clip_norm = 1.0
[train]
steps = 40
batch_size = 8
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

inline constexpr const char* text_toml = R"(task = "language-model"
[data]
path = "PATH"
[model]
layers = 1
heads = 2
width = 16
context = 8
dropout = 0.1
[optim]
name = "adam"
[train]
steps = 40
batch_size = 4
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

inline constexpr const char* vae_toml = R"(task = "vae"
[data]
training_images = 30
test_images = 10
[model]
hidden = [8]
latent = 2
kl_warmup_steps = 20
[optim]
name = "sgd"
momentum = 0.9
learning_rate = 1e-4
[train]
steps = 40
batch_size = 7
eval_every = 10
checkpoint_every = 5
log_every = 3
)";

inline std::vector<Json> metrics_of(const std::string& run) {
  std::vector<Json> lines;
  for (const std::string& line : lines_of(read_bytes(run + "/metrics.jsonl")))
    lines.push_back(Json::parse(line));
  return lines;
}

// Returns the bytes of every file of a folder, by its name.
inline std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_bytes(entry.path().string());
  return files;
}

// The configs of three tasks as files, and their runs.
class RunFixture : public CommandFolder {
 public:
  RunFixture() {
    write("toy.toml", toy_toml);
    write("vae.toml", vae_toml);
    replace_in(write("text.toml", text_toml), "PATH", write("story.txt", story(20)));
  }

  // tapestry train CONFIG --out RUN --quiet MORE
  Finished train(const std::string& config, const std::string& run, const Words& more = {},
                 const RunOptions& options = {}) const {
    return tapestry_run(training(config, run) + more, options);
  }
  Finished train_here(const std::string& config, const std::string& run,
                      const Words& more = {}) const {
    return run_here(training(config, run) + more);
  }
  void must_train(const std::string& config, const std::string& run, const Words& more = {}) const {
    must(train(config, run, more));
  }
  std::vector<Json> metrics(const std::string& run) const { return metrics_of(path(run)); }
  Json last_validation(const std::string& run) const {
    Json last;
    for (const Json& line : metrics(run))
      if (line["split"] == "val") last = line;
    return last;
  }
  std::string checkpoint(const std::string& run) const {
    return path(run + "/checkpoint.safetensors");
  }
  std::string best(const std::string& run) const { return path(run + "/best.safetensors"); }
  Json eval(const std::string& run, const Words& more = {}) const {
    return Json::parse(must(tapestry_run(Words{"eval", path(run), "--json"} + more)).out);
  }

 private:
  Words training(const std::string& config, const std::string& run) const {
    return Words{"train", path(config + ".toml"), "--quiet", "--out", path(run)};
  }
};

// --- comparison of runs ---

inline Strings untimed(const std::vector<Json>& lines) {
  Strings texts;
  for (Json line : lines) {
    line.erase("elapsed_s");
    for (const char* unit : {"tokens", "examples", "rows"})
      line.erase(unit + std::string("_per_s"));
    texts.push_back(line.dump());
  }
  return texts;
}

// Returns how two checkpoints differ in state, metadata or the bits of a tensor; "" if they are
// equal.
inline std::string checkpoint_difference(const std::string& path, const std::string& other_path) {
  const auto a = load_checkpoint(path), b = load_checkpoint(other_path);
  if (a.state.step != b.state.step || a.state.position != b.state.position ||
      a.state.best_loss != b.state.best_loss || a.metadata != b.metadata)
    return path + ": other state or metadata";
  if (a.file.tensors.size() != b.file.tensors.size()) return path + ": other number of tensors";
  for (std::size_t i = 0; i < a.file.tensors.size(); ++i) {
    const auto& [name, x] = a.file.tensors[i];
    const auto& [other_name, y] = b.file.tensors[i];
    if (name != other_name || !same_bits(x, y)) return path + ": tensor " + name;
  }
  return "";
}

// Returns how two runs differ in checkpoints or metrics, except for times; "" if they are equal.
inline std::string run_difference(const std::string& run, const std::string& other) {
  for (const std::string name : {"/checkpoint.safetensors", "/best.safetensors"}) {
    if (!fs::exists(run + name)) return run + name + " is missing";
    const std::string difference = checkpoint_difference(run + name, other + name);
    if (!difference.empty()) return difference;
  }
  return untimed(metrics_of(run)) == untimed(metrics_of(other)) ? "" : run + "/metrics.jsonl";
}

inline void check_same_checkpoint(const std::string& path, const std::string& other_path) {
  CHECK(checkpoint_difference(path, other_path) == "");
}

inline void check_same_run(const RunFixture& fixture, const std::string& run,
                           const std::string& other) {
  CHECK(run_difference(fixture.path(run), fixture.path(other)) == "");
}

inline std::function<bool()> when_holds(const std::string& path, std::int64_t bytes = 1) {
  return [=] {
    std::error_code missing;
    const auto size = fs::file_size(path, missing);
    return !missing && static_cast<std::int64_t>(size) >= bytes;
  };
}

}  // namespace tapestry
