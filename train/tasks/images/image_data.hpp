#pragma once

#include <optional>

#include "data/images/images.hpp"
#include "train/config/keys.hpp"
#include "train/task.hpp"

namespace tapestry {

// The keys of images, drawn or from data.path, and of their classes.
namespace key {

inline const Key<std::int64_t> training_images{
    "data.training_images",
    10'000,
    "clothes to draw when data.path is empty",
    {.low = 1, .high = 1e6, .used_if = {data_path.is("")}}};
inline const Key<std::int64_t> test_images{"data.test_images",
                                           1000,
                                           "clothes to draw for validation, and others to test on",
                                           {.low = 1, .high = 1e6, .used_if = {data_path.is("")}}};
inline const Key<double> image_validation_fraction{
    "data.validation_fraction",
    0.1,
    "share of data.path's training images, to validate on",
    {.low = 0.0001, .high = 0.9, .used_if = {data_path.is_not("")}}};
inline const Key<std::vector<std::string>> class_names{
    "data.class_names",
    {},
    "of labels 0, 1, …; empty: those of the drawn clothes, or of data.path 0 to 9",
    {.may_change_on_resume = true}};

}  // namespace key

std::vector<KeyInfo> image_keys();

// What a task learns from, what chooses its best model, and what that is tested on.
struct ImageTaskSplits {
  ImageDataset train, validation;
  std::optional<ImageDataset> test{};
};

// The images of a task, and their size, which a trained model keeps.
class ImageData {
 public:
  using Metadata = std::map<std::string, std::string>;

  // InputError where a trained model's images had another size.
  explicit ImageData(const TaskSetup& setup);

  // Read or drawn when first asked for: a trained model does without.
  const ImageTaskSplits& splits();
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  Metadata metadata() const;
  const ImageDataset* test() { return splits().test ? &*splits().test : nullptr; }

  // Of the validation split, from image `first` on: as many as there are of `count` wanted.
  // InputError names --index where there is none.
  Batch validation(std::int64_t first, std::int64_t count);

 private:
  Config config_;
  std::vector<std::string> class_names_;
  std::int64_t height_ = 0, width_ = 0;
  std::optional<ImageTaskSplits> splits_;
};

}  // namespace tapestry
