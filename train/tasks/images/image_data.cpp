#include "train/tasks/images/image_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "autograd/counted.hpp"
#include "autograd/dry_run.hpp"
#include "autograd/parallel.hpp"
#include "data/images/captions.hpp"
#include "data/images/images.hpp"
#include "data/images/picture_file.hpp"
#include "data/input_file.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/classification.hpp"

namespace tapestry {
namespace {

// Returns the names of the classes: those of the config, or of a folder of pictures; else those of
// the synthetic images or, with data.path, "0" to "9". Throws InputError unless all names differ,
// and for an empty name or one with a quote, comma or line break.
std::vector<std::string> class_names_of(const Given<ImageSettings>& given,
                                        const std::optional<PictureFolder>& folder) {
  std::vector<std::string> names = given.class_names;
  if (names.empty() && folder) return folder->classes;
  for (int label = 0; given.class_names.empty() && label < garment_classes; ++label)
    names.push_back(given.path.empty() ? garment_name(label) : fmt::to_string(label));
  for (const std::string& name : names)
    given.expect(
        !name.empty() && name.find_first_of("\",\n\r") == std::string::npos &&
            std::ranges::count(names, name) == 1,
        "class_names",
        "the name \"{}\": expected different names, none empty, without quotes, commas and "
        "line breaks",
        printable(name));
  return names;
}

// Reads the images of data.path. The validation split is a part of the published training images.
// Throws InputError as load_images() does, and for keys that only folders of pictures use.
ImageTaskSplits read(const Given<ImageSettings>& given, const ImageOptions& options) {
  constexpr const char* unused = "is used only for folders of pictures; set this key to";
  given.expect(given.image_size == 0, "image_size", "{} 0", unused);
  given.expect(given.color != ColorMode::rgb, "color", "{} \"auto\"", unused);
  given.expect(!given.skip_broken, "skip_broken", "{} false", unused);
  given.expect(given.fit == PictureFit::crop, "fit", "{} \"crop\"", unused);
  return given.checked([&]() -> ImageTaskSplits {
    ImageSplits published = load_images(given.path, options);
    if (options.whole) return {published.train, published.train};
    TrainAndValidation parts = split_validation(published.train, given.validation_share);
    return {std::move(parts.train), std::move(parts.validation), std::move(published.test)};
  });
}

ImageTaskSplits draw(const Given<ImageSettings>& given, const ImageOptions& options) {
  given.expect(options.classes == garment_classes, "class_names",
               "expected {} names, found {}; name the classes of the synthetic images, or set "
               "data.path",
               garment_classes, options.classes);
  const auto part = [&](std::int64_t images, SyntheticSplit split) {
    return make_clothes(images, given.seed, split);
  };
  ImageTaskSplits drawn{part(given.training_images, SyntheticSplit::train),
                        part(given.test_images, SyntheticSplit::validation),
                        part(given.test_images, SyntheticSplit::test)};
  const auto [channels, height, width] = drawn.train.image_size();
  expect_input(options.height == 0 || (height == options.height && width == options.width),
               "the synthetic clothes have {} x {} pixels, but this model was trained on {} x {}; "
               "give the images of this model with --set data.path=FOLDER",
               height, width, options.height, options.width);
  return drawn;
}

// Returns the pictures of data.path; nothing unless it is a folder of pictures. Throws InputError
// as list_pictures() does.
std::optional<PictureFolder> picture_folder(const Given<ImageSettings>& given, bool whole = false) {
  if (given.path.empty() || !is_picture_folder(given.path)) return std::nullopt;
  return given.checked([&] {
    return list_pictures(given.path,
                         {.classes = given.class_names, .whole = whole, .rules = given.rules});
  });
}

// Returns how many files of a folder are not used, and the first of them.
std::string unused_files(const PictureFolder& folder) {
  return fmt::format("{} not used: {}{}",
                     counted(folder.ignored, "other file is", "other files are"),
                     printable(fmt::format("{}", fmt::join(folder.unused, ", "))),
                     folder.ignored > std::ssize(folder.unused) ? ", ..." : "");
}

bool has_color(const PictureFolder& folder) {
  return std::ranges::any_of(
      folder.train, [](const PictureFolder::File& picture) { return is_colored(picture.path); });
}

}  // namespace

const Condition is_drawn = key_is("data.path", ""), is_read{"data.path", {std::string()}, true};

const SettingsOf<ImageSettings> image_settings = [] {
  using S = ImageSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row(key::data_path, &S::path, "give images of the size this model was trained on"),
      Row(key::seed, &S::seed),
      Row(key::data_rules, &S::rules),
      Row("data.training_images", &S::training_images,
          "synthetic training images, if data.path is empty",
          {.low = 1, .high = 1e6, .used_if = {is_drawn}}),
      Row("data.test_images", &S::test_images,
          "number of synthetic validation images, and of test images",
          {.low = 1, .high = 1e6, .used_if = {is_drawn}}),
      Row("data.validation_fraction", &S::validation_share,
          "fraction of the training images that is used for validation",
          {.low = 0.0001,
           .high = 0.9,
           .used_if = {is_read},
           .advice = "change the value, or give more images"}),
      Row(key::class_names, &S::class_names, "or list all classes of the file here"),
      Row("data.image_size", &S::image_size,
          "height and width in pixels to which pictures of a folder are fitted; 0: all have one "
          "size",
          {.low = 0,
           .high = 4096,
           .used_if = {is_read},
           .advice = "set it to fit all pictures to one size, such as 32"}),
      Row("data.fit", &S::fit,
          "how a picture of another shape is fitted to data.image_size: crop (the largest centered "
          "part), pad (black borders) or stretch",
          {{"crop", PictureFit::crop}, {"pad", PictureFit::pad}, {"stretch", PictureFit::stretch}},
          {.used_if = {is_read}}),
      Row("data.color", &S::color,
          "read pictures of a folder as gray values or as red, green and blue; auto: rgb if the "
          "file of any training picture has colors",
          {{"auto", ColorMode::detected},
           {"grayscale", ColorMode::grayscale},
           {"rgb", ColorMode::rgb}},
          {.used_if = {is_read}}),
      Row("data.skip_broken", &S::skip_broken, "leave out pictures of a folder that cannot be read",
          {.used_if = {is_read}, .advice = "set it to true to leave out such files"}),
      Row("data.image_cache", &S::image_cache,
          "MiB of decoded pictures of a folder that are kept in memory; others are read in every "
          "epoch",
          {.low = 1, .high = 1e6, .does_not_affect_result = true, .used_if = {is_read}}),
      Row("data.flip", within(&S::augmentation, &Augmentation::flip),
          "mirror every second training image, chosen at random, left to right"),
      Row("data.shift", within(&S::augmentation, &Augmentation::shift),
          "largest random shift of a training image in pixels, in each direction",
          {.low = 0, .high = 4096})};
}();

void detect_color(Config& config, const Given<ImageSettings>& given, const PictureFolder& folder) {
  if (given.color != ColorMode::detected) return;
  ImageSettings found = given;
  found.color = has_color(folder) ? ColorMode::rgb : ColorMode::grayscale;
  image_settings.detect(config, found, {"color"});
}

void detect_images(Config& config) {
  const Given<ImageSettings> given = image_settings.of(config);
  ImageSettings found = given;
  const bool is_named = !found.class_names.empty(), has_mode = found.color != ColorMode::detected;
  if (found.path.empty() || (is_named && has_mode) || !is_there(found.path)) return;
  if (const std::optional<PictureFolder> folder = picture_folder(given)) {
    found.class_names = folder->classes;
    image_settings.detect(config, found, {"class_names"});
    detect_color(config, given, *folder);
  } else if (!is_named) {
    const std::int32_t classes = count_classes(found.path);
    for (std::int32_t label = 0; label < classes; ++label)
      found.class_names.push_back(fmt::to_string(label));
    image_settings.detect(config, found, {"class_names"});
  }
}

namespace {

// Sets the number of examples and of epochs and, if they are `divided`, how many of the training
// images are for validation. `counts`: training images of each class.
void set_training(Recognized& found, const std::vector<std::int64_t>& counts,
                  std::optional<std::int64_t> divided) {
  const std::int64_t N = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t validated = divided.value_or(0);
  if (divided)
    found.facts["split"] = fmt::format("{} of the training images are for validation", validated);
  found.examples = static_cast<double>(N - validated);
  found.most_epochs = 60;
}

// What the headers of the pictures of a folder tell. Those of 20,000 pictures at most are read.
struct PictureHeaders {
  std::vector<ImageSize> upright{};  // size of each picture that can be read
  std::int64_t tried = 0, broken = 0, turned = 0, with_16_bits = 0;
  std::vector<std::int64_t> of_class{};  // numbers of pictures that can be read
  std::map<std::string, std::pair<std::int64_t, std::string>> kinds{};  // of errors: count, first

  PictureHeaders(const PictureFolder& folder, bool turns_upright) {
    const std::int64_t N = std::ssize(folder.train);
    tried = std::min<std::int64_t>(N, 20'000);
    of_class.resize(folder.classes.size());
    for (std::int64_t i = 0; i < tried; ++i) try {
        auto [size, orientation, has_16_bits] = picture_info(folder.train[i * N / tried].path);
        with_16_bits += has_16_bits;
        turned += turns_upright && orientation.turns();
        if (turns_upright && orientation.transposes) std::swap(size.height, size.width);
        upright.push_back(size);
        ++of_class[folder.train[i * N / tried].label];
      } catch (const InputError& error) {
        add(error.what(), folder.train[i * N / tried].path);
      }
  }
  // Returns the shorter side that nine in ten of the pictures reach: others are enlarged.
  std::int64_t usual_side() const {
    std::vector<std::int64_t> sides;
    for (const ImageSize& size : upright) sides.push_back(std::min(size.height, size.width));
    const auto tenth = sides.begin() + std::ssize(sides) / 10;
    std::ranges::nth_element(sides, tenth);
    return *tenth;
  }
  std::int64_t sizes() const {
    std::set<std::pair<std::int64_t, std::int64_t>> all;
    for (const ImageSize& size : upright) all.insert({size.height, size.width});
    return std::ssize(all);
  }

 private:
  // Errors of one kind differ in the path and in numbers.
  void add(std::string error, const std::string& path) {
    ++broken;
    std::string kind = error.starts_with(path) ? error.substr(path.size()) : error;
    std::erase_if(kind, [](unsigned char c) { return std::isdigit(c); });
    auto& [count, first] = kinds[kind];
    if (++count == 1) first = std::move(error);
  }
};

// Returns what fitting to a square changes: "crop: 12.5 % of the pixels are cut on average, 43.8 %
// at most".
std::string fit_text(const PictureHeaders& headers, std::int64_t side, const ImageSettings& given) {
  double sum = 0, most = 0;
  for (const ImageSize& size : headers.upright) {
    const double change = fitting_change(size, {size.channels, side, side}, given.fit);
    sum += change;
    most = std::max(most, change);
  }
  const std::string name = image_settings.text("fit", given);
  if (most == 0) return name + ": all pictures are square";
  const double mean = sum / static_cast<double>(std::ssize(headers.upright));
  if (given.fit == PictureFit::stretch)
    return fmt::format("{}: sides are stretched {:.3g} times on average, {:.3g} times at most",
                       name, 1 + mean, 1 + most);
  return fmt::format("{}: {:.1f} % of the pixels are {} on average, {:.1f} % at most", name,
                     100 * mean, given.fit == PictureFit::crop ? "cut" : "added", 100 * most);
}

// Sets the size to which pictures are fitted, which is given or up to 64 pixels, and smaller ones.
void set_size(Recognized& found, const PictureHeaders& headers, const ImageSettings& given) {
  constexpr std::int64_t most_pixels = 64;
  const std::int64_t side =
      given.image_size > 0 ? given.image_size : std::min(most_pixels, headers.usual_side());
  found.facts["height"] = side;
  found.facts["width"] = side;
  const ImageSize& first = headers.upright[0];
  if (headers.sizes() == 1 && first.height == side && first.width == side) return;
  found.settings.push_back({"data.image_size", side, "pixels; pictures are fitted to it"});
  found.settings.push_back({"data.fit", image_settings.text("fit", given),
                            "or pad, stretch: pictures of another shape"});
  found.facts["fit"] = fit_text(headers, side, given);
}

// Adds smaller sizes of pictures, which take less time.
void add_smaller_sizes(Recognized& found) {
  constexpr std::int64_t least_pixels = 16;
  for (std::int64_t side = found.facts["height"].integer() / 2; side >= least_pixels; side /= 2)
    found.smaller.push_back({{"data.image_size", side, "pixels; more take too long"}});
}

}  // namespace

void recognize_pictures(Recognized& found, const Given<ImageSettings>& given,
                        const PictureFolder& folder, bool has_classes) {
  const PictureHeaders headers(folder, reading_of(given).turns_upright);
  for (const auto& [kind, errors] : headers.kinds)
    found.problems.push_back(
        fmt::format("{}: {}", counted(errors.first, "picture"), errors.second));
  expect_input(!headers.upright.empty(),
               "{} tried, and none can be read; expected intact PNG or JPEG files; give other "
               "pictures",
               counted(headers.tried, "picture"));
  std::vector<std::int64_t> counts(folder.classes.size());
  for (const PictureFolder::File& picture : folder.train) ++counts[picture.label];
  found.facts = {{"training pictures", std::ssize(folder.train)},
                 {"validation pictures", std::ssize(folder.validation)},
                 {"test pictures", std::ssize(folder.test)},
                 {"classes", std::ssize(folder.classes)},
                 {"class names", list_briefly(folder.classes)},
                 {"colors", has_color(folder)},
                 {"sizes", headers.sizes()}};
  set_size(found, headers, given);
  add_smaller_sizes(found);
  if (headers.turned > 0)
    found.facts["turned"] =
        fmt::format("{} as their EXIF orientation says", counted(headers.turned, "picture"));
  std::optional<std::int64_t> divided;
  if (PictureFolder whole = folder; whole.validation.empty()) {
    divide_pictures(whole, given);
    divided = std::ssize(whole.validation);
  }
  set_training(found, counts, divided);
  if (has_classes) compare_class_sizes(found, counts, folder.classes, "training image");
  if (has_classes) note_class_names(found, folder.classes);
  for (std::size_t i = 0; has_classes && i < counts.size(); ++i)
    if (headers.of_class[i] == 0)
      found.problems.push_back(
          fmt::format("class {}: none of the pictures that were tried can be read",
                      printable(folder.classes[i])));
  if (headers.with_16_bits > 0)
    found.problems.push_back(fmt::format("{} of 16 bits a value, of which the upper 8 are read",
                                         counted(headers.with_16_bits, "picture")));
  if (headers.broken > 0)
    found.problems.push_back(fmt::format("{} left out", counted(headers.broken, "broken picture")));
  if (folder.ignored > 0) found.problems.push_back(unused_files(folder));
  // Headers do not tell which files are cut short.
  found.settings.push_back({"data.skip_broken", true, "leaves out, and counts, broken files"});
}

namespace {

// Returns whether the path, or a file in this folder, is named as IDX files are.
bool has_idx_name(const std::string& path) {
  const std::vector<std::string> names = is_folder(path) ? file_names(path) : std::vector{path};
  return std::ranges::any_of(
      names, [](const std::string& name) { return name.find("-idx") != name.npos; });
}

}  // namespace

void recognize_images(Recognized& found, const UserData& data, bool has_classes) {
  const std::string& path = data.path;
  const bool has_pictures = is_picture_folder(path);
  if ((has_pictures && !has_captions(path)) || has_idx_name(path))
    found.fit = Recognized::Fit::similar;
  if (has_pictures) {
    const std::string config =
        fmt::format("task = \"{}\"\n[data]\npath = {}\n", found.name, to_toml(Value(path)));
    const Given<ImageSettings> given =
        image_settings.of(parse_config(config, "init", data.overrides));
    return recognize_pictures(found, given, *picture_folder(given), has_classes);
  }
  constexpr std::int32_t most_classes = 256;  // a label is one byte
  const ImageSplits images = load_images(path, {.classes = most_classes});
  std::vector<std::int64_t> counts(count_classes(path));
  for (const std::int32_t label : images.train.labels()) ++counts[label];
  found.facts = {{"training images", images.train.size()},
                 {"test images", images.test ? images.test->size() : 0},
                 {"height", images.train.image_size().height},
                 {"width", images.train.image_size().width},
                 {"classes", std::ssize(counts)}};
  std::vector<std::string> names(counts.size());
  for (std::size_t label = 0; label < names.size(); ++label) names[label] = fmt::to_string(label);
  const double validated =
      ImageSettings().validation_share * static_cast<double>(images.train.size());
  set_training(found, counts, std::max<std::int64_t>(1, std::llround(validated)));
  if (has_classes) compare_class_sizes(found, counts, names, "training image");
}

onnx::Described onnx_images(const ImageSize& size, const std::string& range) {
  onnx::Described images{.name = "images", .shape = {"batch", size.height, size.width}};
  images.help = (size.channels == 1 ? "gray values " : "red, green and blue ") + range;
  if (size.channels > 1) images.shape.insert(images.shape.begin() + 1, size.channels);
  return images;
}

namespace {

// Returns the settings, with what is detected if the model is a new one.
Given<ImageSettings> settings_of(const TaskSetup& setup, const std::optional<ImageSource>& source) {
  Config config = setup.config;
  if (setup.metadata.empty()) source ? source->detect(config) : detect_images(config);
  return image_settings.of(config);
}

}  // namespace

ImageData::ImageData(const TaskSetup& setup, std::optional<ImageSource> source)
    : source_(std::move(source)),
      given_(settings_of(setup, source_)),
      whole_data_(setup.whole_data) {
  if (!setup.metadata.empty()) {
    size_.height = std::stoll(kept_value(setup.metadata, "height"));
    size_.width = std::stoll(kept_value(setup.metadata, "width"));
    if (const auto channels = setup.metadata.find("channels"); channels != setup.metadata.end())
      size_.channels = std::stoll(channels->second);
  }
  if (setup.needs_data) folder_ = list();
  if (!source_) class_names_ = class_names_of(given_, folder_);
  if (!setup.needs_data) return;
  // A plan needs only the shapes of synthetic images.
  const DryRun without_values(setup.assumes_text && given_.path.empty());
  splits();
}

const ImageTaskSplits& ImageData::splits() {
  if (splits_) return *splits_;
  if (!folder_) folder_ = list();  // if the model was made without its data
  splits_.emplace(draw_or_read());
  const ImageSize found = splits_->train.image_size();
  given_.expect(size_.height == 0 || found == size_, "path",
                "has images with {}; expected {}, as in the training",
                counted(found.channels, "channel"), size_.channels);
  size_ = found;
  given_.expect(given_.augmentation.shift < std::min(size_.height, size_.width), "shift",
                "moves images of {} × {} pixels out of sight; give a smaller number", size_.height,
                size_.width);
  return *splits_;
}

std::optional<PictureFolder> ImageData::list() const {
  if (!source_) return picture_folder(given_, whole_data_);
  if (given_.path.empty()) return std::nullopt;
  return source_->list(given_, whole_data_);
}

ImageTaskSplits ImageData::draw_or_read() {
  if (folder_) return read_folder();
  if (source_) return source_->draw(given_);
  const ImageOptions options{.classes = static_cast<std::int32_t>(class_names_.size()),
                             .height = size_.height,
                             .width = size_.width,
                             .whole = whole_data_};
  return given_.path.empty() ? draw(given_, options) : read(given_, options);
}

ImageTaskSplits ImageData::read_folder() {
  PictureOptions options = given_;
  options.size = {.channels = given_.color == ColorMode::rgb ? 3 : 1,
                  .height = given_.image_size,
                  .width = given_.image_size};
  if (size_.height != 0) options.size = size_;
  options.cache_bytes = given_.image_cache << 20;
  PictureSplits pictures = given_.checked([&] { return read_pictures(*folder_, options); });
  return {std::move(pictures.train), std::move(pictures.validation),    std::move(pictures.test),
          pictures.skipped,          std::move(pictures.first_skipped), pictures.moved};
}

std::string ImageData::remark() const {
  if (!splits_ || given_.path.empty()) return "";
  const auto& [train, validation, test, skipped, first_skipped, moved] = *splits_;
  std::string text =
      fmt::format("images: {} for training, {} for validation, {} for test; {} x {} {} pixels",
                  whole_data_ ? 0 : train.size(), validation.size(), test ? test->size() : 0,
                  size_.height, size_.width, size_.channels == 1 ? "gray" : "color");
  if (!source_)
    text += fmt::format("; {}: {}", counted(std::ssize(class_names_), "class", "classes"),
                        printable(list_briefly(class_names_)));
  if (moved > 0)
    text += fmt::format("; {} moved to a split without its class", counted(moved, "picture"));
  if (skipped > 0)
    text += fmt::format("; {} left out ({})", counted(skipped, "broken file"),
                        printable_beginning(first_skipped));
  if (folder_ && folder_->ignored > 0) text += "; " + unused_files(*folder_);
  return text;
}

ImageData::Metadata ImageData::metadata() const {
  Metadata metadata{{"height", std::to_string(size_.height)},
                    {"width", std::to_string(size_.width)}};
  if (size_.channels > 1) metadata["channels"] = std::to_string(size_.channels);
  return metadata;
}

Array ImageData::inputs(const Batch& batch, const Pass& pass) const {
  const Augmentation& options = given_.augmentation;
  if (!pass.training || !pass.noise || !options.is_any()) return batch.inputs;
  return augmented(batch.inputs.to(DType::float32), size_, options, *pass.noise)
      .to(batch.inputs.dtype());
}

Array ImageData::pictures(const std::vector<std::string>& paths) const {
  PictureReading reading = reading_of(given_);
  reading.size = size_;
  Array images({std::ssize(paths), size_.values()});
  auto to = images.mutable_values<float>().begin();
  for (const std::string& path : paths) {
    const Array image = read_picture(path, reading);
    to = std::ranges::copy(image.values<float>(), to).out;
  }
  return images;
}

PredictorInput pictures_to_predict() {
  return {.kind = PredictorInput::Kind::files, .fields = {{"file"}}, .files = picture_files};
}

std::vector<Prediction> ImageData::predict(std::span<const ExampleFields> paths,
                                           const PredictImages& of_images) const {
  constexpr std::size_t at_once = 64;
  PictureReading reading = reading_of(given_);
  reading.size = size_;
  std::vector<Prediction> all(paths.size());
  for (std::size_t first = 0; first < paths.size(); first += at_once) {
    const auto some = paths.subspan(first, std::min(at_once, paths.size() - first));
    std::vector<Array> images(some.size());
    parallel_for(std::ssize(some), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) try {
          images[i] = read_picture(some[i].front(), reading);
        } catch (const InputError& error) {
          all[first + i].flaw = error.what();
        }
    });
    std::vector<float> values;
    for (const Array& image : images)
      if (!image.empty())
        values.insert(values.end(), image.values<float>().begin(), image.values<float>().end());
    if (values.empty()) continue;
    const std::int64_t F = size_.values();
    auto next = of_images(Array::of(values, {std::ssize(values) / F, F}));
    auto prediction = next.begin();
    for (std::size_t i = 0; i < some.size(); ++i)
      if (!images[i].empty()) all[first + i] = std::move(*prediction++);
  }
  return all;
}

Batch ImageData::validation(std::int64_t first, std::int64_t count) {
  const ImageDataset& images = splits().validation;
  expect_input(first < images.size(),
               "--index {}: the validation images are 0 to {}; give one of these", first,
               images.size() - 1);
  return batch_from(images, first, count);
}

}  // namespace tapestry
