#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace tapestry {

// Greyscale images and their classes. A batch: inputs (B, pixels) float32 in [0, 1], row by row;
// targets (B) int32; count B.
class ImageDataset final : public Dataset {
 public:
  // images (N, height, width) float32, one label each.
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

// As they are published.
struct ImageSplits {
  ImageDataset train;
  ImageDataset test;
};

// Some of a data set's images, and those that are left.
struct TrainAndValidation {
  ImageDataset train;
  ImageDataset validation;
};
// Holds a share of the images back, at least one, by held_back (data/validation_split.hpp). Both
// parts keep the images' order. OptionError of "share" where no image is left.
TrainAndValidation split_validation(const ImageDataset& images, double share);

struct ImageOptions {
  std::int32_t classes = 10;           // labels are in [0, classes)
  std::int64_t height = 0, width = 0;  // that a trained model expects; 0: any
};

// Reads images in the format of their path. IDX: the four files of MNIST or Fashion-MNIST,
// train-images-idx3-ubyte[.gz] and its siblings, from a folder, or from beside the one of them that
// the path names. InputError: files missing (says which and where to get them), damaged, or not of
// one size; OptionError: of another size than expected, or of more classes.
ImageSplits load_images(const std::string& path, const ImageOptions& options = {});

// Draws images with make_garment: image i is of class i mod garment_classes and depends on
// (seed, split, i) alone.
enum class SyntheticSplit { train, validation, test };
ImageDataset make_clothes(std::int64_t count, std::uint64_t seed, SyntheticSplit split);

}  // namespace tapestry
