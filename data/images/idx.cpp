#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "autograd/check.hpp"
#include "data/images/images.hpp"
#include "data/input_file.hpp"
#include "data/memory_folder.hpp"
#include "data/option_error.hpp"

namespace tapestry {
namespace {

constexpr std::uint32_t labels_magic = 0x00000801;  // unsigned bytes, 1 axis
constexpr std::uint32_t images_magic = 0x00000803;  // unsigned bytes, 3 axes
constexpr std::int64_t max_bytes = std::int64_t{1} << 30;
constexpr std::int64_t piece_bytes = 1 << 16;

const char* describe(std::uint32_t magic) {
  if (magic == labels_magic) return "IDX labels";
  if (magic == images_magic) return "IDX images";
  return "not an IDX file of this kind";
}

std::uint32_t big_endian(const std::string& bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return value;
}

void check_magic(const std::string& path, const std::string& start, std::uint32_t expected) {
  expect_input(start.size() >= 4, "{}: byte {}: the file ends, expected {} (magic 0x{:08x}); {}",
               path, start.size(), describe(expected), expected, "copy or download it again");
  const std::uint32_t magic = big_endian(start, 0);
  expect_input(magic == expected,
               "{}: byte 0: expected 0x{:08x} ({}), found 0x{:08x} ({}); give the {} file", path,
               expected, describe(expected), magic, describe(magic),
               expected == images_magic ? "...-images-idx3-ubyte" : "...-labels-idx1-ubyte");
}

std::vector<std::int64_t> read_extents(const std::string& path, const std::string& start,
                                       int rank) {
  const std::size_t header = 4 + 4 * rank;
  expect_input(start.size() >= header,
               "{}: byte {}: the file ends within its {}-byte header; copy or download it again",
               path, start.size(), header);
  std::vector<std::int64_t> extents;
  for (std::size_t offset = 4; offset < header; offset += 4) {
    extents.push_back(big_endian(start, offset));
    expect_input(extents.back() > 0, "{}: byte {}: {} is 0; give a file with {}", path, offset,
                 offset == 4 ? "the count" : "an image's height or width",
                 rank == 1 ? "labels" : "images");
  }
  return extents;
}

// Returns the number of bytes after the header. Throws InputError if they are more than max_bytes;
// checks each partial product, so that none overflows.
std::int64_t payload_bytes(const std::string& path, const std::vector<std::int64_t>& extents) {
  std::int64_t bytes = 1;
  for (const std::int64_t extent : extents) {
    expect_input(extent <= max_bytes / bytes,
                 "{}: byte 4: the header states {} bytes, expected at most {}; the file is "
                 "damaged, copy or download it again",
                 path, fmt::join(extents, " x "), max_bytes);
    bytes *= extent;
  }
  return bytes;
}

// A file whose header has been read and is consistent with its size.
class IdxFile final {
 public:
  IdxFile(const std::string& path, std::uint32_t magic) : file_(path), path_(path) {
    const int rank = static_cast<int>(magic & 0xFF);
    std::string start(4 + 4 * rank, '\0');
    start.resize(file_.read(start));
    check_magic(path, start, magic);
    extents_ = read_extents(path, start, rank);
    header_bytes_ = std::ssize(start);
    values_ = payload_bytes(path, extents_);
    const std::int64_t most = file_.most_bytes();
    if (!file_.is_gzip() && header_bytes_ + values_ > most) fail_short(most);
    expect_input(header_bytes_ + values_ <= most,
                 "{}: byte 4: the header states {} values, more than the {} bytes that gzip of "
                 "this size may hold; decompress the file first",
                 path, fmt::join(extents_, " x "), most);
  }

  const std::vector<std::int64_t>& extents() const { return extents_; }
  std::int64_t values() const { return values_; }  // returns the number of values, one byte each

  // Calls fn(value, byte offset in the file) for each value. Throws InputError if the file is cut
  // short or continues.
  template <class F>
  void for_each_value(F fn) {
    std::string piece;
    for (std::int64_t done = 0; done < values_; done += std::ssize(piece)) {
      piece.resize(std::min(piece_bytes, values_ - done));
      const std::int64_t got = file_.read(piece);
      const std::int64_t offset = header_bytes_ + done;
      if (got < std::ssize(piece)) fail_short(offset + got);
      for (std::size_t i = 0; i < piece.size(); ++i)
        fn(static_cast<unsigned char>(piece[i]), offset + static_cast<std::int64_t>(i));
    }
    piece.resize(1);
    expect_input(file_.read(piece) == 0,
                 "{}: byte {}: the file continues, expected its end (its header states {} values); "
                 "copy or download it again",
                 path_, header_bytes_ + values_, fmt::join(extents_, " x "));
  }

 private:
  [[noreturn]] void fail_short(std::int64_t found) const {
    throw InputError(
        fmt::format("{}: byte {}: the file ends, expected {} bytes (its header states {} values); "
                    "copy or download it again",
                    path_, found, header_bytes_ + values_, fmt::join(extents_, " x ")));
  }

  InputFile file_;
  std::string path_;
  std::vector<std::int64_t> extents_;
  std::int64_t header_bytes_ = 0, values_ = 0;
};

}  // namespace

Array read_idx_images(const std::string& path) {
  IdxFile file(path, images_magic);
  Array images({file.extents()[0], file.extents()[1], file.extents()[2]});
  auto pixel = images.mutable_values<float>().begin();
  file.for_each_value([&](int value, std::int64_t) { *pixel++ = static_cast<float>(value) / 255; });
  return images;
}

std::vector<std::int32_t> read_idx_labels(const std::string& path, std::int32_t classes) {
  IdxFile file(path, labels_magic);
  std::vector<std::int32_t> labels;
  labels.reserve(file.values());
  file.for_each_value([&](int label, std::int64_t offset) {
    expect_option(label < classes, "class_names",
                  "{}: byte {}: expected a label from 0 to {}, found {}; give labels below {}",
                  path, offset, classes - 1, label, classes);
    labels.push_back(label);
  });
  return labels;
}

// --- a folder of IDX files, as MNIST and its successors are published ---

namespace {

namespace fs = std::filesystem;

struct SplitFiles {
  const char *images, *labels;
};
constexpr SplitFiles train_files{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
constexpr SplitFiles test_files{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// Returns the path of the plain file, or of the gzip file if there is no plain one.
std::string path_in(const fs::path& folder, const char* name) {
  const fs::path plain = folder / name;
  return is_there(plain) ? plain.string() : plain.string() + ".gz";
}

// Returns whether the path names a file of the split.
bool is_of(const SplitFiles& files, const fs::path& path) {
  const fs::path name = path.extension() == ".gz" ? path.stem() : path.filename();
  return name == files.images || name == files.labels;
}

// Returns the folder of the files for the path of the folder or of one of them. Throws InputError
// for another file.
fs::path folder_of(const fs::path& path) {
  if (is_folder(path)) return path;
  if (is_of(train_files, path) || is_of(test_files, path))
    return path.has_parent_path() ? path.parent_path() : ".";
  expect_input(!is_there(path),
               "{}: is not one of the IDX files, such as {}[.gz]; expected one of them, or a "
               "folder of pictures or IDX files; give the folder",
               path.string(), train_files.images);
  return path;
}

bool has(const fs::path& folder, const char* name) { return is_there(path_in(folder, name)); }

// Returns the files of the training split: those of the test split, if there are no others.
std::optional<SplitFiles> training_files(const fs::path& folder) {
  for (const SplitFiles& files : {train_files, test_files})
    if (has(folder, files.images)) return files;
  return std::nullopt;
}

[[noreturn]] void refuse_without_images(const fs::path& folder) {
  std::string found = "no folder";
  if (is_folder(folder)) {
    std::vector<std::string> names = file_names(folder.string());
    if (names.size() > 2) names = {names[0], fmt::format("{} more", names.size() - 1)};
    found = list_briefly(names);
  }
  throw InputError(fmt::format(
      "{}: the training images are missing: expected PNG or JPEG files in one sub-folder "
      "per class, or {}[.gz] and {}; found {}",
      folder.string(), train_files.images, train_files.labels, found));
}

// Reads the images and labels of a split; `classes` is 0 for images without labels. Throws
// InputError unless there are as many labels as images.
ImageDataset load_split(const fs::path& folder, const SplitFiles& files, std::int32_t classes) {
  const std::string images_path = path_in(folder, files.images);
  const std::string labels_path = path_in(folder, files.labels);
  const Array images = read_idx_images(images_path);
  if (classes == 0) return ImageDataset(images, std::vector(images.dim(0), 0));
  std::vector<std::int32_t> labels = read_idx_labels(labels_path, classes);
  expect_input(std::ssize(labels) == images.dim(0),
               "{}: byte 4: expected {} labels, one for each image of {}, found {}; give two files "
               "that belong together",
               labels_path, images.dim(0), images_path, labels.size());
  return ImageDataset(images, std::move(labels));
}

// Returns the images of one data set, then those of another, of the same size.
ImageDataset both_splits(const ImageDataset& first, const ImageDataset& second) {
  const ImageSize size = first.image_size();
  Array images({first.size() + second.size(), size.height, size.width});
  auto to = images.mutable_values<float>().begin();
  std::vector<std::int32_t> labels;
  for (const ImageDataset* part : {&first, &second}) {
    const Array pixels = part->batch(indices(0, part->size())).inputs;
    to = std::ranges::copy(pixels.values<float>(), to).out;
    labels.insert(labels.end(), part->labels().begin(), part->labels().end());
  }
  return ImageDataset(images, std::move(labels));
}

// Returns the images of a program. Throws as load_images() does, and InputError for values outside
// of [0, 1] and negative labels.
ImageSplits images_of(const std::string& path, const ImagesInMemory& memory,
                      const ImageOptions& options) {
  const std::int64_t height = memory.pixels.dim(2), width = memory.pixels.dim(3);
  expect_option(options.height == 0 || (height == options.height && width == options.width), "path",
                "{}: expected images of {} x {}, found {} x {}", path, options.height,
                options.width, height, width);
  const auto pixels = memory.pixels.values<float>();
  const auto wrong =
      std::ranges::find_if_not(pixels, [](float value) { return value >= 0 && value <= 1; });
  expect_input(wrong == pixels.end(), "{}: image {} (from 0): a value is {}; expected 0 to 1", path,
               (wrong - pixels.begin()) * memory.pixels.dim(0) / memory.pixels.size(),
               wrong == pixels.end() ? 0 : *wrong);
  for (const std::int32_t label : memory.labels)
    expect_option(label >= 0 && label < options.classes, "class_names",
                  "{}: expected labels from 0 to {}, found {}; give labels below {}", path,
                  options.classes - 1, label, options.classes);
  return {ImageDataset(memory.pixels, memory.labels)};
}

}  // namespace

ImageSplits load_images(const std::string& path, const ImageOptions& options) {
  if (const auto* memory = in_memory<ImagesInMemory>(path))
    return images_of(path, *memory, options);
  const fs::path folder = folder_of(path);
  const bool only_test = options.whole && is_of(test_files, path);
  const std::optional<SplitFiles> first = only_test ? test_files : training_files(folder);
  if (!first) refuse_without_images(folder);
  const bool is_labeled = has(folder, first->labels);
  const std::int32_t classes = is_labeled ? options.classes : 0;
  ImageSplits splits{load_split(folder, *first, classes)};
  const ImageSize train = splits.train.image_size();
  expect_option(
      options.height == 0 || (train.height == options.height && train.width == options.width),
      "path", "{}: bytes 8 to 15: expected images of {} x {}, found {} x {}",
      path_in(folder, first->images), options.height, options.width, train.height, train.width);
  const bool only_train = options.whole && is_of(train_files, path);
  if (only_train || first->images == test_files.images || !has(folder, test_files.images) ||
      (is_labeled && !has(folder, test_files.labels)))
    return splits;
  splits.test = load_split(folder, test_files, classes);
  const ImageSize test = splits.test->image_size();
  expect_input(
      train == test,
      "{}: bytes 8 to 15: expected images of {} x {}, as in {}, found {} x {}; give files that "
      "belong together",
      path_in(folder, test_files.images), train.height, train.width, path_in(folder, first->images),
      test.height, test.width);
  if (options.whole) return {both_splits(splits.train, *splits.test)};
  return splits;
}

std::int32_t count_classes(const std::string& path) {
  if (const auto* memory = in_memory<ImagesInMemory>(path)) {
    constexpr std::int32_t most_labels = 1 << 16;
    const std::int32_t label = std::ranges::max(memory->labels);
    expect_input(label < most_labels, "{}: a label is {}; expected numbers of classes, 0 to {}",
                 path, label, most_labels - 1);
    return label + 1;
  }
  constexpr std::int32_t most = 256;  // a label is one byte
  const fs::path folder = folder_of(path);
  const std::optional<SplitFiles> first = training_files(folder);
  if (!first) return 0;
  std::int32_t largest = 0;
  for (const char* labels : {first->labels, test_files.labels})
    if (has(folder, first->labels) && has(folder, labels))
      largest = std::max(largest, std::ranges::max(read_idx_labels(path_in(folder, labels), most)));
  return largest + 1;
}

}  // namespace tapestry
