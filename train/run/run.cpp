#include "train/run/run.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

namespace tapestry {
namespace fs = std::filesystem;

std::string Run::default_folder(const std::string& name, bool resume) {
  const std::string base = "runs/" + name;
  std::string last = base, next = base;
  for (int number = 2; fs::exists(next); ++number) {
    last = next;
    next = fmt::format("{}-{}", base, number);
  }
  return resume ? last : next;
}

RunLock::RunLock(const Run& run)
    : descriptor_(::open(run.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (descriptor_ >= 0) ::close(descriptor_);
  throw InputError(fmt::format("{}: another process trains into this folder", run.folder()));
}

RunLock::~RunLock() { ::close(descriptor_); }

std::string trained_checkpoint(const std::string& run) {
  expect_input(fs::exists(run), "{}: no such run; `tapestry train CONFIG --out {}` would make it",
               run, run);
  if (!fs::is_directory(run)) return run;
  const Run folder(run);
  const std::string path = fs::exists(folder.best()) ? folder.best() : folder.checkpoint();
  if (!fs::exists(path) && fs::is_directory(run))
    for (const auto& entry : fs::directory_iterator(run))
      expect_input(!fs::exists(Run(entry.path().string()).best()),
                   "{}: holds runs of several seeds; name one of them, such as {}", run,
                   entry.path().string());
  expect_input(fs::exists(path),
               "{}: holds neither best.safetensors nor checkpoint.safetensors: "
               "not a run, or one that has written no checkpoint yet",
               run);
  return path;
}

TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data) {
  const std::string path = trained_checkpoint(run);
  const Checkpoint checkpoint = load_checkpoint(path);
  TrainedModel trained{parse_config(checkpoint.config, path + " (its config)", overrides), nullptr,
                       checkpoint.state};
  trained.task = make_task(checkpoint, trained.config, needs_data);
  restore_parameters(checkpoint, trained.task->model());
  return trained;
}

}  // namespace tapestry
