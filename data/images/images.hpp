#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/random.hpp"
#include "data/dataset.hpp"

namespace tapestry {

// The size of an image: channels, 1 (gray) or 3 (red, green, blue), and height and width in pixels.
struct ImageSize {
  std::int64_t channels = 1, height = 0, width = 0;

  std::int64_t values() const { return channels * height * width; }
  bool operator==(const ImageSize&) const = default;
};

// Images and their classes. A batch: inputs (B, channels · height · width) float32 in [0, 1], each
// channel row by row; targets (B) int32; count B.
class ImageDataset final : public Dataset {
 public:
  // Returns image `example` of a split, in the size of the first images.
  using ReadImage = std::function<Array(std::int64_t example)>;
  // Takes images (N, height, width) or (N, channels, height, width), float32, and N labels; with
  // `read_other` only the first M images, M ≥ 1, and N ≥ M labels: the other images are read
  // whenever they are used. Throws std::invalid_argument for other shapes, for no image, and for
  // another number of labels.
  ImageDataset(const Array& first, std::vector<std::int32_t> labels,
               ReadImage read_other = nullptr);

  std::int64_t size() const override { return std::ssize(labels_); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool has_single_examples() const override { return true; }

  const ImageSize& image_size() const { return image_size_; }
  const std::vector<std::int32_t>& labels() const { return labels_; }

 private:
  ImageSize image_size_;
  Array first_;  // (M, channels · height · width)
  std::vector<std::int32_t> labels_;
  ReadImage read_other_;
};

// The splits as they are published.
struct ImageSplits {
  ImageDataset train;
  std::optional<ImageDataset> test{};
};

struct TrainAndValidation {
  ImageDataset train;
  ImageDataset validation;
};
// Divides images by validation_examples(). The validation split has this share of them, at least
// one image. Both splits keep the order. Throws OptionError of "validation_fraction" if no image is
// left for training.
TrainAndValidation split_validation(const ImageDataset& images, double share);

struct ImageOptions {
  std::int32_t classes = 10;           // labels are in [0, classes)
  std::int64_t height = 0, width = 0;  // expected size; 0: any
  // `train` has the images of both splits, or those of the split whose file is given.
  bool whole = false;
};

// Reads images in the IDX format, or in memory (memory_folder.hpp). The path is a folder with the
// files of MNIST or Fashion-MNIST, train-images-idx3-ubyte[.gz] and so on, or one of these files.
// If only the images of the test split exist, they are used for training. Images without labels are
// of class 0. There is no test split if its images are missing, or only its labels. Throws
// InputError if there are no images, if `path` is another file, if files are damaged, or if their
// sizes or the numbers of images and labels differ; OptionError of "path" if the images are not of
// the expected size, and of "class_names" if there are more classes.
ImageSplits load_images(const std::string& path, const ImageOptions& options = {});

// Returns the number of classes of such files: the largest label plus one, or 1 if there are no
// labels; 0 if there are no images. Throws InputError if the labels are damaged, or if `path` is
// another file.
std::int32_t count_classes(const std::string& path);

// Read one file in the IDX format of MNIST (LeCun, Cortes and Burges): a big-endian header, then
// one byte per value; plain or gzip. Throw InputError with file and byte offset if it is another
// kind of file, cut short, longer than its header states, empty, or above 1 GiB of values. The size
// stated in the header is compared with that of the file before memory is allocated: 4 bytes per
// value.

// Returns images (N, rows, columns) float32 in [0, 1], that is byte / 255.
Array read_idx_images(const std::string& path);

// Returns N labels in [0, classes). Throws OptionError of "classes" for a larger one.
std::vector<std::int32_t> read_idx_labels(const std::string& path, std::int32_t classes);

// The number of classes of the synthetic clothes, which imitate Fashion-MNIST (Xiao et al. 2017)
// and have its order of classes: bright garments on black that fill the frame.
inline constexpr int garment_classes = 10;

// Returns "t-shirt", "trousers", … Throws std::invalid_argument outside [0, garment_classes).
const char* garment_name(int garment_class);

// Returns an image of one garment, (28, 28) float32 in [0, 1]. The same state of `random` gives the
// same bits. Throws std::invalid_argument outside [0, garment_classes).
Array make_garment(int garment_class, Random& random);

enum class SyntheticSplit { train, validation, test };
// Returns images of garments: image i is of class i mod garment_classes, and depends only on seed,
// split and i. Throws std::invalid_argument for a count below 1.
ImageDataset make_clothes(std::int64_t count, std::uint64_t seed, SyntheticSplit split);

}  // namespace tapestry
