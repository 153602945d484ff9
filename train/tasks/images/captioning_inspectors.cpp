#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/json.hpp"
#include "data/table/records.hpp"
#include "train/generate/generate.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/report_panels.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/images/captioning.hpp"
#include "train/tasks/inspectors.hpp"

namespace tapestry {
namespace {

using Tokens = std::vector<std::int32_t>;

const Key<std::int64_t> captioned_index = index_option("index of the validation example");
const Key<std::int64_t> captioned_count = count_option(4);
const Key<std::string> captioned_image =
    image_option("PNG or JPEG file to describe, instead of validation images");

// An image, the caption that a model writes for it, and its attention when it writes each word.
struct DescribedImage {
  std::string name{}, caption{};
  std::optional<std::string> reference{};
  Array image{};  // (C, height, width)
  std::vector<std::string> words{};
  std::vector<std::string> layers{};  // paths
  Array weights{};                    // (L, words, rows, columns), means of the heads

  bool is_right() const { return reference == caption; }
  std::string title() const {
    return reference ? fmt::format("{}: {}", name, is_right() ? "right" : "wrong") : name;
  }
  Array mean_weights() const { return mean(weights, {0}).value(); }
};

// Sets the words, and the attention with which their tokens are predicted.
void look(Captioning& task, const Array& image, const Tokens& caption, DescribedImage& shown) {
  const VisionTransformerOptions& cut = task.picture();
  Tokens read = caption;
  read.insert(read.begin(), bos_token);
  AttentionRecorder recorder;
  task.model().decode(one_row(read), task.encode(image));
  for (const auto& [path, weights] : recorder.entries)
    if (path.ends_with("cross_attention")) shown.layers.push_back(path);
  const Tensor layers = cross_attention(recorder);  // (L, T + 1, S)
  std::vector<CaptionWord> words = words_of(task.data().tokenizer(), caption);
  if (words.empty()) words.push_back({.text = "end", .first = 0, .last = 1});
  std::vector<Tensor> weights;
  for (const CaptionWord& word : words) {
    shown.words.push_back(word.text);
    weights.push_back(mean(slice(layers, 1, word.first, word.last), {1}));
  }
  shown.weights = reshape(stack(weights, 1), {layers.dim(0), std::ssize(words),
                                              cut.height / cut.patch, cut.width / cut.patch})
                      .value();
}

// Describes images (N, F).
std::vector<DescribedImage> describe(Captioning& task, const Array& images) {
  const auto [C, H, W] = task.data().images().size();
  const std::vector<Tokens> captions = task.describe(images);
  std::vector<DescribedImage> all;
  for (std::int64_t i = 0; i < images.dim(0); ++i) {
    const Array image = images.select({i});
    DescribedImage shown{.caption = task.text(captions[i]), .image = image.reshaped({C, H, W})};
    look(task, image, captions[i], shown);
    all.push_back(std::move(shown));
  }
  return all;
}

std::vector<DescribedImage> describe(Captioning& task, const Batch& batch, std::int64_t first) {
  std::vector<DescribedImage> all = describe(task, batch.inputs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = fmt::format("image {}", first + static_cast<std::int64_t>(i));
    all[i].reference = batch.part<CaptionTokens>().references[i];
  }
  return all;
}

// Describes the files of --image, or `count` validation images from --index on.
std::vector<DescribedImage> described(Captioning& task, const Options& options,
                                      std::int64_t count) {
  if (!options.is_set(captioned_image)) {
    const Dataset& data = *task.data().splits().validation;
    const std::int64_t first = options[captioned_index];
    expect_input(first < data.size(),
                 "--index {}: the validation examples are 0 to {}; give one of these", first,
                 data.size() - 1);
    return describe(task, batch_from(data, first, count), first);
  }
  expect_input(!options.is_set(captioned_index),
               "--index: not used with --image; leave out --index");
  const std::vector<std::string> paths = options.texts(captioned_image);
  std::vector<DescribedImage> all = describe(task, task.data().images().pictures(paths));
  for (std::size_t i = 0; i < all.size(); ++i) all[i].name = paths[i];
  return all;
}

// Returns captions as CSV and JSON, and each image with the attention of its words.
Sample sample_captions(Captioning& task, const Options& options) {
  expect_input(!options.is_set(captioned_image) || !options.is_set(captioned_count),
               "--count: not used with --image; leave out --count");
  HeatMaps figure{.scale = {}};
  Sample sample{.text = "image,caption,reference\n", .json = JsonValue::array()};
  for (const DescribedImage& one : described(task, options, options[captioned_count])) {
    const std::string reference = one.reference.value_or("");
    sample.text += fmt::format("{},{},{}\n", csv_quoted(one.name), csv_quoted(one.caption),
                               csv_quoted(reference));
    JsonValue object{{"image", one.name}, {"caption", one.caption}};
    if (one.reference) object["reference"] = reference;
    sample.json.push_back(std::move(object));
    figure.rows.push_back(
        attention_of_words(one.title(), one.image, one.words, one.mean_weights()));
  }
  sample.json = JsonValue{{"captions", std::move(sample.json)}};
  sample.figure = std::move(figure);
  return sample;
}

// Returns a map of each layer of the decoder, with the words of one caption.
AttentionMaps attention_of_caption(Captioning& task, const Options& options) {
  const DescribedImage one = described(task, options, 1).front();
  AttentionMaps maps;
  for (std::size_t layer = 0; layer < one.layers.size(); ++layer) {
    const Array weights = one.weights.select({static_cast<std::int64_t>(layer)});
    maps.push_back({.path = one.layers[layer],
                    .weights = weights.reshaped({weights.dim(1), weights.dim(2), weights.dim(3)}),
                    .queries = one.words,
                    .image = one.image});
  }
  return maps;
}

// Appends an image in color, and the attention of each of its words.
void add_pictures(const DescribedImage& one, std::vector<Tensor>& images,
                  std::vector<std::string>& labels) {
  for (const HeatMap& map :
       attention_of_words(one.title(), one.image, one.words, one.mean_weights())) {
    const std::vector<Tensor> gray(3, map.values);
    images.push_back(map.values.dim(0) == 1 ? concat(gray, 0) : Tensor(map.values));
    labels.push_back(map.title);
  }
  const std::ptrdiff_t maps = std::ssize(one.words) + 1;
  labels.end()[-maps] = fmt::format("{}: {}", one.name, outcome(one.caption, *one.reference));
}

}  // namespace

Inspector<Sample> captioning_samples() {
  return {{captioned_index, captioned_count, captioned_image}, &sample_captions};
}

Inspector<AttentionMaps> captioning_attention() {
  return {{captioned_index, captioned_image}, &attention_of_caption};
}

Predictor captioning_predictor(Captioning& task) {
  return {.input = pictures_to_predict(),
          .columns = {{"caption"}},
          .predict = [&task](std::span<const ExampleFields> paths) {
            return task.data().images().predict(paths, [&](const Array& images) {
              std::vector<Prediction> captions;
              for (const Tokens& caption : task.describe(images))
                captions.push_back({.cells = {task.text(caption)}});
              return captions;
            });
          }};
}

// Returns a panel of images of the test split, or of the validation split if there is none, with
// the attention of each word. Wrong captions come first.
ReportPanels captioning_panels(Captioning& task) {
  constexpr std::int64_t most_described = 64, most_values = 500'000;  // of all images on the page
  constexpr std::size_t most_shown = 6;
  const auto& splits = task.data().splits();
  const Dataset& data = splits.test ? *splits.test : *splits.validation;
  std::vector<DescribedImage> all =
      describe(task, batch_from(data, 0, std::min(data.size(), most_described)), 0);
  std::ranges::stable_partition(all, [](const DescribedImage& one) { return !one.is_right(); });
  LabeledPictures shown{
      .title = "Captions",
      .caption = fmt::format(
          "Images of the {} split, wrong captions first, and where the decoder looks when it "
          "writes each word: the mean of all heads and layers.",
          splits.test ? "test" : "validation")};
  std::vector<Tensor> images;
  for (std::size_t i = 0; i < std::min(all.size(), most_shown); ++i) {
    const std::int64_t values = 3 * all[i].image.dim(1) * all[i].image.dim(2);
    if (i == 0 || (std::ssize(images) + std::ssize(all[i].words) + 1) * values <= most_values)
      add_pictures(all[i], images, shown.labels);
  }
  shown.images = stack(images, 0).value();
  return {shown};
}

onnx::Models captioning_graphs(Captioning& task) {
  using onnx::Graph, onnx::Type, onnx::Value;
  const EncoderDecoder& model = task.model();
  const onnx::Described encoded{
      .name = "encoded",
      .shape = {"batch", model.options.patches->patches, model.options.block.width},
      .help = "the encoded image, which the decoder attends to"};
  auto encoder = std::make_shared<Graph>("encoder", "Reads an image, once for all of its caption.");
  const ImageSize& size = task.data().images().size();
  const Value images =
      onnx::reshape(encoder->input(onnx_images(size, "from 0 (black) to 1")), {0, size.values()});
  encoder->output(encoded, onnx::encode_images(model, task.picture(), images));
  auto decoder = std::make_shared<Graph>(
      "decoder", "Logits of the next token after each token of a caption, given an image.");
  const Value target = decoder->input(
      {.name = "target",
       .type = Type::int64,
       .shape = {"batch", "time"},
       .help = fmt::format("tokens, at most {} in a row; {} begins a caption, {} ends it",
                           model.options.target_context, bos_token, eos_token)});
  const Value source = decoder->input(encoded);
  decoder->output({.name = "logits",
                   .shape = {"batch", "time", model.options.target_vocabulary},
                   .help = "of the next token after each; their softmax is its distribution"},
                  onnx::decode(model, target, source));
  return {encoder, decoder};
}

}  // namespace tapestry
