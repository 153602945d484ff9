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
  std::int64_t ignored = 0;  // number of files of another kind
};

// The kind of the files that are read, and how messages name these files.
struct FileKind {
  const char* noun;                           // "pictures"
  const char* expected;                       // "PNG or JPEG files"
  bool (*has_ending)(std::string_view name);  // returns whether a file of this name is of the kind
};

// Returns whether the path is a folder with files of this kind: in the folder itself, in its
// sub-folders, or in class folders of a split. Throws InputError if a folder cannot be listed or
// contains a link to nothing.
bool is_class_folder(const std::string& path, const FileKind& kind);

// Returns whether the name is that of a folder of a split: "val".
bool is_split_name(std::string_view name);

// Lists the files of a folder. Hidden files are left out. `classes` are the names of the classes in
// the order of their labels; empty: those of the training split. Throws InputError if a split, or a
// class of the training split, has no files; if there is no training split, or a split has two
// folders; if files lie beside sub-folders, or other folders beside splits; for a class that is not
// among `classes`, or whose name contains quotes, commas or characters that cannot be printed, or
// is that of another class in another Unicode form; for a link to nothing; and if a folder cannot
// be listed. With `whole`, all files are listed as the validation split, and no split is required.
ClassFolder list_class_folder(const std::string& path, const FileKind& kind,
                              const std::vector<std::string>& classes = {}, bool whole = false);

}  // namespace tapestry
