#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/array.hpp"
#include "autograd/restore.hpp"

namespace tapestry {

struct SeriesInMemory {
  std::vector<std::string> names{};  // M
  Array values{};                    // (rows, M) float64; NaN where nothing was measured
};

struct ImagesInMemory {
  Array pixels{};  // (N, channels, height, width) float32
  std::vector<std::int32_t> labels{};
};

// Files that a program has in memory: bytes of a file, or arrays, which load_series() and
// load_images() take. The functions of input_file.hpp find them at "/memory/NAME", without a look
// at the disk, in a thread that has a UseMemoryFolder.
class MemoryFolder final {
 public:
  using Content = std::variant<std::string_view, SeriesInMemory, ImagesInMemory>;

  // Throws InputError unless the name is that of a file and is new.
  void add(const std::string& name, Content content);

  // Returns the path of the only file, or of the folder if there are several.
  std::string path() const;
  bool is_folder(const std::string& path) const;  // returns whether the path is that of the folder
  std::vector<std::string> names() const;

  bool has(const std::string& path) const { return files_.contains(path); }
  // Returns the content at a path if it is of this type, else null.
  template <class OfType>
  const OfType* open(const std::string& path) const {
    const auto found = files_.find(path);
    const auto* content = found == files_.end() ? nullptr : std::get_if<OfType>(&found->second);
    was_opened_ |= content != nullptr;
    return content;
  }
  bool was_opened() const { return was_opened_; }  // returns whether a reader has taken a content

 private:
  std::map<std::string, Content> files_;  // by path
  mutable bool was_opened_ = false;
};

// A guard under which this thread reads the files of a folder in memory. Null: there are none.
class UseMemoryFolder final : Restore<const MemoryFolder*> {
 public:
  explicit UseMemoryFolder(const MemoryFolder* folder);
};
const MemoryFolder* memory_folder();  // returns that of this thread, or null

// Returns the content of this type at a path in memory; null if there is none.
template <class Content>
const Content* in_memory(const std::string& path) {
  return memory_folder() ? memory_folder()->open<Content>(path) : nullptr;
}

}  // namespace tapestry
