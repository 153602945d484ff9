#include <algorithm>
#include <array>

#include "autograd/counted.hpp"
#include "data/images/outfits.hpp"
#include "data/text/printable.hpp"
#include "train/config/keys.hpp"
#include "train/tasks/images/captioning.hpp"

namespace tapestry {
namespace {

constexpr std::array captioned_splits = {SyntheticSplit::train, SyntheticSplit::validation,
                                         SyntheticSplit::test};

CaptionedFolder list(const Given<ImageSettings>& images, const Given<CaptioningSettings>& own,
                     bool whole) {
  images.expect(has_captions(images.path), "path",
                "there is no {} in it; give a folder with pictures and this table of their paths "
                "and captions",
                captions_file);
  own.expect(images.validation_share + own.test_share < 1, "test_fraction",
             "the sum with data.validation_fraction = {} must be below 1", images.validation_share);
  return images.checked([&] {
    return list_captions(images.path,
                         {.validation = images.validation_share, .test = own.test_share}, whole);
  });
}

}  // namespace

std::vector<KeyInfo> captioned_image_keys() {
  std::vector<KeyInfo> keys = image_settings.keys();
  std::erase_if(keys, [](const KeyInfo& key) {
    return key.name == key::class_names.name || key.name == "data.flip" || key.name == "data.shift";
  });
  return keys;
}

void detect_captioned_images(Config& config) {
  const Given<ImageSettings> given = image_settings.of(config);
  if (given.path.empty() || given.color != ColorMode::detected || !has_captions(given.path)) return;
  detect_color(config, given, list(given, captioning_settings.of(config), false).pictures);
}

std::vector<Recognized> recognize_captions(const UserData& data) {
  return {recognized_as("captioning", "images", [&](Recognized& found) {
    expect_input(has_captions(data.path), "expected a folder with pictures and {}", captions_file);
    found.fit = Recognized::Fit::similar;
    const std::string text =
        fmt::format("task = \"captioning\"\n[data]\npath = {}\n", to_toml(Value(data.path)));
    const Config config = parse_config(text, "init", data.overrides);
    CaptionedFolder folder = list(image_settings.of(config), captioning_settings.of(config), false);
    std::int64_t captions = 0;
    for (const PictureFolder::File& picture : folder.pictures.train)
      captions += std::ssize(folder.captions[picture.label]);
    for (auto* split : {&folder.pictures.train, &folder.pictures.validation, &folder.pictures.test})
      for (PictureFolder::File& picture : *split) picture.label = 0;
    Recognized of_pictures = found;
    recognize_pictures(of_pictures, image_settings.of(config), folder.pictures);
    const JsonValue facts = std::exchange(of_pictures.facts, JsonValue::object());
    for (const auto& [name, value] : facts.items())
      if (!name.starts_with("class")) of_pictures.facts[name] = value;
    found = std::move(of_pictures);
    found.facts["training captions"] = captions;
    found.examples = static_cast<double>(captions);
    found.fit = Recognized::Fit::certain;
    found.base = "clothes-captions";
    found.settings.push_back({"data.vocabulary", std::int64_t{4000}, "of a tokenizer of captions"});
  })};
}

CaptionData::CaptionData(const TaskSetup& setup)
    : own_(captioning_settings.of(setup.config)),
      given_(image_settings.of(setup.config)),
      whole_data_(setup.whole_data),
      images_(setup, source()) {
  const auto kept = setup.metadata.find("tokenizer");
  if (kept != setup.metadata.end())
    tokenizer_ = BytePairTokenizer::from_json(kept->second, "the checkpoint");
  if (!setup.needs_data && tokenizer_) return;
  const DryRun without_values(setup.assumes_text && given_.path.empty());
  splits();
}

// The functions hold what they fill, because an ImageData calls them.
ImageSource CaptionData::source() {
  return {.detect = detect_captioned_images,
          .list =
              [own = own_, listed = listed_](const Given<ImageSettings>& given, bool whole) {
                CaptionedFolder folder = tapestry::list(given, own, whole);
                listed->captions.fill(folder.captions);
                return std::move(folder.pictures);
              },
          .draw =
              [listed = listed_](const Given<ImageSettings>& given) {
                std::vector<ImageDataset> images;
                for (std::size_t split = 0; split < captioned_splits.size(); ++split) {
                  Outfits outfits =
                      make_outfits(split == 0 ? given.training_images : given.test_images,
                                   given.seed, captioned_splits[split]);
                  images.push_back(std::move(outfits.images));
                  if (split > 0) listed->masks[split] = std::move(outfits.masks);
                  for (std::string& description : outfits.descriptions)
                    listed->captions[split].push_back({std::move(description)});
                }
                return ImageTaskSplits{images[0], images[1], images[2]};
              }};
}

const CaptionData::Splits& CaptionData::splits() {
  if (splits_) return *splits_;
  const ImageTaskSplits& images = images_.splits();
  if (!tokenizer_) train_tokenizer();
  splits_ = Splits();
  if (!whole_data_) splits_->training = data_set(images.train, 0);
  splits_->validation = data_set(images.validation, 1);
  if (images.test) splits_->test = data_set(*images.test, 2);
  return *splits_;
}

void CaptionData::train_tokenizer() {
  std::vector<std::string> all;
  for (const std::int32_t image : images_.splits().train.labels()) {
    const std::vector<std::string>& captions = listed_->captions[0][image];
    all.insert(all.end(), captions.begin(), captions.end());
  }
  tokenizer_ = own_.checked([&] {
    return BytePairTokenizer::train(all,
                                    {.vocabulary = own_.vocabulary, .lower_case = own_.lower_case});
  });
}

// References are kept for the evaluation alone, as whole captions.
std::unique_ptr<CaptionDataset> CaptionData::data_set(const ImageDataset& images,
                                                      std::size_t split) const {
  std::vector<TokenPair> pairs;
  for (std::int32_t image = 0; image < images.size(); ++image)
    for (const std::string& caption : listed_->captions[split][images.labels()[image]])
      pairs.push_back({.source = {image},
                       .target = tokenizer_->encode(caption),
                       .reference = split == 0 ? "" : caption});
  return std::make_unique<CaptionDataset>(images, std::move(pairs), own_.context,
                                          listed_->masks[split]);
}

std::string CaptionData::remark() const {
  std::string text = images_.remark();
  if (text.empty() || !splits_) return text;
  std::int64_t captions = 0, cut = 0;
  for (const auto* split : {&splits_->training, &splits_->validation, &splits_->test})
    if (*split) captions += (*split)->size(), cut += (*split)->num_cut();
  text += "; " + counted(captions, "caption");
  if (cut > 0) text += fmt::format(", {} cut to {} tokens", cut, own_.context - 1);
  return text;
}

std::map<std::string, std::string> CaptionData::metadata() const {
  std::map<std::string, std::string> metadata = images_.metadata();
  metadata["tokenizer"] = tokenizer_->to_json();
  return metadata;
}

}  // namespace tapestry
