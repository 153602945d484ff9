#include "data/images/picture_folder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "data/images/picture_file.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

constexpr std::array train_names{"train"}, test_names{"test"};
constexpr std::array validation_names{"validation", "val", "valid"};

bool is_folder(const fs::path& path) {
  std::error_code unseen;
  return fs::is_directory(path, unseen);
}

bool is_split(const std::string& name) {
  const auto is_among = [&](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  return is_among(train_names) || is_among(validation_names) || is_among(test_names);
}

struct Content {
  std::vector<std::string> folders{}, pictures{};
  std::int64_t others = 0;  // number of other files
};

// Returns the visible names in a folder, sorted.
Content content_of(const fs::path& folder) {
  Content content;
  for (const std::string& name : file_names(folder.string())) {
    if (name.starts_with('.')) continue;
    if (is_folder(folder / name))
      content.folders.push_back(name);
    else if (has_picture_ending(name))
      content.pictures.push_back(name);
    else
      ++content.others;
  }
  return content;
}

std::int32_t label_of(const fs::path& folder, const std::string& name,
                      const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, name);
  expect_input(found != classes.end(), "{}: a class that was not trained; expected {}",
               printable((folder / name).string()), list_briefly(classes));
  return static_cast<std::int32_t>(found - classes.begin());
}

// Lists the pictures of one split. The classes are set by the first split.
void list_split(const fs::path& folder, std::vector<PictureFolder::Picture>& split,
                PictureFolder& all) {
  const Content content = content_of(folder);
  all.ignored += content.others;
  expect_input(content.folders.empty() || content.pictures.empty(),
               "{}: contains pictures and sub-folders; move the pictures into folders of classes",
               printable(folder.string()));
  for (const std::string& name : content.pictures) split.push_back({(folder / name).string(), 0});
  if (all.classes.empty()) all.classes = content.folders;
  for (const std::string& name : content.folders) {
    const std::int32_t label = label_of(folder, name, all.classes);
    const Content pictures = content_of(folder / name);
    all.ignored += pictures.others;
    expect_input(pictures.folders.empty(), "{}: contains sub-folders; expected pictures of a class",
                 printable((folder / name).string()));
    expect_input(&split != &all.train || !pictures.pictures.empty(),
                 "{}: contains no pictures; add some, or remove the folder",
                 printable((folder / name).string()));
    for (const std::string& picture : pictures.pictures)
      split.push_back({(folder / name / picture).string(), label});
  }
}

template <class Names>
void list_if_there(const fs::path& folder, const Names& names,
                   std::vector<PictureFolder::Picture>& split, PictureFolder& all) {
  for (const char* name : names)
    if (split.empty() && is_folder(folder / name)) list_split(folder / name, split, all);
}

// Reads the pictures of a split, all in the size of `options`, which the first one sets if it is 0.
std::optional<ImageDataset> read_split(const std::vector<PictureFolder::Picture>& split,
                                       PictureOptions& options, std::int64_t& skipped) {
  std::vector<Array> images;
  std::vector<std::int32_t> labels;
  const bool fits = options.height != 0;
  for (const PictureFolder::Picture& picture : split) try {
      Array image = read_picture(picture.path);
      if (!fits && options.height == 0) options.height = image.dim(0), options.width = image.dim(1);
      expect_option(fits || (image.dim(0) == options.height && image.dim(1) == options.width),
                    "size", "{}: expected {} x {} pixels (height x width), found {} x {}",
                    printable(picture.path), options.height, options.width, image.dim(0),
                    image.dim(1));
      images.push_back(fits ? fitted(image, options.height, options.width) : image);
      labels.push_back(picture.label);
    } catch (const OptionError&) {
      throw;
    } catch (const InputError& error) {
      if (!options.skip_broken) throw OptionError("broken", error.what());
      ++skipped;
    }
  if (images.empty()) return std::nullopt;
  const std::int64_t pixels = options.height * options.width;
  Array all({std::ssize(images), options.height, options.width});
  auto to = all.mutable_values<float>().begin();
  for (Array& image : images) {
    to = std::copy_n(image.values<float>().begin(), pixels, to);
    image = Array();
  }
  return ImageDataset(all, std::move(labels));
}

// Moves this share of each class from the training to the validation split.
void divide(PictureFolder& folder, double share) {
  std::vector<PictureFolder::Picture> all = std::move(folder.train);
  folder.train.clear();
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && all[end].label == all[first].label) ++end;
    const auto N = static_cast<std::int64_t>(end - first);
    const std::int64_t wanted = std::llround(share * static_cast<double>(N));
    const std::vector<std::int64_t> chosen = validation_examples(N, std::min(N, wanted));
    for (std::int64_t i = 0; i < N; ++i)
      (std::ranges::binary_search(chosen, i) ? folder.validation : folder.train)
          .push_back(all[first + i]);
  }
  expect_option(!folder.train.empty() && !folder.validation.empty(), "share",
                "leaves {} pictures for training and {} for validation", folder.train.size(),
                folder.validation.size());
}

}  // namespace

bool is_picture_folder(const std::string& path) {
  if (!is_folder(path)) return false;
  const Content content = content_of(path);
  if (!content.pictures.empty()) return true;
  return std::ranges::any_of(content.folders, [&](const std::string& name) {
    const Content below = content_of(fs::path(path) / name);
    if (!below.pictures.empty()) return true;
    return is_split(name) && std::ranges::any_of(below.folders, [&](const std::string& inner) {
             return !content_of(fs::path(path) / name / inner).pictures.empty();
           });
  });
}

PictureFolder list_pictures(const std::string& path, const std::vector<std::string>& classes) {
  const fs::path folder = path;
  PictureFolder all{.classes = classes};
  const Content content = content_of(folder);
  const bool has_splits = is_folder(folder / train_names[0]);
  if (!has_splits) {
    list_split(folder, all.train, all);
  } else {
    for (const std::string& name : content.folders)
      expect_input(is_split(name),
                   "{}: beside the folder train; expected only validation and test there",
                   printable((folder / name).string()));
    list_split(folder / train_names[0], all.train, all);
    list_if_there(folder, validation_names, all.validation, all);
    list_if_there(folder, test_names, all.test, all);
  }
  expect_input(!all.train.empty(),
               "{}: contains no pictures for training; expected PNG or JPEG "
               "files in one sub-folder per class",
               printable(path));
  return all;
}

PictureSplits read_pictures(const PictureFolder& folder, const PictureOptions& options) {
  PictureFolder listed = folder;
  if (listed.validation.empty()) divide(listed, options.validation_share);
  PictureOptions sized = options;
  std::int64_t skipped = 0;
  std::optional<ImageDataset> train = read_split(listed.train, sized, skipped);
  expect_input(train.has_value(), "{}: none of {} pictures can be read",
               printable(listed.train[0].path), listed.train.size());
  std::optional<ImageDataset> validation = read_split(listed.validation, sized, skipped);
  expect_input(validation.has_value(), "{}: none of {} pictures for validation can be read",
               printable(listed.validation[0].path), listed.validation.size());
  std::optional<ImageDataset> test = read_split(listed.test, sized, skipped);
  return {std::move(*train), std::move(*validation), std::move(test), skipped};
}

}  // namespace tapestry
