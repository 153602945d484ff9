#include "data/images/picture_folder.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "autograd/parallel.hpp"
#include "autograd/random.hpp"
#include "data/images/picture_file.hpp"
#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/text/printable.hpp"
#include "data/validation_split.hpp"

namespace tapestry {

const FileKind picture_files{
    .noun = "pictures", .expected = "PNG or JPEG files", .has_ending = has_picture_ending};

namespace {

// A picture that was read, or why that failed.
struct ReadPicture {
  Array image{};  // empty if its size differs from the expected one
  ImageSize size{};
  std::string error{};
};

// A reader of the splits of a folder, whose pictures get the size of `options`, or have that of the
// first one.
class SplitReader {
 public:
  SplitReader(const PictureOptions& options, std::int64_t pictures)
      : options_(options), pictures_(pictures) {}

  // Returns the images of a split that can be read; nothing if none can.
  std::optional<ImageDataset> read(const std::vector<PictureFolder::File>& split) {
    std::vector<PictureFolder::File> kept;
    Array first;  // the images that are kept in memory
    for (std::size_t begin = 0; begin < split.size();) {
      const auto some = std::span(split).subspan(begin, std::min(at_once(), split.size() - begin));
      begin += some.size();
      const std::vector<ReadPicture> read = read_all(some);
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
  const std::string& first_skipped() const { return first_skipped_; }

 private:
  Array read_one(const std::string& path) const { return read_picture(path, reading_of(options_)); }

  // Returns the number of pictures that are read and held before they are stored: 64, but not more
  // than a quarter of most_decoding_bytes holds, and one until their size is known.
  std::size_t at_once() const {
    const ImageSize& size = options_.size.height == 0 ? size_ : options_.size;
    const std::int64_t bytes = sizeof(float) * size.values();
    return bytes == 0 ? 1 : std::clamp<std::int64_t>(most_decoding_bytes / 4 / bytes, 1, 64);
  }

  // Reads pictures on all threads.
  std::vector<ReadPicture> read_all(std::span<const PictureFolder::File> pictures) const {
    std::vector<ReadPicture> all(pictures.size());
    parallel_for(std::ssize(pictures), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) try {
          Array image = read_one(pictures[i].path);
          all[i].size = {image.dim(0), image.dim(1), image.dim(2)};
          if (size_.height == 0 || all[i].size == size_) all[i].image = std::move(image);
        } catch (const InputError& error) {
          all[i].error = error.what();
        }
    });
    return all;
  }

  // Returns whether the picture is used; a broken one is counted by skipped(). The first picture
  // sets the size. Throws OptionError of "broken" unless such pictures are left out, and of "size".
  bool is_usable(const std::string& path, const ReadPicture& picture) {
    if (!picture.error.empty()) {
      expect_option(options_.skip_broken, "skip_broken", "{}", picture.error);
      if (++skipped_ == 1) first_skipped_ = picture.error;
      return false;
    }
    const ImageSize& size = picture.size;
    if (size_.height == 0) size_ = size;
    expect_option(size == size_, "image_size",
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

  ImageDataset data_set(const Array& first, std::vector<PictureFolder::File> kept) const {
    std::vector<std::int32_t> labels;
    for (const PictureFolder::File& picture : kept) labels.push_back(picture.label);
    const std::int64_t M = std::min(first.dim(0), std::ssize(kept));
    const Array filled =
        first.part(0, M * size_.values()).reshaped({M, size_.channels, size_.height, size_.width});
    if (M == std::ssize(kept)) return ImageDataset(filled, std::move(labels));
    const auto read_other = [kept = std::move(kept), reader = *this](std::int64_t example) {
      const Array image = reader.read_one(kept[example].path);
      const auto& [channels, height, width] = reader.size_;
      expect_input(image.shape() == Shape{channels, height, width},
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
  std::string first_skipped_{};
};

// Puts pictures into a random order, the same for every seed, so that the first ones are of all
// classes.
void mix(std::vector<PictureFolder::File>& pictures) {
  Random random(0, Stream::data);
  random.shuffle(pictures);
}

}  // namespace

bool is_picture_folder(const std::string& path) { return is_class_folder(path, picture_files); }

PictureFolder list_pictures(const std::string& path, const ClassFolderOptions& options) {
  return list_class_folder(path, picture_files, options);
}

namespace {

// Lists all pictures of a folder as one split; none of other data, or of those that a reader
// refuses.
PictureFolder all_pictures(const std::string& path) try {
  return is_picture_folder(path) ? list_pictures(path, {.whole = true}) : PictureFolder();
} catch (const InputError&) {
  return {};
}

// Returns whether a file names at least half of the pictures, whose names and stems are given. A
// stem of digits counts only as the first cell of a row. A file that cannot be read names none.
bool names_pictures(const std::string& path, const std::set<std::string>& names,
                    const std::set<std::string>& stems) try {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 26;
  const std::string text = read_file(path, most_bytes) + '\n';
  std::set<std::string> found;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find_first_of(" \t\r\n,;|:\"'[]{}", begin);
    const std::filesystem::path cell = text.substr(begin, end - begin);
    const std::string name = cell.filename().string();
    const bool is_number = name.find_first_not_of("0123456789") == name.npos;
    const bool is_first = begin == 0 || text[begin - 1] == '\n';
    const bool is_stem = stems.contains(name) && (!is_number || (is_first && text[end] != '\n'));
    if (is_stem || names.contains(name)) found.insert(cell.stem().string());
  }
  return 2 * found.size() >= stems.size();
} catch (const InputError&) {
  return false;
}

}  // namespace

std::string table_of_pictures(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t least_pictures = 10;
  const PictureFolder folder = all_pictures(path);
  std::set<std::string> names, stems;
  for (const PictureFolder::File& picture : folder.validation) {
    names.insert(fs::path(picture.path).filename().string());
    stems.insert(fs::path(picture.path).stem().string());
  }
  if (folder.classes.size() > 1 || stems.size() < least_pictures) return "";
  for (const std::string& name : folder.unused) {
    const std::string ending = lower_ascii(fs::path(name).extension().string());
    const bool may_be_table = ending == ".csv" || ending == ".tsv" || ending == ".txt" ||
                              ending == ".json" || ending == ".jsonl";
    if (may_be_table && names_pictures((fs::path(path) / name).string(), names, stems)) return name;
  }
  return "";
}

bool has_masks(const std::string& path) {
  constexpr std::string_view words[] = {"mask", "truth", "segment", "label", "annot"};
  const PictureFolder folder = all_pictures(path);
  if (folder.classes.size() != 2) return false;
  const auto is_mask = [&](const std::string& name) {
    const std::string lower = lower_ascii(name);
    return lower == "gt" || std::ranges::any_of(words, [&](std::string_view word) {
             return lower.find(word) != lower.npos;
           });
  };
  if (is_mask(folder.classes[0]) == is_mask(folder.classes[1])) return false;
  std::set<std::string> stems[2];
  for (const PictureFolder::File& picture : folder.validation)
    stems[picture.label].insert(std::filesystem::path(picture.path).stem().string());
  std::vector<std::string> shared;
  std::ranges::set_intersection(stems[0], stems[1], std::back_inserter(shared));
  return 2 * shared.size() >= std::min(stems[0].size(), stems[1].size());
}

std::vector<std::string> classes_in_names(const std::string& path) {
  constexpr std::int64_t least_pictures = 5;
  const std::set<std::string> of_cameras = {"",    "img",   "image", "images",  "dsc",  "dscn",
                                            "pxl", "photo", "pic",   "picture", "scan", "frame"};
  const PictureFolder folder = all_pictures(path);
  std::map<std::string, std::int64_t> counts;
  for (const PictureFolder::File& picture : folder.validation) {
    const std::string name = lower_ascii(std::filesystem::path(picture.path).filename().string());
    const auto is_letter = [](unsigned char c) { return c >= 128 || std::isalpha(c); };
    ++counts[std::string(name.begin(), std::ranges::find_if_not(name, is_letter))];
  }
  std::vector<std::string> words;
  for (const auto& [word, count] : counts) {
    if (count < least_pictures || of_cameras.contains(word)) return {};
    words.push_back(word);
  }
  return folder.classes.size() == 1 && words.size() > 1 ? words : std::vector<std::string>();
}

PictureReading reading_of(const PictureOptions& options) {
  return {.size = options.size,
          .fit = options.fit,
          .reduces_jpeg = options.rules >= 2,
          .turns_upright = options.rules >= 2};
}

std::int64_t divide_pictures(PictureFolder& folder, const PictureOptions& options) {
  std::vector<std::int32_t> labels;
  std::vector<std::uint64_t> hashes;
  for (const PictureFolder::File& picture : folder.train) {
    labels.push_back(picture.label);
    const auto below = std::filesystem::path(picture.path).lexically_relative(folder.path);
    hashes.push_back(text_hash(below.generic_string()));
  }
  const HeldExamples held =
      divide_by_rules(options.rules, hashes, labels, {.validation = options.validation_share});
  const std::vector<PictureFolder::File> all = std::exchange(folder.train, {});
  for (std::int64_t i = 0; i < std::ssize(all); ++i)
    (std::ranges::binary_search(held.validation, i) ? folder.validation : folder.train)
        .push_back(all[i]);
  expect_option(
      !folder.train.empty() && !folder.validation.empty(), "validation_fraction",
      "leaves {} pictures for training and {} for validation; expected at least one of each",
      folder.train.size(), folder.validation.size());
  return held.moved;
}

PictureSplits read_pictures(const PictureFolder& folder, const PictureOptions& options) {
  PictureFolder listed = folder;
  const std::int64_t moved = listed.validation.empty() ? divide_pictures(listed, options) : 0;
  mix(listed.validation);
  mix(listed.test);
  SplitReader reader(
      options, std::ssize(listed.train) + std::ssize(listed.validation) + std::ssize(listed.test));
  const auto some_of = [&](const std::vector<PictureFolder::File>& split, const char* name) {
    std::optional<ImageDataset> images = reader.read(split);
    expect_input(images.has_value(), "{}: none of the {} pictures for {} can be read; give others",
                 printable(split[0].path), split.size(), name);
    return *std::move(images);
  };
  ImageDataset validation = some_of(listed.validation, "validation");
  ImageDataset train = listed.train.empty() ? validation : some_of(listed.train, "training");
  std::optional<ImageDataset> test;
  if (!listed.test.empty()) test = some_of(listed.test, "test");
  return {std::move(train), std::move(validation),  std::move(test),
          reader.skipped(), reader.first_skipped(), moved};
}

}  // namespace tapestry
