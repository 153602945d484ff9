#include "train/run/run.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "data/file.hpp"
#include "data/text/text.hpp"
#include "train/run/file.hpp"
#include "train/run/system_calls.hpp"

namespace tapestry {
namespace fs = std::filesystem;
namespace {

// Whether the name still leads to the folder that was opened.
bool is_at(int descriptor, const std::string& folder) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(folder.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

std::string Run::default_folder(const std::string& name, bool resume) {
  expect_input(!name.starts_with(".") && name.find('/') == name.npos && printable(name) == name,
               "{}: cannot be the name of a folder in runs/; --out names any folder",
               printable(name));
  constexpr std::size_t most_bytes = 200;  // of a folder's name, with a number after it
  expect_input(name.size() <= most_bytes,
               "{}: too long for a folder's name; --out names any folder",
               printable_beginning(name));
  const std::string base = "runs/" + name;
  std::string last = base, next = base;
  for (int number = 2; fs::exists(next); ++number) {
    last = next;
    next = fmt::format("{}-{}", base, number);
  }
  return resume ? last : next;
}

std::vector<std::string> seed_folders(const std::string& folder) {
  std::map<std::int64_t, std::string> seeds;
  std::error_code unseen;
  if (!fs::is_directory(folder, unseen) || fs::exists(Run(folder).metrics(), unseen)) return {};
  for (const std::string& name : file_names(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    const std::string number = name.starts_with("seed-") ? name.substr(5) : "";
    const bool is_number = !number.empty() && number.size() < 19 &&
                           number.find_first_not_of("0123456789") == std::string::npos &&
                           (number[0] != '0' || number == "0");  // as it is written by --seeds
    if (is_number && fs::exists(Run(path).metrics(), unseen)) seeds[std::stoll(number)] = path;
  }
  std::vector<std::string> paths;
  for (const auto& [number, path] : seeds) paths.push_back(path);
  return paths;
}

std::vector<std::string> different_folders(const std::vector<std::string>& folders) {
  std::vector<std::string> different;
  std::set<fs::path> seen;
  std::error_code unseen;
  for (std::string folder : folders) {
    if (!seen.insert(fs::weakly_canonical(folder, unseen)).second) continue;
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    different.push_back(folder);
  }
  return different;
}

// Delegates first, so that what was made goes again where this fails.
RunLock::RunLock(const Run& run, Folder folder) : RunLock() {
  do {
    if (folder == Folder::make) make(run.folder());
    open(run.folder());
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      made_.clear();  // they are the other's now
      throw InputError(fmt::format("{}: another process trains into this folder", run.folder()));
    }
  } while (!is_at(descriptor_, run.folder()));  // the other took away what it had made
  // Also of a folder that was there: who made it may have been killed before this.
  sync_folder(folder_of(run.folder()), run.folder());
}

RunLock::~RunLock() {
  while (!made_.empty()) {
    system_calls().rmdir(made_.back().c_str());  // fails where there is something in it
    made_.pop_back();
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

// Who would begin to train in the microseconds of this look is refused.
bool is_trained_into(const Run& run) {
  const int folder = ::open(run.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool locked = ::flock(folder, LOCK_SH | LOCK_NB) != 0;
  ::close(folder);
  return locked;
}

void RunLock::make(const std::string& folder) {
  fs::path at;
  for (const fs::path& part : fs::path(folder)) {
    at /= part;
    std::error_code failed;
    if (fs::is_directory(at, failed)) continue;
    expect_input(!fs::exists(at, failed), "{}: {} is a file, not a folder; give another --out",
                 folder, at.string());
    if (make_folder(at)) made_.push_back(at);
    sync_folder(folder_of(at), at);
  }
}

void RunLock::open(const std::string& folder) {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  expect_input(descriptor_ >= 0 || (errno != ENOENT && errno != ENOTDIR),
               "{}: no such run to go on with; check the name, or leave --resume out to begin one",
               folder);
  if (descriptor_ < 0)
    throw std::runtime_error(fmt::format("{}: cannot open: {}", folder, std::strerror(errno)));
}

std::optional<Checkpoint> latest_checkpoint(const Run& run) {
  std::optional<Checkpoint> latest;
  for (const std::string& path : {run.best(), run.checkpoint()}) {
    if (!fs::exists(path)) continue;
    Checkpoint found = load_checkpoint(path);
    if (!latest || found.state.step >= latest->state.step) latest = std::move(found);
  }
  return latest;
}

void remove_unfinished(const Run& run) {
  for (const std::string& path :
       {run.config(), run.checkpoint(), run.best(), run.trace(), run.profile(), run.samples()})
    remove_unfinished(path);
}

std::string trained_checkpoint(const std::string& run) {
  std::error_code unseen;
  expect_input(fs::exists(run, unseen),
               "{}: no such run; `tapestry train CONFIG --out {}` would make it", printable(run),
               shell_word(run));
  if (!fs::is_directory(run, unseen)) return run;
  const Run folder(run);
  std::error_code ignored;  // of a folder that may not be looked into: listing it says so
  const std::string path = fs::exists(folder.best(), ignored) ? folder.best() : folder.checkpoint();
  if (fs::exists(path, ignored)) return path;
  for (const std::string& name : file_names(run)) {
    const std::string inner = (fs::path(run) / name).string();
    expect_input(
        !fs::exists(Run(inner).best(), ignored) && !fs::exists(Run(inner).checkpoint(), ignored),
        "{}: holds runs; name one of them, such as {}", run, inner);
  }
  throw InputError(
      fmt::format("{}: holds neither best.safetensors nor checkpoint.safetensors: "
                  "not a run, or one that has written no checkpoint yet",
                  run));
}

TrainedModel load_trained(const std::string& run, const std::vector<std::string>& overrides,
                          bool needs_data) {
  return load_trained(load_checkpoint_head(trained_checkpoint(run)), overrides, needs_data);
}

TrainedModel load_trained(const Checkpoint& checkpoint, const std::vector<std::string>& overrides,
                          bool needs_data) {
  TrainedModel trained{
      resolved_config(checkpoint.config, checkpoint.path + " (its config)", overrides), nullptr,
      checkpoint.state};
  trained.task = make_task(checkpoint, trained.config, needs_data);
  restore_parameters(checkpoint, trained.task->model());
  return trained;
}

}  // namespace tapestry
