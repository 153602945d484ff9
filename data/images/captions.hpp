#pragma once

#include <string>
#include <vector>

#include "data/images/picture_folder.hpp"
#include "data/text/pairs.hpp"
#include "data/validation_split.hpp"

namespace tapestry {

// The table of the captions in a folder of pictures. Each row has the path of a picture below the
// folder and a caption. A first row without such a path is a header. A picture may have several
// rows.
inline constexpr const char* captions_file = "captions.csv";

// Returns whether a folder has a table of captions.
bool has_captions(const std::string& folder);

// The pictures that the table names, whose labels are their indices in `captions`.
struct CaptionedFolder {
  PictureFolder pictures{};
  std::vector<std::vector<std::string>> captions{};  // of each picture, in the order of the rows
};

// Lists the pictures of a table of captions, and divides them by divide_by_hash() of their paths;
// with `whole` all are the validation split. Throws InputError as Records does, and with the line
// for a row without exactly two cells, an empty caption or one of several lines, a path that leaves
// the folder, and a picture that is missing or is no PNG or JPEG file; OptionError of
// "validation_fraction" if a split has no picture.
CaptionedFolder list_captions(const std::string& folder, const SplitShares& shares,
                              bool whole = false);

// Images with captions as tokens, of which each is an example. Batches have CaptionTokens.
class CaptionDataset final : public Dataset {
 public:
  // Takes images, and pairs of the index of an image, as a source of one token, and its caption.
  // `masks` (images, R, height · width) may be empty. Throws std::invalid_argument as PairDataset
  // does.
  CaptionDataset(ImageDataset images, std::vector<TokenPair> captions, std::int64_t context,
                 Array masks = {});

  std::int64_t size() const override { return captions_.size(); }
  Batch batch(std::span<const std::int64_t> examples) const override;
  void add_to(Checksum& sum) const override;
  bool has_single_examples() const override { return true; }

  std::int64_t num_cut() const { return captions_.num_cut(); }  // number of truncated captions

 private:
  ImageDataset images_;
  PairDataset captions_;
  Array masks_;
};

}  // namespace tapestry
