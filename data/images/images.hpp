#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/random.hpp"
#include "data/dataset.hpp"

namespace tapestry {

// Grayscale images and their classes. A batch: inputs (B, pixels) float32 in [0, 1], row by row;
// targets (B) int32; count B.
class ImageDataset final : public Dataset {
 public:
  // Takes images (N, height, width), float32, and N labels.
  ImageDataset(const Array& images, std::vector<std::int32_t> labels);

  std::int64_t size() const override { return images_.dim(0); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  const Array& images() const { return images_; }  // (N, pixels)
  const std::vector<std::int32_t>& labels() const { return labels_; }

 private:
  std::int64_t height_;
  std::int64_t width_;
  Array images_;
  std::vector<std::int32_t> labels_;
};

// The splits as they are published.
struct ImageSplits {
  ImageDataset train;
  ImageDataset test;
};

struct TrainAndValidation {
  ImageDataset train;
  ImageDataset validation;
};
// Divides images by validation_examples(). The validation split has this share of them, at least
// one image. Both splits keep the order. Throws OptionError of "share" if no image is left for
// training.
TrainAndValidation split_validation(const ImageDataset& images, double share);

struct ImageOptions {
  std::int32_t classes = 10;           // labels are in [0, classes)
  std::int64_t height = 0, width = 0;  // expected size; 0: any
};

// Reads images in the format of their path. IDX: the path is the folder with the four files of
// MNIST or Fashion-MNIST, train-images-idx3-ubyte[.gz] and so on, or one of these files. Throws
// InputError if files are missing, damaged or of different sizes; OptionError of "height" if the
// images are not of the expected size, and of "classes" if there are more classes.
ImageSplits load_images(const std::string& path, const ImageOptions& options = {});

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
// same bits.
Array make_garment(int garment_class, Random& random);

enum class SyntheticSplit { train, validation, test };
// Returns images of garments: image i is of class i mod garment_classes, and depends only on seed,
// split and i.
ImageDataset make_clothes(std::int64_t count, std::uint64_t seed, SyntheticSplit split);

}  // namespace tapestry
