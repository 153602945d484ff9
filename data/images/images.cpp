#include "data/images/images.hpp"

#include <algorithm>

#include "autograd/check.hpp"
#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/images/clothes.hpp"

namespace tapestry {
namespace {

// Draws images first, first + 1, …: the class of each is its place modulo garment_classes.
ImageDataset draw_split(std::int64_t count, std::uint64_t seed, std::uint64_t first) {
  require(count >= 1, "draw_clothes: {} images", count);
  constexpr std::int64_t side = 28;
  Array images({count, side, side});
  std::vector<std::int32_t> labels(count);
  float* pixels = images.mutable_values<float>().data();
  parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto garment_class = static_cast<std::int32_t>(i % garment_classes);
      Random random(seed, Stream::data, first + static_cast<std::uint64_t>(i));
      const Array image = draw_garment(garment_class, random);
      std::ranges::copy(image.values<float>(), pixels + i * side * side);
      labels[i] = garment_class;
    }
  });
  return ImageDataset(images, std::move(labels));
}

}  // namespace

ImageDataset::ImageDataset(const Array& images, std::vector<std::int32_t> labels)
    : labels_(std::move(labels)) {
  require(images.rank() == 3 && images.dim(0) >= 1, "ImageDataset: images {}",
          to_string(images.shape()));
  require(std::ssize(labels_) == images.dim(0), "ImageDataset: {} labels for images {}",
          labels_.size(), to_string(images.shape()));
  height_ = images.dim(1);
  width_ = images.dim(2);
  images_ = images.reshaped({images.dim(0), height_ * width_});
}

void ImageDataset::add_to(Checksum& sum) const {
  sum.add(images_);
  sum.add(labels_);
}

Batch ImageDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  const std::int64_t pixels = images_.dim(1);
  Batch batch{.inputs = Array({B, pixels}),
              .targets = Array({B}, DType::int32),
              .count = static_cast<double>(B)};
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    require(example >= 0 && example < size(), "ImageDataset: example {} of {}", example, size());
    input = std::copy_n(images_.values<float>().begin() + example * pixels, pixels, input);
    *target++ = labels_[example];
  }
  return batch;
}

ImageFormats& image_formats() {
  static ImageFormats formats;
  return formats;
}

ImageSplits load_images(const std::string& path, const ImageOptions& options) {
  return image_formats().read(path, options);
}

ImageSplits draw_clothes(std::int64_t train_count, std::int64_t test_count, std::uint64_t seed) {
  constexpr std::uint64_t first_test = std::uint64_t{1} << 40;
  return {draw_split(train_count, seed, 0), draw_split(test_count, seed, first_test)};
}

}  // namespace tapestry
