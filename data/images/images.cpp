#include "data/images/images.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/option_error.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

ImageDataset some_of(const ImageDataset& images, const std::vector<std::int64_t>& chosen) {
  std::vector<std::int32_t> labels;
  for (const std::int64_t image : chosen) labels.push_back(images.labels()[image]);
  return ImageDataset(images.images().select(chosen).reshaped(
                          {std::ssize(chosen), images.height(), images.width()}),
                      std::move(labels));
}

}  // namespace

ImageDataset::ImageDataset(const Array& images, std::vector<std::int32_t> labels)
    : labels_(std::move(labels)) {
  require(images.rank() == 3 && images.dim(0) >= 1,
          "ImageDataset: images {}; expected (N, height, width)", to_string(images.shape()));
  require(std::ssize(labels_) == images.dim(0),
          "ImageDataset: {} labels for images {}; expected one label per image", labels_.size(),
          to_string(images.shape()));
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
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    require(example >= 0 && example < size(), "ImageDataset: example {}; expected 0 to {}", example,
            size() - 1);
    input = std::copy_n(images_.values<float>().begin() + example * pixels, pixels, input);
    *target++ = labels_[example];
  }
  return batch;
}

TrainAndValidation split_validation(const ImageDataset& images, double share) {
  const std::int64_t N = images.size();
  const auto wanted = std::llround(share * static_cast<double>(N));
  const std::int64_t count = std::max<std::int64_t>(1, wanted);
  expect_option(count < N, "share",
                "{} of {} images are used for validation, so that none is left for training", count,
                N);
  const std::vector<std::int64_t> chosen = validation_examples(N, count);
  std::vector<std::int64_t> all(N), left;
  std::iota(all.begin(), all.end(), 0);
  std::ranges::set_difference(all, chosen, std::back_inserter(left));
  return {some_of(images, left), some_of(images, chosen)};
}

}  // namespace tapestry
