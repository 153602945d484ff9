#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

// The files of a folder, listed and not yet read. There is one class for each sub-folder, named as
// it is and numbered in the order of the names' bytes; or one class "all", if the files lie in the
// folder itself. Sub-folders named train, validation (or val, valid) and test contain the splits,
// each of such a form.
struct ClassFolder {
  struct File {
    std::string path;
    std::int32_t label;
  };
  std::vector<std::string> classes{};
  std::vector<File> train{}, validation{}, test{};
  std::int64_t ignored = 0;  // number of files of another kind
};

// The files that are read, as messages name them.
struct FileKind {
  const char* noun;                           // "pictures"
  const char* expected;                       // "PNG or JPEG files"
  bool (*has_ending)(std::string_view name);  // whether the name of a file is that of this kind
};

// Returns whether the path is a folder with files of this kind, or with sub-folders of them.
bool is_class_folder(const std::string& path, const FileKind& kind);

// Returns whether the name is that of a folder of a split: "val".
bool is_split_name(std::string_view name);

// Lists the files of a folder. Hidden files are left out. `classes` are the names of the classes in
// the order of their labels; empty: those that the folder has. Throws InputError if there are no
// files for training, a split or a class has none, files lie beside sub-folders, a split has two
// folders, a class is not among `classes` or those of the training, or its name contains quotes,
// commas or characters that cannot be printed, or is that of another class in other bytes.
ClassFolder list_class_folder(const std::string& path, const FileKind& kind,
                              const std::vector<std::string>& classes = {});

}  // namespace tapestry
