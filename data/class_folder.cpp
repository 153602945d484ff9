#include "data/class_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Names of the folders of a split, of which at most one may exist.
constexpr std::array train_names{"train"}, test_names{"test"};
constexpr std::array validation_names{"validation", "val", "valid"};

constexpr const char* no_classes = "all";  // the class of files without classes

std::string shown_path(const fs::path& path) { return printable(path.string()); }

// What a folder contains: sorted names, without hidden ones.
struct Content {
  std::vector<std::string> folders{}, files{};
  std::int64_t others = 0;  // number of files of another kind
};

// Returns what a folder contains. Throws InputError for a link to nothing.
Content content_of(const fs::path& folder, const FileKind& kind) {
  Content content;
  std::error_code unseen;
  for (const std::string& name : file_names(folder.string())) {
    if (name.starts_with('.')) continue;
    const fs::file_status status = fs::status(folder / name, unseen);
    expect_input(status.type() != fs::file_type::not_found, "{}: is a link to nothing; remove it",
                 shown_path(folder / name));
    if (is_folder(folder / name))
      content.folders.push_back(name);
    else if (kind.has_ending(name))
      content.files.push_back(name);
    else
      ++content.others;
  }
  return content;
}

// Throws InputError for names that are not unique, or that lists and tables cannot contain.
void expect_class_names(const fs::path& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;  // folders by the composed form of their names
  for (const std::string& name : names) {
    const std::string place = shown_path(folder / name);
    expect_input(is_printable(name) && name.find_first_of("\",") == std::string::npos,
                 "{}: the name of a class must not contain quotes, commas, or characters that "
                 "cannot be printed; rename the folder",
                 place);
    const auto [same, added] = seen.emplace(composed(name), place);
    expect_input(added, "{}: has the same name as {} in another Unicode form; merge the folders",
                 place, same->second);
  }
}

std::int32_t label_of(const fs::path& folder, const std::string& name,
                      const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, name);
  expect_input(
      found != classes.end() || classes != std::vector<std::string>{no_classes},
      "{}: is a sub-folder, but the training split has no sub-folders of classes; move its "
      "files into {}",
      shown_path(folder / name), shown_path(folder));
  expect_input(found != classes.end(),
               "{}: is not one of the classes {}; move the folder elsewhere, or rename the folder",
               shown_path(folder / name), list_briefly(classes));
  return static_cast<std::int32_t>(found - classes.begin());
}

using Files = std::vector<ClassFolder::File>;

// A lister of the files of a folder. The classes are set by the first split.
class Lister {
 public:
  Lister(const FileKind& kind, const std::vector<std::string>& classes, bool whole)
      : kind_(kind), whole_(whole), all_{.classes = classes} {}

  ClassFolder list(const fs::path& folder) {
    const Content content = content_of(folder, kind_);
    if (std::ranges::any_of(content.folders, is_split_name))
      list_splits(folder, content);
    else
      list_split(folder, all_.train);
    all_.path = folder.string();
    if (whole_) join_splits();
    expect_input(!(whole_ ? all_.validation : all_.train).empty(),
                 "{}: contains no {}{}; expected {} in one sub-folder per class",
                 shown_path(folder), kind_.noun, whole_ ? "" : " for training", kind_.expected);
    return std::move(all_);
  }

 private:
  // Moves the files of all splits into the validation split.
  void join_splits() {
    Files all = std::exchange(all_.train, {});
    for (Files* split : {&all_.validation, &all_.test})
      for (ClassFolder::File& file : std::exchange(*split, {})) all.push_back(std::move(file));
    all_.validation = std::move(all);
  }

  // Lists the files of one split. Throws InputError as list_class_folder() does.
  void list_split(const fs::path& folder, Files& split) {
    const Content content = content_of(folder, kind_);
    all_.ignored += content.others;
    expect_input(content.folders.empty() || content.files.empty(),
                 "{0}: contains {1} and sub-folders; move the {1} into folders of classes",
                 shown_path(folder), kind_.noun);
    expect_input(content.files.empty() || all_.classes.empty() ||
                     all_.classes == std::vector<std::string>{no_classes},
                 "{0}: contains {1} without classes; move the {1} into sub-folders named {2}",
                 shown_path(folder), kind_.noun, list_briefly(all_.classes));
    for (const std::string& name : content.files) split.push_back({(folder / name).string(), 0});
    if (all_.classes.empty()) {
      expect_class_names(folder, content.folders);
      all_.classes =
          content.folders.empty() ? std::vector<std::string>{no_classes} : content.folders;
    }
    for (const std::string& name : content.folders)
      list_class(folder / name, label_of(folder, name, all_.classes), split);
  }

  void list_class(const fs::path& folder, std::int32_t label, Files& split) {
    const Content content = content_of(folder, kind_);
    all_.ignored += content.others;
    expect_input(content.folders.empty(),
                 "{0}: contains sub-folders; expected {1} of one class; move the {1} out of these "
                 "sub-folders",
                 shown_path(folder), kind_.noun);
    expect_input(&split != &all_.train || !content.files.empty(),
                 "{}: contains no {}; add some, or remove the folder", shown_path(folder),
                 kind_.noun);
    for (const std::string& name : content.files)
      split.push_back({(folder / name).string(), label});
  }

  // Lists the split whose folder has one of these names, if there is one. Throws InputError for a
  // second one, and for one without files.
  void list_if_there(const fs::path& folder, std::span<const char* const> names, Files& split) {
    std::string listed;
    for (const char* name : names) {
      if (!is_folder(folder / name)) continue;
      const std::string place = shown_path(folder / name);
      expect_input(listed.empty(), "{}: is the same split as {}; merge the folders", place, listed);
      list_split(folder / name, split);
      expect_input(!split.empty(), "{}: contains no {}; add some, or remove the folder", place,
                   kind_.noun);
      listed = place;
    }
  }

  // Lists the splits of a folder. Throws InputError if it contains anything else, or no training
  // split.
  void list_splits(const fs::path& folder, const Content& content) {
    expect_input(whole_ || is_folder(folder / train_names[0]),
                 "{}: has no folder {} beside {}; add it, with the {} to train on",
                 shown_path(folder), train_names[0], list_briefly(content.folders), kind_.noun);
    const std::string split = is_folder(folder / train_names[0])
                                  ? train_names[0]
                                  : *std::ranges::find_if(content.folders, is_split_name);
    expect_input(content.files.empty(), "{}: lies beside the folder {}; move it into a split",
                 content.files.empty() ? "" : shown_path(folder / content.files[0]), split);
    for (const std::string& name : content.folders)
      expect_input(is_split_name(name),
                   "{}: lies beside the folder {}; expected only validation and test there; move "
                   "it",
                   shown_path(folder / name), split);
    all_.ignored += content.others;
    list_if_there(folder, train_names, all_.train);
    list_if_there(folder, validation_names, all_.validation);
    list_if_there(folder, test_names, all_.test);
  }

  const FileKind& kind_;
  bool whole_;
  ClassFolder all_;
};

}  // namespace

bool is_split_name(std::string_view name) {
  const auto is_among = [&](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  return is_among(train_names) || is_among(validation_names) || is_among(test_names);
}

bool is_class_folder(const std::string& path, const FileKind& kind) {
  if (!is_folder(path)) return false;
  const Content content = content_of(path, kind);
  if (!content.files.empty()) return true;
  return std::ranges::any_of(content.folders, [&](const std::string& name) {
    const fs::path inner = fs::path(path) / name;
    const Content below = content_of(inner, kind);
    if (!below.files.empty()) return true;
    return is_split_name(name) && std::ranges::any_of(below.folders, [&](const std::string& one) {
             return !content_of(inner / one, kind).files.empty();
           });
  });
}

ClassFolder list_class_folder(const std::string& path, const FileKind& kind,
                              const std::vector<std::string>& classes, bool whole) {
  return Lister(kind, classes, whole).list(path);
}

}  // namespace tapestry
