#include "train/tasks/images/image_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "data/file.hpp"
#include "data/images/clothes.hpp"
#include "train/settings/keys.hpp"
#include "train/settings/option_keys.hpp"

namespace tapestry {
namespace {

std::vector<std::string> class_names_of(const Config& config) {
  const std::vector<std::string_view> parts = split(config[key::class_names], ',');
  const std::vector<std::string> names(parts.begin(), parts.end());
  for (const std::string& name : names)
    config.expect(!name.empty() && name.find_first_of("\"\n\r") == std::string::npos &&
                      std::ranges::count(names, name) == 1,
                  key::class_names, "expected different names, with a comma between them");
  return names;
}

ImageSplits load(const Config& config, const ImageOptions& options) {
  const std::string& path = config[key::data_path];
  if (!path.empty())
    return with_keys(
        config,
        {{"height", key::data_path, "give images of the size this model was trained on"},
         {"classes", key::class_names, "or name all of the file's classes here"}},
        [&] { return load_images(path, options); });
  config.expect(options.classes == garment_classes, key::class_names, "expected {} names, found {}",
                garment_classes, options.classes);
  ImageSplits drawn =
      draw_clothes(config[key::training_images], config[key::test_images], seed_of(config));
  const std::int64_t height = drawn.train.height(), width = drawn.train.width();
  expect_input(options.height == 0 || (height == options.height && width == options.width),
               "the built-in clothes have {} x {} pixels; this model was trained on {} x {}; give "
               "its images with --set data.path=FOLDER",
               height, width, options.height, options.width);
  return drawn;
}

}  // namespace

std::string garment_names() {
  std::vector<std::string> names;
  for (int garment = 0; garment < garment_classes; ++garment)
    names.push_back(garment_name(garment));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<KeyInfo> image_keys() {
  return {key::training_images, key::test_images, key::class_names};
}

ImageData::ImageData(const TaskSetup& setup)
    : config_(setup.config), class_names_(class_names_of(config_)) {
  if (!setup.metadata.empty()) {
    height_ = std::stoll(setup.metadata.at("height"));
    width_ = std::stoll(setup.metadata.at("width"));
  }
  if (setup.needs_data) splits();
}

const ImageSplits& ImageData::splits() {
  if (splits_) return *splits_;
  splits_.emplace(load(config_, {.classes = static_cast<std::int32_t>(class_names_.size()),
                                 .height = height_,
                                 .width = width_}));
  height_ = splits_->train.height();
  width_ = splits_->train.width();
  return *splits_;
}

std::map<std::string, std::string> ImageData::metadata() const {
  return {{"height", std::to_string(height_)}, {"width", std::to_string(width_)}};
}

Batch ImageData::validation(std::int64_t first, std::int64_t count) {
  const ImageDataset& images = splits().test;
  expect_input(first < images.size(), "--index {}: the validation images are 0 to {}", first,
               images.size() - 1);
  std::vector<std::int64_t> chosen(std::min(count, images.size() - first));
  std::iota(chosen.begin(), chosen.end(), first);
  return images.batch(chosen);
}

}  // namespace tapestry
