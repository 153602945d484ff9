#include "train/tasks/images/image_classification.hpp"

#include <algorithm>

#include "autograd/counted.hpp"
#include "autograd/ops/pooling.hpp"
#include "data/images/captions.hpp"
#include "train/config/keys.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/initialized.hpp"
#include "train/tasks/linear_baseline.hpp"
#include "train/tasks/transformer_settings.hpp"

namespace tapestry {
namespace {

enum class ImageNetwork { transformer, convolutional };

// The network and its training. The settings of transformers are apart.
struct ClassifierSettings : ConvolutionalClassifierOptions {
  ImageNetwork kind = ImageNetwork::transformer;
  std::int64_t patch = 4;
  Readout pooling = Readout::class_token;
  ClassWeights class_weights = ClassWeights::none;
};

const Condition is_transformer = key_is("model.kind", "transformer"),
                is_convolutional = key_is("model.kind", "convolutional");

const SettingsOf<ClassifierSettings> classifier_settings = [] {
  using S = ClassifierSettings;
  using Row = Bound<S>;
  return std::vector<Row>{
      Row("model.patch", &S::patch,
          "side of a patch in pixels; must divide the images' height and width",
          {.low = 1, .high = 1024, .used_if = {is_transformer}}),
      Row("model.pooling", &S::pooling,
          "what the classifier reads: the class token, or the mean of the patches",
          {{"class", Readout::class_token}, {"mean", Readout::mean}},
          {.used_if = {is_transformer}}),
      Row("model.kind", &S::kind, "kind of network",
          {{"transformer", ImageNetwork::transformer},
           {"convolutional", ImageNetwork::convolutional}}),
      Row("model.channels", &S::channels,
          "channels of each stage of convolutions, which halves height and width, such as [16, 32]",
          {.low = 1, .high = 65536, .used_if = {is_convolutional}}),
      Row("model.kernel", &S::kernel, "height and width of the kernels; odd with model.blocks",
          {.low = 1, .high = 1024, .used_if = {is_convolutional}}),
      Row("model.blocks", &S::blocks,
          "residual blocks of each stage, after one convolution; 0: each stage is one convolution",
          {.low = 0, .high = 1000, .used_if = {is_convolutional}}),
      Row("model.padding", &S::padding,
          "pixels of zeros around the planes of each stage; empty: (model.kernel - 1) / 2",
          {.low = 0,
           .high = 1024,
           .used_if = {is_convolutional, {"model.blocks", {std::int64_t{0}}}}}),
      Row("model.pool", &S::downsampling,
          "what halves height and width: pooling of windows of 2 × 2 pixels (max, average), or "
          "convolutions of stride 2 (none)",
          {{"max", Downsampling::max},
           {"average", Downsampling::average},
           {"none", Downsampling::stride}},
          {.used_if = {is_convolutional}}),
      Row("model.norm_groups", &S::groups,
          "groups of channels of the group norm; must divide model.channels; 0: no norm",
          {.low = 0, .high = 65536, .used_if = {is_convolutional}}),
      Row("model.hidden", &S::hidden,
          "widths of the linear layers before the last, such as [120, 84]",
          {.low = 1, .high = 65536, .used_if = {is_convolutional}}),
      Row(key::class_weights, &S::class_weights)};
}();

VisionTransformerOptions transformer_options_of(const Config& config, const ImageData& images) {
  const Given<ClassifierSettings> given = classifier_settings.of(config);
  VisionTransformerOptions options = patches_of(config, given, images.size());
  options.classes = std::ssize(images.class_names());
  options.readout = given.pooling;
  return options;
}

ConvolutionalClassifierOptions convolutional_options(const Config& config,
                                                     const ImageData& images) {
  const Given<ClassifierSettings> given = classifier_settings.of(config);
  const TransformerBlockOptions shared = transformer_settings.of(config).block;
  const auto [C, H, W] = images.size();
  ConvolutionalClassifierOptions options = given;
  options.channels_in = C;
  options.height = H;
  options.width = W;
  options.classes = std::ssize(images.class_names());
  options.dropout = shared.dropout;
  options.activation = shared.feed_forward.activation;
  const std::string stages = counted(std::ssize(options.channels), "stage");
  given.expect(!options.channels.empty(), "channels",
               "expected at least one stage, such as [16, 32]");
  given.expect(options.padding.empty() || options.padding.size() == options.channels.size(),
               "padding", "expected one number for each of {}", stages);
  given.expect(options.blocks == 0 || options.kernel % 2 == 1, "kernel",
               "expected an odd number, because model.blocks is not 0");
  for (const std::int64_t channels : options.channels)
    given.expect(options.groups == 0 || channels % options.groups == 0, "norm_groups",
                 "does not divide {} channels; give a divisor of the channels of every stage",
                 channels);
  const Planes last = features_of(options);
  given.expect(
      last.height >= 1 && last.width >= 1, "channels",
      "nothing is left of images of {1} × {2} pixels after {0}; give fewer stages, or lower "
      "model.kernel",
      stages, H, W);
  return options;
}

ImageClassification::Network make_image_network(const Config& config, const ImageData& images) {
  config.expect(images.class_names().size() >= 2, key::data_path,
                "has {}; expected at least two: sub-folders of pictures, or a file of labels",
                counted(std::ssize(images.class_names()), "class", "classes"));
  if (classifier_settings.of(config).kind == ImageNetwork::convolutional) {
    const ConvolutionalClassifierOptions options = convolutional_options(config, images);
    return initialized(config,
                       [&](Random& init) { return ConvolutionalClassifier(options, init); });
  }
  const VisionTransformerOptions options = transformer_options_of(config, images);
  return initialized(config, [&](Random& init) { return VisionTransformer(options, init); });
}

std::string image_classifier_description(const Config& config,
                                         const std::map<std::string, std::string>&) {
  return fmt::format("a {} that classifies images",
                     classifier_settings.of(config).kind == ImageNetwork::transformer
                         ? "vision transformer"
                         : "convolutional network");
}

std::vector<Recognized> recognize_classes(const UserData& data) {
  const std::string& path = data.path;
  return {recognized_as("image-classification", "images", [&](Recognized& found) {
    recognize_images(found, data, true);
    expect_input(found.facts["classes"].integer() >= 2,
                 "{}: {} class, expected at least two; add --task vae, which needs no classes",
                 path, found.facts["classes"].integer());
    found.fit = has_captions(path) ? Recognized::Fit::on_request : Recognized::Fit::certain;
    const bool has_names = std::ranges::any_of(data.overrides, [](const std::string& text) {
      return text.starts_with(key::class_names.name);
    });
    if (!has_names && has_masks(path)) {
      found.fit = Recognized::Fit::on_request;
      found.asks = true;
      found.refusal =
          "its two folders may be pictures and their masks, which no task learns; add --task vae "
          "to encode all of them";
    }
    found.base = "clothes-cnn";
    constexpr std::int64_t most_small = 50'000, most_pixels = 64 * 64;
    found.is_small =
        found.examples < most_small &&
        found.facts["height"].integer() * found.facts["width"].integer() <= most_pixels;
    const std::int64_t shorter =
        std::min(found.facts["height"].integer(), found.facts["width"].integer());
    std::vector<std::int64_t> channels{16, 32, 64};  // those of the base, which halve the size
    while (channels.size() > 1 && shorter < std::int64_t{1} << channels.size()) channels.pop_back();
    if (channels.size() < 3)
      found.settings.push_back({"model.channels", channels, "each stage halves the small images"});
    for (std::int64_t& count : channels) count /= 2;
    found.smaller.push_back({{"model.channels", channels, "half of those of the base"}});
  })};
}

std::vector<ModelKind> image_kinds() {
  const auto kind = [](const std::string& name) {
    return std::vector{std::pair<std::string, Value>("model.kind", name)};
  };
  return {{"convolutional networks", kind("convolutional"), 3e-3},
          {"vision transformers", kind("transformer"), 1e-3}};
}

TaskSpec image_classification_spec() {
  return {.name = "image-classification",
          .help = "a vision transformer or convolutional network that classifies images",
          .describe = image_classifier_description,
          .keys = joined(
              {used_with(is_transformer, block_keys(), {"model.activation", "model.dropout"}),
               image_settings.keys(), classifier_settings.keys()}),
          .make = make_task_of<ImageClassification>,
          .detect = detect_images,
          .recognize = recognize_classes,
          .kinds = image_kinds,
          .metrics = classification_metrics(),
          .samples = image_classification_samples(),
          .predictor = image_classification_predictor(),
          .attention = image_classification_attention(),
          .panels = image_classification_panels,
          .onnx = image_classification_graphs,
          .reads_whole_data = true};
}

const RegisterTask registered_image_classification(image_classification_spec);

// Images as inputs of a linear model: the means of windows of pixels, at most 32 in each direction.
class PixelMeans {
 public:
  explicit PixelMeans(const ImageSize& size)
      : size_(size),
        window_(std::min(std::min(size.height, size.width),
                         (std::max(size.height, size.width) + 31) / 32)) {}

  std::int64_t values() const {
    return size_.channels * (size_.height / window_) * (size_.width / window_);
  }

  Batch of(const Dataset& data, std::span<const std::int64_t> examples) const {
    constexpr std::size_t at_once = 256;
    Batch all{.inputs = Array({std::ssize(examples), values()}),
              .targets = Array({std::ssize(examples)}, DType::int32),
              .count = static_cast<double>(examples.size())};
    auto input = all.inputs.mutable_values<float>().begin();
    auto target = all.targets.mutable_values<std::int32_t>().begin();
    for (std::size_t first = 0; first < examples.size(); first += at_once) {
      const Batch part =
          data.batch(examples.subspan(first, std::min(at_once, examples.size() - first)));
      const Array means = means_of(part.inputs);
      input = std::ranges::copy(means.values<float>(), input).out;
      target = std::ranges::copy(part.targets.values<std::int32_t>(), target).out;
    }
    return all;
  }

 private:
  Array means_of(const Array& images) const {
    if (window_ == 1) return images;
    return average_pool2d(
               images.reshaped({images.dim(0), size_.channels, size_.height, size_.width}),
               {.kernel = window_, .stride = window_})
        .value();
  }

  ImageSize size_;
  std::int64_t window_;
};

}  // namespace

ImageClassification::ImageClassification(const TaskSetup& setup)
    : data_(setup),
      network_(make_image_network(setup.config, data_)),
      fits_baselines_(has_own_training_data(setup)) {
  if (setup.needs_data && !setup.whole_data &&
      classifier_settings.of(setup.config).class_weights == ClassWeights::balanced)
    class_weights_ =
        balanced_weights(data_.splits().train.labels(), std::ssize(data_.class_names()));
}

Module& ImageClassification::model() {
  return std::visit([](Module& model) -> Module& { return model; }, network_);
}

Tensor ImageClassification::logits(const Tensor& images, Random* noise) const {
  return std::visit([&](const auto& model) { return model.forward(images, noise); }, network_);
}

Loss ImageClassification::loss(const Batch& batch, const Pass& pass) {
  const Tensor scores = logits(data_.inputs(batch, pass), pass.training ? pass.noise : nullptr);
  return classification_loss(scores, batch, pass.training ? class_weights_ : std::vector<double>());
}

std::vector<Baselines> ImageClassification::baselines(JudgedSplits judged) {
  if (!fits_baselines_) return {};
  const PixelMeans pixels(data_.size());
  return linear_baselines(
      *this, judged,
      {.outputs = std::ssize(data_.class_names()),
       .name = "linear model on pixels",
       .values_each = static_cast<double>(pixels.values()),
       .encode = [&](const Dataset& data, std::span<const std::int64_t> examples,
                     bool) { return pixels.of(data, examples); },
       .measure = [](const Array& outputs,
                     const Batch& batch) { return classification_loss(outputs, batch, {}); }});
}

}  // namespace tapestry
