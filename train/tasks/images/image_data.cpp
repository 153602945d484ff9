#include "train/tasks/images/image_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/dry_run.hpp"
#include "data/images/images.hpp"
#include "data/input_file.hpp"
#include "train/config/keys.hpp"

namespace tapestry {
namespace {

// Returns the names of the classes, which are known only for synthetic images.
std::vector<std::string> class_names_of(const Config& config) {
  std::vector<std::string> names = config[key::class_names];
  for (int label = 0; config[key::class_names].empty() && label < garment_classes; ++label)
    names.push_back(config[key::data_path].empty() ? garment_name(label) : fmt::to_string(label));
  for (const std::string& name : names)
    config.expect(!name.empty() && name.find_first_of("\",\n\r") == std::string::npos &&
                      std::ranges::count(names, name) == 1,
                  key::class_names,
                  "expected different names without quotes, with a comma between them");
  return names;
}

// Reads the images of data.path. The validation split is a part of the published training images.
ImageTaskSplits read(const Config& config, const ImageOptions& options) {
  return with_keys(
      config,
      {{"height", key::data_path, "give images of the size this model was trained on"},
       {"classes", key::class_names, "or list all classes of the file here"},
       {"share", key::image_validation_fraction, "lower the value, or give more images"}},
      [&]() -> ImageTaskSplits {
        ImageSplits published = load_images(config[key::data_path], options);
        TrainAndValidation parts =
            split_validation(published.train, config[key::image_validation_fraction]);
        return {std::move(parts.train), std::move(parts.validation), std::move(published.test)};
      });
}

ImageTaskSplits draw(const Config& config, const ImageOptions& options) {
  config.expect(options.classes == garment_classes, key::class_names, "expected {} names, found {}",
                garment_classes, options.classes);
  const auto part = [&](const Key<std::int64_t>& images, SyntheticSplit split) {
    return make_clothes(config[images], seed_of(config), split);
  };
  ImageTaskSplits drawn{part(key::training_images, SyntheticSplit::train),
                        part(key::test_images, SyntheticSplit::validation),
                        part(key::test_images, SyntheticSplit::test)};
  const std::int64_t height = drawn.train.height(), width = drawn.train.width();
  expect_input(options.height == 0 || (height == options.height && width == options.width),
               "the synthetic clothes have {} x {} pixels, but this model was trained on {} x {}; "
               "give its images with --set data.path=FOLDER",
               height, width, options.height, options.width);
  return drawn;
}

}  // namespace

std::vector<KeyInfo> image_keys() {
  return {key::training_images, key::test_images, key::image_validation_fraction, key::class_names};
}

void recognize_images(Recognized& found, const std::string& path) {
  constexpr std::int32_t most_classes = 256;  // a label is one byte
  const ImageSplits images = load_images(path, {.classes = most_classes});
  std::vector<std::int64_t> counts;
  for (const ImageDataset* split : {&images.train, &images.test})
    for (const std::int32_t label : split->labels()) {
      if (label >= std::ssize(counts)) counts.resize(label + 1);
      counts[label] += split == &images.train;
    }
  const auto validated =
      std::max<std::int64_t>(1, std::llround(0.1 * static_cast<double>(images.train.size())));
  found.facts = {{"training images", images.train.size()},
                 {"test images", images.test.size()},
                 {"height", images.train.height()},
                 {"width", images.train.width()},
                 {"classes", std::ssize(counts)},
                 {"split", fmt::format("{} of the training images are for validation", validated)}};
  const auto [fewest, most] = std::ranges::minmax_element(counts);
  if (*fewest == 0 || *most > 10 * *fewest)
    found.problems.push_back(fmt::format("class {} has {} training images, class {} has {}",
                                         fewest - counts.begin(), *fewest, most - counts.begin(),
                                         *most));
  std::vector<std::string> names(counts.size());
  for (std::size_t label = 0; label < names.size(); ++label) names[label] = fmt::to_string(label);
  if (names.size() != garment_classes)
    found.settings.push_back({key::class_names.name, names, "one name per class"});
  found.examples = static_cast<double>(images.train.size() - validated);
  found.most_epochs = 60;
}

ImageData::ImageData(const TaskSetup& setup)
    : config_(setup.config), class_names_(class_names_of(config_)) {
  if (!setup.metadata.empty()) {
    height_ = std::stoll(kept_value(setup.metadata, "height"));
    width_ = std::stoll(kept_value(setup.metadata, "width"));
  }
  if (!setup.needs_data) return;
  // A plan needs only the shapes of synthetic images.
  const DryRun without_values(setup.assumes_text && config_[key::data_path].empty());
  splits();
}

const ImageTaskSplits& ImageData::splits() {
  if (splits_) return *splits_;
  const ImageOptions options{.classes = static_cast<std::int32_t>(class_names_.size()),
                             .height = height_,
                             .width = width_};
  splits_.emplace(config_[key::data_path].empty() ? draw(config_, options)
                                                  : read(config_, options));
  height_ = splits_->train.height();
  width_ = splits_->train.width();
  return *splits_;
}

ImageData::Metadata ImageData::metadata() const {
  return {{"height", std::to_string(height_)}, {"width", std::to_string(width_)}};
}

Batch ImageData::validation(std::int64_t first, std::int64_t count) {
  const ImageDataset& images = splits().validation;
  expect_input(first < images.size(), "--index {}: the validation images are 0 to {}", first,
               images.size() - 1);
  std::vector<std::int64_t> chosen(std::min(count, images.size() - first));
  std::iota(chosen.begin(), chosen.end(), first);
  return images.batch(chosen);
}

}  // namespace tapestry
