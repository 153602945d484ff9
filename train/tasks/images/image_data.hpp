#pragma once

#include <optional>

#include "data/images/augmentation.hpp"
#include "data/images/images.hpp"
#include "data/images/picture_folder.hpp"
#include "layers/models/vision_transformer.hpp"
#include "train/config/settings.hpp"
#include "train/inspect/onnx/onnx_graph.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/recognized.hpp"
#include "train/task.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {

// Channels of the pictures of a folder.
enum class ColorMode { detected, grayscale, rgb };

// The images of a config, synthetic or from data.path, and their classes.
struct ImageSettings : PictureOptions {
  std::string path{};  // empty: synthetic images
  std::uint64_t seed = 0;
  std::int64_t training_images = 10'000, test_images = 1000;  // numbers of synthetic ones
  std::vector<std::string> class_names{};
  std::int64_t image_size = 0;  // height and width to which pictures are fitted; 0: of one size
  ColorMode color = ColorMode::detected;
  std::int64_t image_cache = 1024;  // MiB
  Augmentation augmentation{};
};

extern const SettingsOf<ImageSettings> image_settings;

// Detects whether the pictures of a folder have colors, if data.color does not say so.
void detect_color(Config& config, const Given<ImageSettings>& given, const PictureFolder& folder);

// Detects the classes of images and, for pictures of a folder, whether they have colors, as
// TaskSpec::detect does. Detects nothing if data.path is empty or missing. Throws InputError if a
// folder cannot be listed, or if IDX labels are damaged.
void detect_images(Config& config);

// Sets the facts about the pictures of a folder as below.
void recognize_pictures(Recognized& found, const Given<ImageSettings>& given,
                        const PictureFolder& folder, bool has_classes = false);

// Sets the facts about the images of a user, the keys with which a task reads them, the number of
// training examples, and what is wrong with the images; and with their classes, if `has_classes`.
// Throws InputError if there are no images, or if none can be read.
void recognize_images(Recognized& found, const UserData& data, bool has_classes);

// Returns the description of images (batch, height, width), or (batch, 3, height, width) in color,
// in an ONNX graph.
onnx::Described onnx_images(const ImageSize& size, const std::string& range);

// Returns how pictures are read that may have no class.
PredictorInput pictures_to_predict();

// The splits of a task on images.
struct ImageTaskSplits {
  ImageDataset train, validation;
  std::optional<ImageDataset> test{};
  std::int64_t skipped = 0;     // number of broken pictures that were left out
  std::string first_skipped{};  // why the first of them cannot be read
  std::int64_t moved = 0;       // number of pictures that are in a split for lack of others
};

// Where a task finds its images instead of in folders of classes and in the synthetic clothes.
// Their labels are no classes, but indices.
struct ImageSource {
  void (*detect)(Config& config);
  std::function<PictureFolder(const Given<ImageSettings>& given, bool whole)> list;  // of data.path
  std::function<ImageTaskSplits(const Given<ImageSettings>& given)> draw;
};

// The images of a task, and their size, which a checkpoint stores.
class ImageData {
 public:
  using Metadata = std::map<std::string, std::string>;

  // Reads the images unless only a trained model is needed. Throws InputError as splits() does, or
  // for unusable names of classes.
  explicit ImageData(const TaskSetup& setup, std::optional<ImageSource> source = std::nullopt);

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

  // Returns what `of_images` predicts for picture files, which are read on all threads, of those
  // that can be read: images (N, F), at most 64.
  using PredictImages = std::function<std::vector<Prediction>(const Array& images)>;
  std::vector<Prediction> predict(std::span<const ExampleFields> paths,
                                  const PredictImages& of_images) const;

 private:
  std::optional<PictureFolder> list() const;
  ImageTaskSplits draw_or_read();
  ImageTaskSplits read_folder();

  std::optional<ImageSource> source_;
  Given<ImageSettings> given_;
  bool whole_data_;
  std::optional<PictureFolder> folder_;
  std::vector<std::string> class_names_;
  ImageSize size_{};  // height 0: not known yet
  std::optional<ImageTaskSplits> splits_;
};

// Returns the options of an encoder of images of this size, which are cut into patches of
// given.patch pixels. Throws InputError if these do not divide the images.
template <class Settings>
VisionTransformerOptions patches_of(const Config& config, const Given<Settings>& given,
                                    const ImageSize& size) {
  const Given<TransformerSettings> blocks = transformer_settings.of(config);
  const auto [C, H, W] = size;
  given.expect(H % given.patch == 0 && W % given.patch == 0, "patch",
               "does not divide images of {} × {} pixels; give a divisor of both", H, W);
  return {.channels_in = C,
          .height = H,
          .width = W,
          .patch = given.patch,
          .layers = blocks.layers,
          .block = block_options(blocks)};
}

}  // namespace tapestry
