#include "data/class_folder.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "autograd/check.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Names of the folders of a split by rules 1, of which at most one may exist.
constexpr std::array<std::string_view, 5> exact_names = {"train", "validation", "val", "valid",
                                                         "test"};

constexpr const char* no_classes = "all";  // the class of files without classes

constexpr int most_levels = 5;  // of folders below the one that is given

std::string shown_path(const fs::path& path) { return printable(path.string()); }

// Returns the number of a split, as split_named() does, of a folder with exactly this name.
std::optional<int> split_of_name(std::string_view name) {
  const bool is_exact = std::ranges::find(exact_names, name) != exact_names.end();
  return is_exact ? split_named(name) : std::nullopt;
}

// Returns whether the folder contains what the data of a user need not: hidden files, and those
// that archives and file managers add.
bool is_left_out(const std::string& name, std::int64_t rules) {
  if (name.starts_with('.')) return true;
  const std::string small = lower_ascii(name);
  return rules >= 2 && (small == "__macosx" || small == "thumbs.db" || small == "desktop.ini" ||
                        small == "@eadir");
}

// A folder and what it contains: sorted names, without those that are left out.
struct Tree {
  fs::path path{};
  std::string name{};
  std::vector<std::string> files{}, others{};  // files of the kind, and of other kinds
  std::vector<Tree> folders{};
  std::int64_t count = 0;  // number of files of the kind, here and below

  bool has_classes() const { return files.empty() && count > 0; }
};

// Returns the kind of an entry of a folder. Throws InputError for a link to nothing.
fs::file_type type_of(const fs::path& path) {
  std::error_code unseen;
  const fs::file_type type = fs::status(path, unseen).type();
  expect_input(type != fs::file_type::not_found, "{}: is a link to nothing; remove it",
               shown_path(path));
  return type;
}

// Reads a folder and `levels` of folders below it; deeper folders count as files of another kind.
Tree read_tree(const fs::path& folder, const FileKind& kind, std::int64_t rules, int levels) {
  Tree tree{.path = folder, .name = folder.filename().string()};
  for (const std::string& name : file_names(folder.string())) {
    if (is_left_out(name, rules)) continue;
    if (type_of(folder / name) == fs::file_type::directory && levels > 0) {
      tree.folders.push_back(read_tree(folder / name, kind, rules, levels - 1));
      tree.count += tree.folders.back().count;
    } else {
      const bool is_of_kind = !is_folder(folder / name) && kind.has_ending(name);
      (is_of_kind ? tree.files : tree.others).push_back(name);
    }
  }
  tree.count += std::ssize(tree.files);
  return tree;
}

bool has_files(const fs::path& folder, const FileKind& kind, int levels) {
  std::vector<fs::path> folders;
  for (const std::string& name : file_names(folder.string())) {
    if (is_left_out(name, 2)) continue;
    if (type_of(folder / name) == fs::file_type::directory)
      folders.push_back(folder / name);
    else if (kind.has_ending(name))
      return true;
  }
  return levels > 0 && std::ranges::any_of(folders, [&](const fs::path& below) {
           return has_files(below, kind, levels - 1);
         });
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
  Lister(const FileKind& kind, const ClassFolderOptions& options)
      : kind_(kind), options_(options), all_{.classes = options.classes} {}

  ClassFolder list(const std::string& path) {
    all_.path = path;
    const Tree tree = read_tree(path, kind_, options_.rules, most_levels);
    const Tree* top = &tree;
    std::vector<SplitFolder> splits = splits_of(*top);
    for (const Tree* inner; splits.empty() && (inner = only_folder(*top)) && is_around(*inner);
         splits = splits_of(*top)) {
      ignore_beside(*top, inner);
      top = inner;
    }
    if (splits.empty())
      list_split(*top, all_.train);
    else
      list_splits(*top, splits);
    if (options_.whole) join_splits();
    expect_input(!(options_.whole ? all_.validation : all_.train).empty(),
                 "{}: contains no {}{}; expected {} in one sub-folder per class", shown_path(path),
                 kind_.noun, options_.whole ? "" : " for training", kind_.expected);
    return std::move(all_);
  }

 private:
  struct SplitFolder {
    const Tree* folder;
    int split = 0;  // as split_named() numbers them
    bool is_exact;  // its name has no other word
  };

  // Returns the folders of a folder that are splits; none if all of them are classes. Throws
  // OptionError if this cannot be decided.
  std::vector<SplitFolder> splits_of(const Tree& top) const {
    std::vector<SplitFolder> named;
    bool has_others = false;
    for (const Tree& folder : top.folders) {
      const bool is_class =
          options_.rules >= 2 && is_given_class(folder.name) && !holds_given_classes(folder);
      const auto exact =
          split_of_name(options_.rules >= 2 ? lower_ascii(folder.name) : folder.name);
      const auto split = exact || options_.rules < 2 ? exact : split_in_words(folder.name);
      if (split && !is_class)
        named.push_back({&folder, *split, exact.has_value()});
      else
        has_others |= folder.count > 0;
    }
    if (options_.rules < 2) return named;
    const std::vector<SplitFolder> all = named;
    std::erase_if(named, [&](const SplitFolder& one) {
      return !one.is_exact && std::ranges::any_of(all, [&](const SplitFolder& other) {
        return other.is_exact && other.split == one.split;
      });
    });
    const bool have_exact = std::ranges::any_of(named, &SplitFolder::is_exact);
    const bool have_train = std::ranges::count(named, 0, &SplitFolder::split) > 0;
    if (!have_exact && !have_train && !options_.whole) return {};
    if (std::ranges::any_of(named, [](const auto& one) { return one.folder->has_classes(); })) {
      std::erase_if(named,
                    [](const auto& one) { return !one.is_exact && !one.folder->files.empty(); });
      return named;
    }
    has_others |= named.size() < all.size();
    return splits_without_classes(top, std::move(named), has_others);
  }

  // Returns which of these folders, which contain files themselves or nothing, are splits.
  std::vector<SplitFolder> splits_without_classes(const Tree& top, std::vector<SplitFolder> named,
                                                  bool has_others) const {
    const auto exact = std::ranges::count_if(named, &SplitFolder::is_exact);
    if (!options_.classes.empty() || (!has_others && exact == std::ssize(named))) return named;
    if (exact < 2 && (has_others || named.size() < 2)) return {};
    std::vector<std::string> names;
    for (const SplitFolder& one : named) names.push_back(one.folder->name);
    throw OptionError("class_names",
                      fmt::format("{}: the folders {} may be splits or classes; name splits train, "
                                  "validation and test, with no other folder beside them",
                                  shown_path(top.path), list_briefly(names)));
  }

  bool is_given_class(const std::string& name) const {
    return std::ranges::count(options_.classes, name) > 0;
  }

  // Returns whether a folder contains folders of the given classes, and so is a split that may have
  // the name of a class.
  bool holds_given_classes(const Tree& folder) const {
    return folder.has_classes() && std::ranges::any_of(folder.folders, [&](const Tree& one) {
             return one.name != folder.name && is_given_class(one.name);
           });
  }

  // Returns whether a folder contains folders with files, beside which other files may lie.
  static bool is_around(const Tree& folder) {
    const auto has_some = [](const Tree& one) { return one.count > 0; };
    return folder.has_classes() || std::ranges::count_if(folder.folders, has_some) > 1;
  }

  // Returns the only folder with files in a folder without files; null if there is none.
  const Tree* only_folder(const Tree& tree) const {
    const auto found =
        std::ranges::find_if(tree.folders, [](const Tree& one) { return one.count > 0; });
    const bool is_only = options_.rules >= 2 && tree.files.empty() && found != tree.folders.end() &&
                         found->count == tree.count;
    return is_only ? &*found : nullptr;
  }

  bool is_lenient() const { return options_.rules >= 2 && kind_.is_lenient; }

  void ignore(const fs::path& file) {
    constexpr int most_named = 10;
    if (++all_.ignored <= most_named)
      all_.unused.push_back(file.lexically_relative(all_.path).generic_string());
  }
  void ignore_others(const Tree& tree) {
    for (const std::string& name : tree.others) ignore(tree.path / name);
  }
  // Counts all files of a folder as not used.
  void ignore_all(const Tree& tree) {
    ignore_others(tree);
    for (const std::string& name : tree.files) ignore(tree.path / name);
    for (const Tree& folder : tree.folders) ignore_all(folder);
  }
  // Counts what lies beside the only folder with files.
  void ignore_beside(const Tree& tree, const Tree* only) {
    ignore_others(tree);
    for (const Tree& folder : tree.folders)
      if (&folder != only) ignore_all(folder);
  }
  // Counts the files of a folder of splits or classes as not used. Throws InputError unless its
  // kind allows files there.
  bool ignores_files(const Tree& tree) {
    if (!is_lenient()) return false;
    for (const std::string& name : tree.files) ignore(tree.path / name);
    return true;
  }

  // Moves the files of all splits into the validation split.
  void join_splits() {
    Files all = std::exchange(all_.train, {});
    for (Files* split : {&all_.validation, &all_.test})
      for (ClassFolder::File& file : std::exchange(*split, {})) all.push_back(std::move(file));
    all_.validation = std::move(all);
  }

  // Lists the files of one split. Throws InputError as list_class_folder() does.
  void list_split(const Tree& given, Files& split) {
    const Tree* tree = &given;
    for (const Tree* inner; &split != &all_.train || has_splits_;) {
      inner = only_folder(*tree);
      if (!inner || !(is_around(*inner) || lower_ascii(inner->name) == lower_ascii(tree->name)))
        break;
      ignore_beside(*std::exchange(tree, inner), inner);
    }
    ignore_others(*tree);
    std::vector<const Tree*> folders;
    for (const Tree& folder : tree->folders)
      if (!is_unlabeled(folder) && (options_.rules < 2 || folder.count > 0 || tree->files.empty()))
        folders.push_back(&folder);
      else if (is_lenient())
        all_.unlabeled += folder.count;
      else
        ignore_all(folder);
    const bool has_files = !tree->files.empty() && (folders.empty() || !ignores_files(*tree));
    expect_input(folders.empty() || !has_files,
                 "{0}: contains {1} and sub-folders; move the {1} into folders of classes",
                 shown_path(tree->path), kind_.noun);
    list_classes(*tree, folders, has_files, split);
  }

  // Returns whether a folder of a split has files without labels.
  bool is_unlabeled(const Tree& folder) const {
    const std::string name = lower_ascii(folder.name);
    return options_.rules >= 2 && !is_given_class(folder.name) &&
           (name == "unsup" || name == "unlabeled" || name == "unlabelled");
  }

  void list_classes(const Tree& tree, const std::vector<const Tree*>& folders, bool has_files,
                    Files& split) {
    expect_input(
        !has_files || all_.classes.empty() || all_.classes == std::vector<std::string>{no_classes},
        "{0}: contains {1} without classes; move the {1} into sub-folders named {2}",
        shown_path(tree.path), kind_.noun, list_briefly(all_.classes));
    if (has_files)
      for (const std::string& name : tree.files) split.push_back({(tree.path / name).string(), 0});
    if (all_.classes.empty()) {
      for (const Tree* folder : folders) all_.classes.push_back(folder->name);
      expect_class_names(tree.path, all_.classes);
      if (folders.empty()) all_.classes = {no_classes};
    }
    for (const Tree* folder : folders)
      list_class(*folder, label_of(tree.path, folder->name, all_.classes), split);
  }

  void list_class(const Tree& given, std::int32_t label, Files& split) {
    const Tree* tree = &given;
    while (const Tree* inner = only_folder(*tree))
      ignore_beside(*std::exchange(tree, inner), inner);
    ignore_others(*tree);
    expect_input(
        &split != &all_.train || tree->count > 0 || (options_.rules < 2 && !tree->folders.empty()),
        "{}: contains no {}{}; add some, or remove the folder", shown_path(tree->path), kind_.noun,
        is_lenient() && !tree->others.empty() ? fmt::format(", but {}", list_briefly(tree->others))
                                              : "");
    for (const std::string& name : tree->files)
      split.push_back({(tree->path / name).string(), label});
    for (const Tree& folder : tree->folders) {
      if (options_.rules >= 2 && folder.count == 0) {
        ignore_all(folder);
        continue;
      }
      const std::string error = fmt::format(
          "{0}: contains sub-folders; expected {1} of one class; move the {1} out of these "
          "sub-folders",
          shown_path(tree->path), kind_.noun);
      if (options_.rules < 2) throw InputError(error);
      if (!is_lenient() && options_.classes.empty()) throw OptionError("class_names", error);
      list_class(folder, label, split);
    }
  }

  // Lists the folders of one split. Throws InputError for a second one, and for one without files.
  void list_folders(const std::vector<SplitFolder>& splits, int wanted, Files& split) {
    std::string listed;
    for (const auto& [folder, its, is_exact] : splits) {
      if (its != wanted) continue;
      const std::string place = shown_path(folder->path);
      expect_input(listed.empty(), "{}: is the same split as {}; merge the folders", place, listed);
      list_split(*folder, split);
      expect_input(!split.empty(), "{}: contains no {}; add some, or remove the folder", place,
                   kind_.noun);
      listed = place;
    }
  }

  // Lists the splits of a folder. Throws InputError if it contains other folders of classes, or no
  // training split.
  void list_splits(const Tree& top, const std::vector<SplitFolder>& splits) {
    has_splits_ = true;
    std::vector<std::string> names;
    for (const Tree& folder : top.folders) names.push_back(folder.name);
    const auto trained = std::ranges::find(splits, 0, &SplitFolder::split);
    expect_input(options_.whole || trained != splits.end(),
                 "{}: has no folder train beside {}; add it, with the {} to train on",
                 shown_path(top.path), list_briefly(names), kind_.noun);
    const std::string& split = (trained != splits.end() ? *trained : splits[0]).folder->name;
    expect_input(top.files.empty() || ignores_files(top),
                 "{}: lies beside the folder {}; move it into a split",
                 top.files.empty() ? "" : shown_path(top.path / top.files[0]), split);
    ignore_others(top);
    for (const Tree& folder : top.folders) {
      if (std::ranges::count(splits, &folder, &SplitFolder::folder) > 0) continue;
      const Tree* only = only_folder(folder);
      const bool is_double = only && only->name == folder.name;
      expect_input(options_.rules >= 2 && !(is_double ? *only : folder).has_classes(),
                   "{}: lies beside the folder {}; expected only validation and test there; move "
                   "it",
                   shown_path(folder.path), split);
      ignore_all(folder);
    }
    Files* const files[] = {&all_.train, &all_.validation, &all_.test};
    for (int number = 0; number < 3; ++number) list_folders(splits, number, *files[number]);
  }

  const FileKind& kind_;
  const ClassFolderOptions& options_;
  bool has_splits_ = false;
  ClassFolder all_;
};

}  // namespace

bool is_split_name(std::string_view name) { return split_of_name(lower_ascii(name)).has_value(); }

bool is_class_folder(const std::string& path, const FileKind& kind) {
  return is_folder(path) && has_files(path, kind, most_levels);
}

ClassFolder list_class_folder(const std::string& path, const FileKind& kind,
                              const ClassFolderOptions& options) {
  return Lister(kind, options).list(path);
}

}  // namespace tapestry
