#include "data/images/captions.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "data/input_file.hpp"
#include "data/option_error.hpp"
#include "data/table/records.hpp"
#include "data/text/printable.hpp"

namespace fs = std::filesystem;

namespace tapestry {
namespace {

std::string table_of(const std::string& folder) {
  return (fs::path(folder) / captions_file).string();
}

// Returns the path of the picture in a row. Throws InputError unless it names one in the folder.
std::string picture_of(const std::string& folder, const std::string& name, const FileLine& line) {
  line.expect(!name.empty(), "names no picture; expected a path below {}", printable(folder));
  const fs::path below = fs::path(name).lexically_normal();
  line.expect(below.is_relative() && *below.begin() != "..",
              "the path {} leaves the folder; expected one below {}", shown(name),
              printable(folder));
  line.expect(has_picture_ending(name), "{} is no picture; expected a PNG or JPEG file",
              shown(name));
  const std::string path = (fs::path(folder) / below).string();
  std::error_code unseen;  // such as of a name that is too long
  line.expect(fs::is_regular_file(path, unseen),
              "the picture {} does not exist; add it, or remove the row", shown(name));
  return path;
}

std::string caption_of(const Records& table, std::int64_t row) {
  const std::string caption = table.text(row, 1);
  const FileLine line = table.line(row);
  line.expect(!trimmed(caption).empty(), "the caption is empty; write one, or remove the row");
  line.expect(caption.find_first_of("\n\r") == std::string::npos,
              "the caption has several lines; write it on one");
  return caption;
}

// Moves pictures to the splits that the hashes of their paths below the folder choose.
void divide(PictureFolder& folder, const SplitShares& shares) {
  std::vector<std::uint64_t> hashes;
  for (const PictureFolder::File& picture : folder.train)
    hashes.push_back(
        text_hash(fs::path(picture.path).lexically_relative(folder.path).generic_string()));
  const HeldExamples held = divide_by_hash(hashes, {}, shares);
  const std::vector<PictureFolder::File> all = std::exchange(folder.train, {});
  for (std::int64_t i = 0; i < std::ssize(all); ++i) {
    auto& split = std::ranges::binary_search(held.validation, i) ? folder.validation
                  : std::ranges::binary_search(held.test, i)     ? folder.test
                                                                 : folder.train;
    split.push_back(all[i]);
  }
  expect_option(!folder.train.empty() && !folder.validation.empty(), "validation_fraction",
                "leaves {} of {} pictures for training and {} for validation; expected at least "
                "one of each",
                folder.train.size(), all.size(), folder.validation.size());
}

}  // namespace

bool has_captions(const std::string& folder) { return is_there(table_of(folder)); }

namespace {

// Returns the delimiter of a table of captions: a comma, unless that does not give two columns.
char delimiter_of(const std::string& path) try {
  const Records table(path, ',');
  return table.columns() == 2 && !table.has_row_names() ? ',' : detected;
} catch (const InputError&) {  // the next reading reports it
  return detected;
}

}  // namespace

CaptionedFolder list_captions(const std::string& folder, const SplitShares& shares, bool whole) {
  const Records table(table_of(folder), delimiter_of(table_of(folder)));
  const std::int64_t first =
      table.size() > 0 && !has_picture_ending(table.raw(0, 0)) ? 1 : 0;  // below a header
  expect_input(table.columns() == 2 && !table.has_row_names() && table.size() > first,
               "{}: {} rows of {} cells; expected a path of a picture and a caption in each row, "
               "with quotes around a caption that has commas",
               printable(table.path()), table.size() - first, table.columns());
  CaptionedFolder found{.pictures = {.path = folder, .classes = {"all"}}};
  std::map<std::string, std::size_t> known;
  for (std::int64_t row = first; row < table.size(); ++row) {
    const std::string path = picture_of(folder, table.text(row, 0), table.line(row));
    const auto [place, is_new] = known.emplace(path, known.size());
    if (is_new) {
      found.pictures.train.push_back({path, static_cast<std::int32_t>(place->second)});
      found.captions.emplace_back();
    }
    found.captions[place->second].push_back(caption_of(table, row));
  }
  if (whole)
    found.pictures.validation = std::exchange(found.pictures.train, {});
  else
    divide(found.pictures, shares);
  return found;
}

CaptionDataset::CaptionDataset(ImageDataset images, std::vector<TokenPair> captions,
                               std::int64_t context, Array masks)
    : images_(std::move(images)),
      captions_(std::move(captions), {.context = context, .overlong = Overlong::cut}),
      masks_(std::move(masks)) {}

Batch CaptionDataset::batch(std::span<const std::int64_t> examples) const {
  Batch batch = captions_.batch(examples);
  const auto& [sources, padding, references] = batch.part<SourceTokens>();
  std::vector<std::int64_t> shown(examples.size());
  if (!is_dry_run()) std::ranges::copy(sources.values<std::int32_t>(), shown.begin());
  CaptionTokens caption{.tokens = batch.inputs};
  for (const Reference& reference : references) caption.references.push_back(reference.line);
  if (!masks_.empty()) caption.masks = masks_.select(shown);
  batch.inputs = images_.batch(shown).inputs;
  batch.auxiliary = std::move(caption);
  return batch;
}

void CaptionDataset::add_to(Checksum& sum) const {
  images_.add_to(sum);
  captions_.add_examples_to(sum);
}

}  // namespace tapestry
