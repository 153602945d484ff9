#include "data/images/images.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "autograd/check.hpp"
#include "autograd/dry_run.hpp"
#include "data/option_error.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

ImageDataset some_of(const ImageDataset& images, const std::vector<std::int64_t>& chosen) {
  std::vector<std::int32_t> labels;
  for (const std::int64_t image : chosen) labels.push_back(images.labels()[image]);
  const auto [C, H, W] = images.image_size();
  return ImageDataset(images.batch(chosen).inputs.reshaped({std::ssize(chosen), C, H, W}),
                      std::move(labels));
}

}  // namespace

ImageDataset::ImageDataset(const Array& first, std::vector<std::int32_t> labels,
                           ReadImage read_other)
    : labels_(std::move(labels)), read_other_(std::move(read_other)) {
  const int rank = first.rank();
  require((rank == 3 || rank == 4) && first.dim(0) >= 1,
          "ImageDataset: images {}; expected (N, height, width) or (N, channels, height, width), "
          "N at least 1",
          to_string(first.shape()));
  require(
      std::ssize(labels_) == first.dim(0) || (read_other_ && std::ssize(labels_) > first.dim(0)),
      "ImageDataset: {} labels for images {}; expected one label per image", labels_.size(),
      to_string(first.shape()));
  image_size_ = {.channels = rank == 4 ? first.dim(1) : 1,
                 .height = first.dim(rank - 2),
                 .width = first.dim(rank - 1)};
  first_ = first.reshaped({first.dim(0), image_size_.values()});
}

void ImageDataset::add_to(Checksum& sum) const {
  sum.add(first_);
  for (std::int64_t example = first_.dim(0); example < size(); ++example)
    sum.add(read_other_(example));
  sum.add(labels_);
}

Batch ImageDataset::batch(std::span<const std::int64_t> examples) const {
  const std::int64_t B = std::ssize(examples);
  const std::int64_t F = image_size_.values();
  Batch batch{.inputs = Array({B, F}),
              .targets = Array({B}, DType::int32),
              .count = static_cast<double>(B)};
  if (is_dry_run()) return batch;
  auto input = batch.inputs.mutable_values<float>().begin();
  auto target = batch.targets.mutable_values<std::int32_t>().begin();
  for (const std::int64_t example : examples) {
    require_example("ImageDataset", example);
    if (example < first_.dim(0))
      input = std::copy_n(first_.values<float>().begin() + example * F, F, input);
    else
      input = std::ranges::copy(read_other_(example).values<float>(), input).out;
    *target++ = labels_[example];
  }
  return batch;
}

TrainAndValidation split_validation(const ImageDataset& images, double share) {
  const std::int64_t N = images.size();
  const auto wanted = std::llround(share * static_cast<double>(N));
  const std::int64_t count = std::max<std::int64_t>(1, wanted);
  expect_option(
      count < N, "validation_fraction",
      "{} of {} images are used for validation, so that none is left for training; expected fewer",
      count, N);
  const std::vector<std::int64_t> chosen = validation_examples(N, count);
  std::vector<std::int64_t> left;
  std::ranges::set_difference(indices(0, N), chosen, std::back_inserter(left));
  return {some_of(images, left), some_of(images, chosen)};
}

}  // namespace tapestry
