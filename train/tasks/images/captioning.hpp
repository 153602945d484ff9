#pragma once

#include "data/images/captions.hpp"
#include "data/text/byte_pair.hpp"
#include "layers/models/encoder_decoder.hpp"
#include "layers/models/vision_transformer.hpp"
#include "train/generate/beam_search.hpp"
#include "train/task_spec.hpp"
#include "train/tasks/images/image_data.hpp"

namespace tapestry {

// The captions of a config, and what the model has in addition to block_keys().
struct CaptioningSettings {
  double test_share = 0.1;
  std::int64_t vocabulary = 1000;
  bool lower_case = false;
  std::int64_t context = 64, patch = 4;
  std::int64_t decoder_layers = 0;  // 0: those of the encoder
  double label_smoothing = 0;
  std::int64_t beams = 1;
};
extern const SettingsOf<CaptioningSettings> captioning_settings;

// Returns the settings of images that have captions instead of classes.
std::vector<KeyInfo> captioned_image_keys();
// Detects whether the pictures have colors, as TaskSpec::detect does.
void detect_captioned_images(Config& config);
std::vector<Recognized> recognize_captions(const UserData& data);

// The captioned images of a config: synthetic outfits, or pictures and captions.csv of data.path.
class CaptionData {
 public:
  struct Splits {
    std::unique_ptr<CaptionDataset> training, validation, test{};  // test: null without such images
  };

  // Reads the data unless only a trained model is needed. Throws InputError as ImageData and
  // list_captions() do.
  explicit CaptionData(const TaskSetup& setup);

  const Splits& splits();  // reads or generates the data at the first call
  bool is_read() const { return splits_.has_value(); }
  bool is_synthetic() const { return given_.path.empty(); }
  const ImageData& images() const { return images_; }
  const BytePairTokenizer& tokenizer() const { return *tokenizer_; }
  std::string remark() const;
  std::map<std::string, std::string> metadata() const;

 private:
  using Captions = std::vector<std::vector<std::string>>;  // of the images by their labels
  struct Listed {
    std::array<Captions, 3> captions{};  // of training, validation and test
    std::array<Array, 3> masks{};
  };

  ImageSource source();
  void train_tokenizer();
  std::unique_ptr<CaptionDataset> data_set(const ImageDataset& images, std::size_t split) const;

  Given<CaptioningSettings> own_;
  Given<ImageSettings> given_;
  bool whole_data_;
  std::shared_ptr<Listed> listed_ = std::make_shared<Listed>();
  ImageData images_;
  std::optional<BytePairTokenizer> tokenizer_;
  std::optional<Splits> splits_;
};

// The task `captioning`: an encoder of patches of an image, and a decoder that describes it.
class Captioning final : public Task {
 public:
  explicit Captioning(const TaskSetup& setup);

  EncoderDecoder& model() override { return model_; }
  const Dataset& training_data() override { return *data_.splits().training; }
  const Dataset& validation_data() override { return *data_.splits().validation; }
  const Dataset* test_data() override { return data_.splits().test.get(); }
  const Dataset* shown_data() override { return data_.is_read() ? &validation_data() : nullptr; }
  Loss loss(const Batch& batch, const Pass& pass) override;
  std::string remark() const override { return data_.remark(); }
  const char* unit() const override { return "tokens"; }
  double units(const Batch& batch) const override { return batch.count; }
  std::map<std::string, std::string> metadata() const override { return data_.metadata(); }
  void add_derived_metrics(Metrics& metrics) const override;
  void add_corpus_metrics(const GeneratedTexts& generated, Metrics& metrics) const override;
  Signatures signatures() const override;

  CaptionData& data() { return data_; }
  const VisionTransformerOptions& picture() const { return picture_; }
  // Returns what the decoder attends to: images (B, F) -> keys and values.
  EncoderDecoder::EncodedSource encode(const Tensor& images, Random* noise = nullptr) const;
  // Returns the tokens of the captions that are generated for images (B, F).
  std::vector<std::vector<std::int32_t>> describe(const Array& images) const;
  std::string text(std::span<const std::int32_t> tokens) const {
    return data_.tokenizer().decode(tokens);
  }

 private:
  void add_attention_to_colors(const AttentionRecorder& recorder, const Batch& batch,
                               MetricSums& sums) const;

  CaptioningSettings settings_;
  CaptionData data_;
  VisionTransformerOptions picture_;  // how images are cut and their patches encoded
  EncoderDecoder model_;
};

// A word of a caption, and its tokens [first, last).
struct CaptionWord {
  std::string text{};
  std::int64_t first = 0, last = 0;
};
// Returns the words of a caption: a token begins one if white space precedes its text.
std::vector<CaptionWord> words_of(const BytePairTokenizer& tokenizer,
                                  std::span<const std::int32_t> tokens);

Inspector<Sample> captioning_samples();
Predictor captioning_predictor(Captioning& task);
Inspector<AttentionMaps> captioning_attention();
ReportPanels captioning_panels(Captioning& task);
onnx::Models captioning_graphs(Captioning& task);

}  // namespace tapestry
