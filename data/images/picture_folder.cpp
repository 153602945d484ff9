#include "data/images/picture_folder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>

#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/images/picture_file.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/text/unicode.hpp"
#include "data/validation_split.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

// Names of the folders of a split, of which at most one may exist.
constexpr std::array train_names{"train"}, test_names{"test"};
constexpr std::array validation_names{"validation", "val", "valid"};

constexpr const char* no_classes = "all";  // the class of pictures without classes

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

// Returns the visible names in a folder, sorted. Throws InputError for a link to nothing.
Content content_of(const fs::path& folder) {
  Content content;
  std::error_code unseen;
  for (const std::string& name : file_names(folder.string())) {
    if (name.starts_with('.')) continue;
    const fs::file_status status = fs::status(folder / name, unseen);
    expect_input(status.type() != fs::file_type::not_found, "{}: is a link to nothing; remove it",
                 printable((folder / name).string()));
    if (is_folder(folder / name))
      content.folders.push_back(name);
    else if (has_picture_ending(name))
      content.pictures.push_back(name);
    else
      ++content.others;
  }
  return content;
}

// Throws InputError for a name that a checkpoint, a list or a table cannot keep apart from others.
void expect_class_names(const fs::path& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::string> seen;  // folders by the composed form of their names
  for (const std::string& name : names) {
    const std::string place = printable((folder / name).string());
    expect_input(printable(name) == name && name.find_first_of("\",") == std::string::npos,
                 "{}: the name of a class must not contain quotes, commas, or characters that "
                 "cannot be printed; rename the folder",
                 place);
    const auto [same, added] = seen.emplace(composed(name), place);
    expect_input(added, "{}: has the same name as {}, in other bytes; join the folders", place,
                 same->second);
  }
}

std::int32_t label_of(const fs::path& folder, const std::string& name,
                      const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, name);
  expect_input(found != classes.end(),
               "{}: is not one of the classes {}; move it elsewhere, or rename it",
               printable((folder / name).string()), list_briefly(classes));
  return static_cast<std::int32_t>(found - classes.begin());
}

// Lists the pictures of one split. The classes are set by the first split. Throws InputError as
// list_pictures() does.
void list_split(const fs::path& folder, std::vector<PictureFolder::Picture>& split,
                PictureFolder& all) {
  const Content content = content_of(folder);
  all.ignored += content.others;
  expect_input(content.folders.empty() || content.pictures.empty(),
               "{}: contains pictures and sub-folders; move the pictures into folders of classes",
               printable(folder.string()));
  expect_input(content.pictures.empty() || all.classes.empty() ||
                   all.classes == std::vector<std::string>{no_classes},
               "{}: contains pictures without classes; move them into sub-folders named {}",
               printable(folder.string()), list_briefly(all.classes));
  for (const std::string& name : content.pictures) split.push_back({(folder / name).string(), 0});
  if (all.classes.empty()) {
    expect_class_names(folder, content.folders);
    all.classes = content.folders.empty() ? std::vector<std::string>{no_classes} : content.folders;
  }
  for (const std::string& name : content.folders) {
    const std::int32_t label = label_of(folder, name, all.classes);
    const Content pictures = content_of(folder / name);
    all.ignored += pictures.others;
    expect_input(pictures.folders.empty(),
                 "{}: contains sub-folders; expected pictures of one class; move them here",
                 printable((folder / name).string()));
    expect_input(&split != &all.train || !pictures.pictures.empty(),
                 "{}: contains no pictures; add some, or remove the folder",
                 printable((folder / name).string()));
    for (const std::string& picture : pictures.pictures)
      split.push_back({(folder / name / picture).string(), label});
  }
}

// Lists the split whose folder has one of these names, if there is one. Throws InputError for a
// second one, and for one without pictures.
void list_if_there(const fs::path& folder, std::span<const char* const> names,
                   std::vector<PictureFolder::Picture>& split, PictureFolder& all) {
  std::string listed;
  for (const char* name : names) {
    if (!is_folder(folder / name)) continue;
    const std::string place = printable((folder / name).string());
    expect_input(listed.empty(), "{}: is the same split as {}; join the folders", place, listed);
    list_split(folder / name, split, all);
    expect_input(!split.empty(), "{}: contains no pictures; add some, or remove the folder", place);
    listed = place;
  }
}

// Lists the splits of a folder. Throws InputError if it contains anything else, or no training
// split.
void list_splits(const fs::path& folder, const Content& content, PictureFolder& all) {
  expect_input(is_folder(folder / train_names[0]),
               "{}: has no folder {} beside {}; add it, with the pictures to train on",
               printable(folder.string()), train_names[0], list_briefly(content.folders));
  expect_input(content.pictures.empty(), "{}: lies beside the folder {}; move it into a split",
               content.pictures.empty() ? "" : printable((folder / content.pictures[0]).string()),
               train_names[0]);
  for (const std::string& name : content.folders)
    expect_input(is_split(name),
                 "{}: lies beside the folder {}; expected only validation and test there; move it",
                 printable((folder / name).string()), train_names[0]);
  all.ignored += content.others;
  list_if_there(folder, train_names, all.train, all);
  list_if_there(folder, validation_names, all.validation, all);
  list_if_there(folder, test_names, all.test, all);
}

// Returns a picture, fitted to the size of `options` if that has one. Throws InputError if it
// cannot be read.
Array read_fitted(const std::string& path, const PictureOptions& options) {
  const Array image = read_picture(path, options.size.channels);
  return options.size.height == 0 ? image : fitted(image, options.size.height, options.size.width);
}

// A picture that was read, or why that failed.
struct ReadPicture {
  Array image{};
  std::string error{};
};

// Reads pictures on all threads.
std::vector<ReadPicture> read_all(std::span<const PictureFolder::Picture> pictures,
                                  const PictureOptions& options) {
  std::vector<ReadPicture> all(pictures.size());
  parallel_for(std::ssize(pictures), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) try {
        all[i].image = read_fitted(pictures[i].path, options);
      } catch (const InputError& error) {
        all[i].error = error.what();
      }
  });
  return all;
}

// Reads the splits of a folder, whose pictures get the size of `options`, or have that of the first
// one.
class SplitReader {
 public:
  SplitReader(const PictureOptions& options, std::int64_t pictures)
      : options_(options), pictures_(pictures) {}

  // Returns the images of a split that can be read; nothing if none can.
  std::optional<ImageDataset> read(const std::vector<PictureFolder::Picture>& split) {
    constexpr std::size_t at_once = 64;
    std::vector<PictureFolder::Picture> kept;
    Array first;  // the images that are kept in memory
    for (std::size_t begin = 0; begin < split.size(); begin += at_once) {
      const auto some = std::span(split).subspan(begin, std::min(at_once, split.size() - begin));
      const std::vector<ReadPicture> read = read_all(some, options_);
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (!is_usable(some[i].path, read[i])) continue;
        if (first.empty()) first = Array(cache_shape(std::ssize(split)));
        const std::int64_t number = std::ssize(kept);
        if (number < first.dim(0))
          first.part(number * size_.values(), (number + 1) * size_.values())
              .copy_from(read[i].image.reshaped({size_.values()}));
        kept.push_back(some[i]);
      }
    }
    if (kept.empty()) return std::nullopt;
    return data_set(first, std::move(kept));
  }
  std::int64_t skipped() const { return skipped_; }

 private:
  // Returns whether the picture is used; a broken one is counted by skipped(). The first picture
  // sets the size. Throws OptionError of "broken" unless such pictures are left out, and of "size".
  bool is_usable(const std::string& path, const ReadPicture& picture) {
    if (!picture.error.empty()) {
      expect_option(options_.skip_broken, "broken", "{}", picture.error);
      ++skipped_;
      return false;
    }
    const Array& image = picture.image;
    const ImageSize size{image.dim(0), image.dim(1), image.dim(2)};
    if (size_.height == 0) size_ = size;
    expect_option(size == size_, "size",
                  "{}: expected {} x {} pixels (height x width), found {} x {}", printable(path),
                  size_.height, size_.width, size.height, size.width);
    return true;
  }

  // Returns the shape of the images of a split of N pictures that are kept in memory. The split
  // gets a part of cache_bytes in proportion to its part of all pictures.
  Shape cache_shape(std::int64_t N) const {
    const double part = static_cast<double>(N) / static_cast<double>(pictures_);
    const double bytes = part * static_cast<double>(options_.cache_bytes);
    const auto most =
        static_cast<std::int64_t>(bytes / static_cast<double>(sizeof(float) * size_.values()));
    return {std::clamp<std::int64_t>(most, 1, N), size_.channels, size_.height, size_.width};
  }

  ImageDataset data_set(const Array& first, std::vector<PictureFolder::Picture> kept) const {
    std::vector<std::int32_t> labels;
    for (const PictureFolder::Picture& picture : kept) labels.push_back(picture.label);
    const std::int64_t M = std::min(first.dim(0), std::ssize(kept));
    const Array filled =
        first.part(0, M * size_.values()).reshaped({M, size_.channels, size_.height, size_.width});
    if (M == std::ssize(kept)) return ImageDataset(filled, std::move(labels));
    const auto read_other = [kept = std::move(kept), options = options_,
                             size = size_](std::int64_t example) {
      const Array image = read_fitted(kept[example].path, options);
      expect_input(image.shape() == Shape{size.channels, size.height, size.width},
                   "{}: the size of the picture changed during the training; train again",
                   printable(kept[example].path));
      return image;
    };
    return ImageDataset(filled, std::move(labels), read_other);
  }

  PictureOptions options_;
  std::int64_t pictures_;  // number of pictures of all splits
  ImageSize size_{};       // height 0: no picture was read
  std::int64_t skipped_ = 0;
};

// Moves this share of each class from the training to the validation split, at least one of two
// pictures. Throws OptionError of "share" if a split stays empty.
void divide(PictureFolder& folder, double share) {
  std::vector<PictureFolder::Picture> all = std::move(folder.train);
  folder.train.clear();
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && all[end].label == all[first].label) ++end;
    const auto N = static_cast<std::int64_t>(end - first);
    const std::int64_t wanted =
        std::max<std::int64_t>(N > 1, std::llround(share * static_cast<double>(N)));
    const std::vector<std::int64_t> chosen = validation_examples(N, std::min(N, wanted));
    for (std::int64_t i = 0; i < N; ++i)
      (std::ranges::binary_search(chosen, i) ? folder.validation : folder.train)
          .push_back(all[first + i]);
  }
  expect_option(
      !folder.train.empty() && !folder.validation.empty(), "share",
      "leaves {} pictures for training and {} for validation; expected at least one of each",
      folder.train.size(), folder.validation.size());
}

// Puts pictures into a random order, the same for every seed, so that the first ones are of all
// classes.
void mix(std::vector<PictureFolder::Picture>& pictures) {
  Random random(0, Stream::data);
  random.shuffle(pictures);
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
  if (std::ranges::any_of(content.folders, is_split))
    list_splits(folder, content, all);
  else
    list_split(folder, all.train, all);
  expect_input(!all.train.empty(),
               "{}: contains no pictures for training; expected PNG or JPEG "
               "files in one sub-folder per class",
               printable(path));
  return all;
}

PictureSplits read_pictures(const PictureFolder& folder, const PictureOptions& options) {
  PictureFolder listed = folder;
  if (listed.validation.empty()) divide(listed, options.validation_share);
  mix(listed.validation);
  mix(listed.test);
  SplitReader reader(
      options, std::ssize(listed.train) + std::ssize(listed.validation) + std::ssize(listed.test));
  const auto some_of = [&](const std::vector<PictureFolder::Picture>& split, const char* name) {
    std::optional<ImageDataset> images = reader.read(split);
    expect_input(images.has_value(), "{}: none of {} pictures for {} can be read; give others",
                 printable(split[0].path), split.size(), name);
    return *std::move(images);
  };
  ImageDataset train = some_of(listed.train, "training");
  ImageDataset validation = some_of(listed.validation, "validation");
  std::optional<ImageDataset> test;
  if (!listed.test.empty()) test = some_of(listed.test, "test");
  return {std::move(train), std::move(validation), std::move(test), reader.skipped()};
}

}  // namespace tapestry
