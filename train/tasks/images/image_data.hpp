#pragma once

#include <optional>

#include "data/images/images.hpp"
#include "data/images/picture_folder.hpp"
#include "train/config/keys.hpp"
#include "train/task.hpp"

namespace tapestry {

// The keys of images, synthetic or from data.path, and of their classes.
namespace key {

inline const Key<std::int64_t> training_images{
    "data.training_images",
    10'000,
    "synthetic training images, if data.path is empty",
    {.low = 1, .high = 1e6, .used_if = {data_path.is("")}}};
inline const Key<std::int64_t> test_images{
    "data.test_images",
    1000,
    "number of synthetic validation images, and of test images",
    {.low = 1, .high = 1e6, .used_if = {data_path.is("")}}};
inline const Key<double> image_validation_fraction{
    "data.validation_fraction",
    0.1,
    "fraction of the training images that is used for validation",
    {.low = 0.0001, .high = 0.9, .used_if = {data_path.is_not("")}}};
inline const Key<std::vector<std::string>> class_names{
    "data.class_names",
    {},
    "names of classes 0, 1, …; empty: those of the synthetic images or folders, or 0 to 9",
    {.may_change_on_resume = true}};
inline const Key<std::int64_t> image_size{
    "data.image_size",
    0,
    "height and width in pixels to which pictures of a folder are fitted; 0: all have one size",
    {.low = 0, .high = 4096, .used_if = {data_path.is_not("")}}};
inline const Key<bool> skip_broken{"data.skip_broken",
                                   false,
                                   "leave out pictures of a folder that cannot be read",
                                   {.used_if = {data_path.is_not("")}}};

}  // namespace key

std::vector<KeyInfo> image_keys();

// Sets the facts of the images at a path, and the keys that read them, as classes and splits.
// Throws InputError if they are not images.
void recognize_images(Recognized& found, const std::string& path);

// The splits of a task on images.
struct ImageTaskSplits {
  ImageDataset train, validation;
  std::optional<ImageDataset> test{};
};

// The images of a task, and their size, which a checkpoint stores.
class ImageData {
 public:
  using Metadata = std::map<std::string, std::string>;

  // Throws InputError if the images of a trained model had another size or other classes.
  explicit ImageData(const TaskSetup& setup);

  // Reads or generates the images at the first call; a trained model does not need them.
  const ImageTaskSplits& splits();
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  Metadata metadata() const;
  // Returns what a folder of pictures contains, on one line; "" for other images.
  const std::string& remark() const { return remark_; }
  const ImageDataset* test() { return splits().test ? &*splits().test : nullptr; }

  // Returns up to `count` validation images from image `first` on. Throws InputError that names
  // --index if there are none.
  Batch validation(std::int64_t first, std::int64_t count);

  // Returns picture files as inputs of the model: (files, pixels). Throws InputError as
  // read_picture() does.
  Array pictures(const std::vector<std::string>& paths) const;

 private:
  ImageTaskSplits read_folder();

  Config config_;
  std::optional<PictureFolder> folder_;
  std::vector<std::string> class_names_;
  std::string remark_;
  std::int64_t height_ = 0, width_ = 0;
  std::optional<ImageTaskSplits> splits_;
};

}  // namespace tapestry
