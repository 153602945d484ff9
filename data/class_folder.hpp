#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// The files of a folder, listed and not yet read. Each sub-folder is a class of the same name; the
// classes are numbered in the order of their names' bytes. If the files lie in the folder itself,
// there is one class "all". Sub-folders named train, validation (or val, valid) and test contain
// the splits, each of such a form.
struct ClassFolder {
  struct File {
    std::string path;
    std::int32_t label;
  };
  std::string path{};
  std::vector<std::string> classes{};
  std::vector<File> train{}, validation{}, test{};
  std::int64_t ignored = 0;           // number of files that are not used
  std::vector<std::string> unused{};  // the first ten of them, below `path`
  std::int64_t unlabeled = 0;  // number of files in folders named unsup or unlabeled, not listed
};

// The kind of the files that are read, and how messages name these files.
struct FileKind {
  const char* noun;                           // "pictures"
  const char* expected;                       // "PNG or JPEG files"
  bool (*has_ending)(std::string_view name);  // returns whether a file of this name is of the kind
  // Whether files of the kind beside folders are ignored, folders within classes are read as the
  // class, and files of folders without labels are counted; else these are errors, and the last are
  // ignored.
  bool is_lenient = false;
};

// Returns whether the path is a folder with files of this kind, in it or up to five folders below.
// Throws InputError if a folder cannot be listed or contains a link to nothing.
bool is_class_folder(const std::string& path, const FileKind& kind);

// Returns whether the name is that of a folder of a split: "val".
bool is_split_name(std::string_view name);

struct ClassFolderOptions {
  // The names of the classes in the order of their labels; empty: those of the training split.
  std::vector<std::string> classes{};
  bool whole = false;  // lists all files as the validation split, and requires no split
  // 2: folders as people have them. The names of splits are in any case, and may have other words:
  // seg_train. A folder of such a name that contains files itself, beside others that do, is a
  // class. A folder around the only folder with files is passed. Files that archives add are
  // skipped (__MACOSX, Thumbs.db); files of folders beside the splits are not used.
  std::int64_t rules = 2;
};

// Lists the files of a folder. Hidden files are left out. Throws InputError if a split, or a class
// of the training split, has no files; if there is no training split, or a split has two folders;
// if files lie beside sub-folders, or other folders of classes beside splits; for a class that is
// not among `classes`, or whose name contains quotes, commas or characters that cannot be printed,
// or is that of another class in another Unicode form; for a link to nothing; and if a folder
// cannot be listed. Throws OptionError of "class_names" if folders may be splits or classes, or
// contain further folders, unless `classes` lists them: those are classes, with all files below
// them.
ClassFolder list_class_folder(const std::string& path, const FileKind& kind,
                              const ClassFolderOptions& options = {});

}  // namespace tapestry
