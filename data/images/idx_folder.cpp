#include <algorithm>
#include <filesystem>

#include "autograd/check.hpp"
#include "data/images/idx.hpp"
#include "data/images/images.hpp"
#include "data/option_error.hpp"

// The format of MNIST and its successors: a folder of four IDX files.
namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr const char* publisher = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/";
constexpr const char* mirror =
    "https://github.com/zalandoresearch/fashion-mnist/tree/master/data/fashion";

// The files of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017) as published, that is as .gz; the
// checksums are those of tensorflow_datasets.
struct PublishedFile {
  const char* name;
  std::int64_t gzip_bytes;
  const char* gzip_sha256;
};
constexpr PublishedFile train_images{
    "train-images-idx3-ubyte", 26421880,
    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"};
constexpr PublishedFile train_labels{
    "train-labels-idx1-ubyte", 29515,
    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"};
constexpr PublishedFile test_images{
    "t10k-images-idx3-ubyte", 4422102,
    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"};
constexpr PublishedFile test_labels{
    "t10k-labels-idx1-ubyte", 5148,
    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"};
constexpr PublishedFile published[] = {train_images, train_labels, test_images, test_labels};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The plain file, or the gzip file where there is no plain one.
std::string path_in(const fs::path& folder, const PublishedFile& file) {
  const fs::path plain = folder / file.name;
  return is_there(plain) ? plain.string() : plain.string() + ".gz";
}

// The folder that holds the four files, given itself or one of them.
fs::path folder_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  const fs::path name = path.extension() == ".gz" ? path.stem() : path.filename();
  if (std::ranges::any_of(published, [&](const auto& file) { return name == file.name; }))
    return path.has_parent_path() ? path.parent_path() : ".";
  expect_input(
      !is_there(path),
      "{}: expected a folder, or a file named {}[.gz] beside its three siblings; rename it",
      path.string(), train_images.name);
  return path;
}

void require_files(const fs::path& folder) {
  std::string missing;
  for (const PublishedFile& file : published)
    if (!is_there(path_in(folder, file)))
      missing += fmt::format("; {}.gz ({} bytes, SHA-256 {})", file.name, file.gzip_bytes,
                             file.gzip_sha256);
  expect_input(missing.empty(),
               "{}: image files are missing; put these from {} or {} into this folder{}",
               folder.string(), publisher, mirror, missing);
}

ImageDataset load_split(const fs::path& folder, const PublishedFile& images_file,
                        const PublishedFile& labels_file, std::int32_t classes) {
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

ImageSplits load_folder(const std::string& path, const ImageOptions& options) {
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

const RegisterFormat idx_format(
    image_formats(), "idx",
    {.help = "a folder with the four IDX files of MNIST or Fashion-MNIST", .read = load_folder});

}  // namespace
}  // namespace tapestry
