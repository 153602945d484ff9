#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/check.hpp"
#include "data/images/idx.hpp"
#include "data/images/images.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"

// The format of MNIST and its successors: a folder of four IDX files.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr const char* train_images = "train-images-idx3-ubyte";
constexpr const char* train_labels = "train-labels-idx1-ubyte";
constexpr const char* test_images = "t10k-images-idx3-ubyte";
constexpr const char* test_labels = "t10k-labels-idx1-ubyte";
constexpr const char* all_files[] = {train_images, train_labels, test_images, test_labels};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The plain file, or the gzip file where there is no plain one.
std::string path_in(const fs::path& folder, const char* name) {
  const fs::path plain = folder / name;
  return is_there(plain) ? plain.string() : plain.string() + ".gz";
}

// The folder that holds the four files, given itself or one of them.
fs::path folder_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  const fs::path name = path.extension() == ".gz" ? path.stem() : path.filename();
  if (std::ranges::any_of(all_files, [&](const char* file) { return name == file; }))
    return path.has_parent_path() ? path.parent_path() : ".";
  expect_input(
      !is_there(path),
      "{}: expected a folder, or a file named {}[.gz] beside its three siblings; rename it",
      path.string(), train_images);
  return path;
}

void require_files(const fs::path& folder) {
  const bool complete = std::ranges::all_of(
      all_files, [&](const char* name) { return is_there(path_in(folder, name)); });
  if (complete) return;
  std::error_code ignored;
  std::string found = "no folder";
  if (fs::is_directory(folder, ignored)) {
    std::vector<std::string> names = file_names(folder.string());
    if (names.size() > 2) names = {names[0], fmt::format("{} more", names.size() - 1)};
    found = list_briefly(names);
  }
  throw InputError(
      fmt::format("{}: image files are missing: expected the IDX files {}, plain or .gz, found {}; "
                  "see Images in train/tasks/README.md",
                  folder.string(), fmt::join(all_files, ", "), found));
}

ImageDataset load_split(const fs::path& folder, const char* images_file, const char* labels_file,
                        std::int32_t classes) {
  const std::string images_path = path_in(folder, images_file);
  const std::string labels_path = path_in(folder, labels_file);
  const Array images = read_idx_images(images_path);
  std::vector<std::int32_t> labels = read_idx_labels(labels_path, classes);
  expect_input(std::ssize(labels) == images.dim(0),
               "{}: byte 4: expected {} labels, one for each image of {}, found {}; give two files "
               "that belong together",
               labels_path, images.dim(0), images_path, labels.size());
  return ImageDataset(images, std::move(labels));
}

}  // namespace

ImageSplits load_images(const std::string& path, const ImageOptions& options) {
  const fs::path folder = folder_of(path);
  require_files(folder);
  ImageSplits splits{load_split(folder, train_images, train_labels, options.classes),
                     load_split(folder, test_images, test_labels, options.classes)};
  const ImageDataset &train = splits.train, &test = splits.test;
  expect_option(
      options.height == 0 || (train.height() == options.height && train.width() == options.width),
      "height", "{}: bytes 8 to 15: expected images of {} x {}, found {} x {}",
      path_in(folder, train_images), options.height, options.width, train.height(), train.width());
  expect_input(
      train.height() == test.height() && train.width() == test.width(),
      "{}: bytes 8 to 15: expected images of {} x {}, as in {}, found {} x {}; give files that "
      "belong together",
      path_in(folder, test_images), train.height(), train.width(), path_in(folder, train_images),
      test.height(), test.width());
  return splits;
}

}  // namespace tapestry
