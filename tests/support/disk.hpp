#pragma once

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "tests/support/process.hpp"
#include "train/run/atomic_file.hpp"

namespace tapestry {

enum class After { once, for_good };  // how long a failed disk fails
// Which of the names that were not synced remain after a power loss: none, renamed ones, or all.
enum class Names { synced, renamed, all };
enum class Bytes { synced, synced_or_zero, all };  // and of a file

// A folder on a simulated disk that fails on request, and records which names and bytes were
// synced: only these survive a power loss. Replaces the system's calls during its lifetime.
class FailingDisk final : public SystemCalls {
 public:
  struct Call {
    std::string name, path;
  };
  using Tree = std::map<std::string, std::optional<std::string>>;  // bytes of files by path

  // The present files of the folder count as synced.
  explicit FailingDisk(std::string folder) : folder_(std::move(folder)) {
    live_[folder_] = std::make_shared<Node>(Node{.is_folder = true});
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      const auto node = live_[entry.path().string()] =
          std::make_shared<Node>(Node{.is_folder = entry.is_directory()});
      if (entry.is_regular_file()) node->bytes = node->synced = read_bytes(entry.path().string());
    }
    for (const auto& [path, node] : live_) node->names = names_in(path);
    choose_system_calls(this);
  }
  ~FailingDisk() override { choose_system_calls(nullptr); }

  // The call with this number fails; a write is half done.
  void fail_at(std::size_t call, int error, After after) {
    failing_ = call;
    error_ = error;
    after_ = after;
  }
  // From the call with this number on, nothing is changed.
  void lose_power_at(std::size_t call) { last_ = call; }
  // Every write is interrupted, and then writes only a part.
  void interrupt_writes() { interrupting_ = true; }

  const std::vector<Call>& calls() const { return calls_; }

  // Returns the files after the power loss.
  Tree left(Names names, Bytes bytes) const {
    Tree tree;
    collect(tree, folder_, *live_.at(folder_), names, bytes);
    return tree;
  }

  int openat(int folder, const char* name, int flags) override {
    const std::string path = path_in(folder, name);
    if (fails("open", path)) return -1;
    const int file = SystemCalls::openat(folder, name, flags);
    if (file < 0) return file;
    std::shared_ptr<Node>& node = live_[path];
    if (!node) node = std::make_shared<Node>();
    if (flags & O_TRUNC) node->bytes.clear();
    open_[file] = {path, node};
    return file;
  }

  ssize_t write(int file, const void* bytes, std::size_t count) override {
    const auto& [path, node] = open_.at(file);
    if (interrupting_ && (interrupted_ = !interrupted_)) return errno = EINTR, -1;
    const bool failing = fails("write", path);
    if (failing && (off() || wrote_half_ || count < 2)) return -1;
    wrote_half_ = failing;
    if (failing || (interrupting_ && count > 1)) count /= 2;
    if (failing) failing_ = calls_.size();  // the rest of it
    const ssize_t written = SystemCalls::write(file, bytes, count);
    if (written > 0) node->bytes.append(static_cast<const char*>(bytes), written);
    return written;
  }

  int ftruncate(int file, off_t length) override {
    const auto& [path, node] = open_.at(file);
    if (fails("ftruncate", path)) return -1;
    node->bytes.resize(length);
    return SystemCalls::ftruncate(file, length);
  }

  int fsync(int file) override {
    const std::string path = open_.at(file).path;
    if (fails("fsync", path)) return -1;
    Node& node = *open_.at(file).node;
    node.synced = node.bytes;
    node.names = names_in(path);
    std::erase_if(renamed_, [&](const std::string& name) { return is_in(name, path); });
    return SystemCalls::fsync(file);
  }

  int close(int file) override {
    const std::string path = open_.at(file).path;
    open_.erase(file);
    SystemCalls::close(file);  // a failing close does so, too
    return fails("close", path) ? -1 : 0;
  }

  int renameat(int folder, const char* from_name, const char* to_name) override {
    const std::string from = path_in(folder, from_name), to = path_in(folder, to_name);
    if (fails("rename", to)) return -1;
    const int status = SystemCalls::renameat(folder, from_name, to_name);
    if (status != 0) return status;
    live_[to] = live_.at(from);
    live_.erase(from);
    renamed_.insert(to);
    return status;
  }

  int unlinkat(int folder, const char* name) override {
    const std::string path = path_in(folder, name);
    if (!fs::exists(path)) return errno = ENOENT, -1;
    if (fails("unlink", path)) return -1;
    live_.erase(path);
    return SystemCalls::unlinkat(folder, name);
  }

  int mkdir(const char* path) override {
    if (fails("mkdir", path)) return -1;
    const int status = SystemCalls::mkdir(path);
    if (status == 0) live_[path] = std::make_shared<Node>(Node{.is_folder = true});
    return status;
  }

  // Only cleans up, so that a failure is no fault.
  int rmdir(const char* path) override {
    if (off()) return errno = EIO, -1;
    const int status = SystemCalls::rmdir(path);
    if (status == 0) live_.erase(path);
    return status;
  }

 private:
  struct Node {
    bool is_folder = false;
    std::string bytes{}, synced{};                         // of a file
    std::map<std::string, std::shared_ptr<Node>> names{};  // of a folder, as they were synced
  };
  struct Open {
    std::string path;
    std::shared_ptr<Node> node;
  };

  // Handles a name in a folder that was opened by this disk.
  std::string path_in(int folder, const std::string& name) const {
    return folder == AT_FDCWD ? name : open_.at(folder).path + "/" + name;
  }

  bool off() const { return calls_.size() > last_; }

  bool fails(const char* name, const std::string& path) {
    const std::size_t call = calls_.size();
    calls_.push_back({name, path});
    if (off()) return errno = EIO, true;
    const bool writes = calls_.back().name != "unlink" && calls_.back().name != "close";
    const bool failing =
        call == failing_ || (after_ == After::for_good && call > failing_ && writes);
    if (failing) errno = error_;
    return failing;
  }

  std::map<std::string, std::shared_ptr<Node>> names_in(const std::string& folder) const {
    std::map<std::string, std::shared_ptr<Node>> names;
    for (const auto& [path, node] : live_)
      if (is_in(path, folder)) names[path] = node;
    return names;
  }

  static bool is_in(const std::string& path, const std::string& folder) {
    return fs::path(path).parent_path() == folder;
  }

  std::map<std::string, std::shared_ptr<Node>> names_left(const std::string& folder,
                                                          const Node& node, Names names) const {
    if (names == Names::all) return names_in(folder);
    auto outlasting = node.names;
    if (names == Names::renamed)
      for (const auto& [path, renamed] : names_in(folder))
        if (renamed_.contains(path)) outlasting[path] = renamed;
    return outlasting;
  }

  void collect(Tree& tree, const std::string& folder, const Node& node, Names names,
               Bytes bytes) const {
    for (const auto& [path, child] : names_left(folder, node, names)) {
      tree[path] = child->is_folder ? std::nullopt : std::optional(bytes_of(*child, bytes));
      if (child->is_folder) collect(tree, path, *child, names, bytes);
    }
  }

  static std::string bytes_of(const Node& file, Bytes bytes) {
    if (bytes == Bytes::all) return file.bytes;
    if (bytes == Bytes::synced) return file.synced;
    const std::size_t known = file.bytes.starts_with(file.synced) ? file.synced.size() : 0;
    return file.bytes.substr(0, known) + std::string(file.bytes.size() - known, '\0');
  }

  std::string folder_;
  std::map<std::string, std::shared_ptr<Node>> live_;  // by path
  std::set<std::string> renamed_;                      // since their folder was synced
  std::map<int, Open> open_;
  std::vector<Call> calls_;
  std::size_t failing_ = -1, last_ = -1;
  int error_ = 0;
  After after_ = After::once;
  bool wrote_half_ = false, interrupting_ = false, interrupted_ = false;
};

// Writes the files that remain after a power loss.
inline void restore(const std::string& folder, const FailingDisk::Tree& tree) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [path, bytes] : tree)
    if (bytes)
      std::ofstream(path, std::ios::binary) << *bytes;
    else
      fs::create_directory(path);
}

}  // namespace tapestry
