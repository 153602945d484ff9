#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/class_folder.hpp"
#include "data/images/images.hpp"
#include "data/images/picture_file.hpp"

namespace tapestry {

// The pictures of a folder, listed and not yet read.
using PictureFolder = ClassFolder;

extern const FileKind picture_files;

// Returns whether the path is a folder with pictures, or with sub-folders of pictures.
bool is_picture_folder(const std::string& path);

// Lists the pictures of a folder, as list_class_folder() does.
PictureFolder list_pictures(const std::string& path, const ClassFolderOptions& options = {});

// Returns the file, below a folder of ten or more pictures without classes, that names at least
// half of them, with or without their endings, such as a table of their classes; "" if there is
// none.
std::string table_of_pictures(const std::string& path);

// Returns whether a folder has two classes such as images and masks: one has a name of those, and
// at least half of its files, or of the others, have the same names but for their endings.
bool has_masks(const std::string& path);

// Returns the words with which the names of the pictures of a folder without classes begin, as in
// cat.0.jpg, if they may be classes: each of two or more, for five or more pictures, and no word of
// cameras such as IMG.
std::vector<std::string> classes_in_names(const std::string& path);

struct PictureOptions {
  // Size to which pictures are fitted; height and width 0: all must have the size of the first.
  ImageSize size{};
  PictureFit fit = PictureFit::crop;
  bool skip_broken = false;       // leaves out files that cannot be read
  double validation_share = 0.1;  // of each class, if the folder has no validation split
  // 2: JPEG files are decoded in a smaller size if that is fitted anyway, pictures are turned as
  // their EXIF data tell, and a folder without a validation split is divided by divide_by_hash() of
  // the paths below it; 1: none of this, and validation_examples_of_classes().
  std::int64_t rules = 2;
  // Bytes of the images that are kept in memory; others are read again whenever they are used.
  std::int64_t cache_bytes = std::int64_t{1} << 30;
};

// Returns how the pictures of a folder are read.
PictureReading reading_of(const PictureOptions& options);

struct PictureSplits {
  ImageDataset train, validation;
  std::optional<ImageDataset> test{};
  std::int64_t skipped = 0;     // number of files that could not be read
  std::string first_skipped{};  // why the first of them could not
  std::int64_t moved = 0;       // HeldExamples::moved
};

// Moves a share of each class of a folder without a validation split into one. Returns
// HeldExamples::moved. Throws OptionError of "validation_fraction" if no picture is left for
// the training or the validation.
std::int64_t divide_pictures(PictureFolder& folder, const PictureOptions& options);

// Reads the pictures of a folder on all threads. The images of a class that are used for validation
// are the same for every seed. Those of validation and test are in a random order, also the same.
// Throws InputError if no picture of a split can be read; OptionError of "skip_broken" for a file
// that cannot be read, unless such files are left out; of "image_size" if sizes differ and none is
// given; and of "validation_fraction" as divide_pictures() does. If all pictures were listed as the
// validation split, `train` is the same split.
PictureSplits read_pictures(const PictureFolder& folder, const PictureOptions& options);

}  // namespace tapestry
