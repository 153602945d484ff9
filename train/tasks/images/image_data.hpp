#pragma once

#include <optional>

#include "data/images/augmentation.hpp"
#include "data/images/images.hpp"
#include "data/images/picture_folder.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"
#include "train/tasks/classification.hpp"

namespace tapestry {

// Channels of the pictures of a folder.
enum class ColorMode { detected, grayscale, rgb };

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
inline const Key<std::int64_t> image_size{
    "data.image_size",
    0,
    "height and width in pixels to which pictures of a folder are fitted; 0: all have one size",
    {.low = 0, .high = 4096, .used_if = {data_path.is_not("")}}};
inline const Choice<ColorMode> color{
    "data.color",
    ColorMode::detected,
    "read pictures of a folder as gray values or as red, green and blue; auto: rgb if the file of "
    "any training picture has colors",
    {{"auto", ColorMode::detected}, {"grayscale", ColorMode::grayscale}, {"rgb", ColorMode::rgb}},
    {data_path.is_not("")}};
inline const Key<std::int64_t> image_cache{
    "data.image_cache",
    1024,
    "MiB of decoded pictures of a folder that are kept in memory; others are read in every epoch",
    {.low = 1, .high = 1e6, .does_not_affect_result = true, .used_if = {data_path.is_not("")}}};
inline const Key<bool> flip{"data.flip", false,
                            "mirror every second training image, chosen at random, left to right"};
inline const Key<std::int64_t> shift{
    "data.shift",
    0,
    "largest random shift of a training image in pixels, in each direction",
    {.low = 0, .high = 4096}};
inline const Key<bool> skip_broken{"data.skip_broken",
                                   false,
                                   "leave out pictures of a folder that cannot be read",
                                   {.used_if = {data_path.is_not("")}}};

}  // namespace key

std::vector<KeyInfo> image_keys();

// Detects the classes of images and, for pictures of a folder, whether they have colors, as
// TaskSpec::detect does. Detects nothing if data.path is empty or missing. Throws InputError if a
// folder cannot be listed, or if IDX labels are damaged.
void detect_images(Config& config);

// Sets the facts about the images at a path, the keys with which a task reads them, the number of
// training examples, and what is wrong with the images; and with their classes, if `has_classes`.
// Throws InputError if there are no images, or if none can be read.
void recognize_images(Recognized& found, const std::string& path, bool has_classes);

// Returns the description of images (batch, height, width), or (batch, 3, height, width) in color,
// in an ONNX graph.
onnx::Described onnx_images(const ImageSize& size, const std::string& range);

// The splits of a task on images.
struct ImageTaskSplits {
  ImageDataset train, validation;
  std::optional<ImageDataset> test{};
  std::int64_t skipped = 0;  // number of broken pictures that were left out
  std::int64_t moved = 0;    // number of pictures that are in a split for lack of others
};

// The images of a task, and their size, which a checkpoint stores.
class ImageData {
 public:
  using Metadata = std::map<std::string, std::string>;

  // Reads the images unless only a trained model is needed. Throws InputError as splits() does, or
  // for unusable names of classes.
  explicit ImageData(const TaskSetup& setup);

  // Reads or generates the images at the first call. Throws InputError as load_images(),
  // list_pictures() and read_pictures() do, for images of another size than those of the training,
  // and if data.shift is not below their size.
  const ImageTaskSplits& splits();
  bool is_read() const { return splits_.has_value(); }  // whether splits() was called
  const ImageSize& size() const { return size_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  Metadata metadata() const;
  // Returns what was found at data.path, on one line; "" for synthetic images and before splits().
  std::string remark() const;
  const ImageDataset* test() { return splits().test ? &*splits().test : nullptr; }

  // Returns up to `count` validation images from image `first` on. Throws InputError as splits()
  // does, and with a message that names --index if there are none.
  Batch validation(std::int64_t first, std::int64_t count);

  // Returns the inputs of a batch, changed at random in training as the config says.
  Array inputs(const Batch& batch, const Pass& pass) const;

  // Returns picture files as inputs of the model: (files, F). Throws InputError as read_picture()
  // does.
  Array pictures(const std::vector<std::string>& paths) const;

 private:
  ImageTaskSplits read_folder();

  Config config_;
  bool whole_data_;
  std::optional<PictureFolder> folder_;
  std::vector<std::string> class_names_;
  ImageSize size_{};  // height 0: not known yet
  std::optional<ImageTaskSplits> splits_;
};

}  // namespace tapestry
