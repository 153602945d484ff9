#include <algorithm>
#include <array>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "data/json.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/inspect/predictor.hpp"
#include "train/inspect/values.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/tasks/inspectors.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> index_of_first = index_option("index of the validation image");
const Key<std::int64_t> count = count_option(10);

const Key<std::string> classified_image =
    image_option("PNG or JPEG file to classify, instead of validation images");

// Returns "image 3: trousers 0.98  right" for each validation image from --index on, or the
// probabilities of the classes for each file of --image.
Sample sample(ImageClassification& task, const Options& options) {
  const bool own = options.is_set(classified_image);
  for (const KeyInfo* other :
       {&static_cast<const KeyInfo&>(index_of_first), &static_cast<const KeyInfo&>(count)})
    expect_input(!own || !options.is_set(*other), "--{0}: not used with --image; leave out --{0}",
                 other->name);
  if (own) {
    std::vector<std::string> paths = options.texts(classified_image);
    const Array logits = task.logits(task.data().pictures(paths)).value();
    return class_probabilities(logits, task.data().class_names(),
                               {.list = "images", .item = "file", .texts = std::move(paths)});
  }
  const std::int64_t first = options[index_of_first];
  const Batch batch = task.data().validation(first, options[count]);
  const std::vector<std::string>& names = task.data().class_names();
  std::string text;
  for (const ClassPrediction& one :
       class_predictions(task.logits(batch.inputs).value(), batch.targets))
    text += fmt::format("image {}: {} {:.2f}  {}\n", first + one.example, names[one.predicted],
                        one.probability, outcome(names[one.predicted], names[one.target]));
  return {.text = text};
}

// Returns the weights of the token that the head reads, the class token, or the mean of all tokens'
// weights: (H, T, T) -> (H, rows, columns), in the layout of the patches.
Array weights_of_patches(const VisionTransformer& model, const Tensor& weights) {
  const std::int64_t H = weights.dim(0), T = weights.dim(1), side = model.options.patch;
  const bool first = model.options.readout == Readout::class_token;
  const Tensor read_out = first ? slice(slice(weights, 1, 0, 1), 2, 1, T) : mean(weights, {1});
  return reshape(read_out, {H, model.options.height / side, model.options.width / side}).value();
}

// Returns the attention of each head of each layer to the patches of the validation image --index.
// Throws InputError for a convolutional network, or if there is no such image.
AttentionMaps attention(ImageClassification& task, const Options& options) {
  const auto* model = std::get_if<VisionTransformer>(&task.network());
  expect_input(model,
               "a convolutional network has no attention to draw; give a run with model.kind = "
               "\"transformer\"");
  const Batch batch = task.data().validation(options[index_of_first], 1);
  AttentionRecorder recorder;
  model->forward(batch.inputs);
  const auto [C, H, W] = task.data().size();
  const Tensor gray = mean(reshape(batch.inputs, {C, H, W}), {0});
  const Tensor image = Tensor(Array::full({1, 1}, 1)) - gray;  // 0 is white
  AttentionMaps maps = attention_maps(recorder, {});
  for (AttentionMap& map : maps) {
    map.weights = weights_of_patches(*model, map.weights);
    map.image = image.value();
  }
  return maps;
}

std::string title_of(const ClassPrediction& one, const std::vector<std::string>& names) {
  return fmt::format("image {}: prediction {} {:.2f}, {}", one.example, names[one.predicted],
                     one.probability,
                     one.is_right() ? "right" : "wrong: target " + names[one.target]);
}

// Returns the attention between all tokens of one image.
ReadExample read(ImageClassification& task, const VisionTransformer& model,
                 const ImageDataset& images, const ClassPrediction& prediction) {
  AttentionRecorder recorder;
  const Batch batch = images.batch(std::array{prediction.example});
  model.forward(batch.inputs);
  const std::vector<std::string>& names = task.data().class_names();
  const auto [C, H, W] = images.image_size();
  const std::int64_t side = model.options.patch;
  ReadExample example{.title = title_of(prediction, names),
                      .image = batch.inputs.reshaped({C, H, W}),
                      .patch_rows = model.options.height / side,
                      .patch_columns = model.options.width / side,
                      .extra_tokens = model.options.readout == Readout::class_token ? 1 : 0};
  std::vector<std::string> labels;
  if (example.extra_tokens == 1) labels.emplace_back("class token");
  for (std::int64_t row = 0; row < example.patch_rows; ++row)
    for (std::int64_t column = 0; column < example.patch_columns; ++column)
      labels.push_back(fmt::format("{}, {}", row, column));
  example.maps = attention_maps(recorder, labels);
  return example;
}

const Key<std::int64_t> best = best_option();

Predictor predictor(ImageClassification& task, const Options& options) {
  const std::vector<std::string>& names = task.data().class_names();
  const std::int64_t classes = options[best];
  return {.input = pictures_to_predict(),
          .columns = class_columns(names, classes),
          .predict = [&task, &names, classes](std::span<const ExampleFields> paths) {
            return task.data().predict(paths, [&](const Array& images) {
              return class_cells(task.logits(images).value(), names, classes);
            });
          }};
}

}  // namespace

Inspector<Predictor> image_classification_predictor() { return {{best}, &predictor}; }

Inspector<Sample> image_classification_samples() {
  return {{index_of_first, count, classified_image}, &sample};
}

Inspector<AttentionMaps> image_classification_attention() { return {{index_of_first}, &attention}; }

// Returns panels of the confusion matrix of the test split, or of the validation split if there is
// none, and of the most confident errors and some other images, with a transformer's attention.
// Throws InputError if a logit is not finite.
ReportPanels image_classification_panels(ImageClassification& task) {
  const auto* transformer = std::get_if<VisionTransformer>(&task.network());
  const ImageDataset* test = task.data().test();
  const ImageDataset& images = test ? *test : task.data().splits().validation;
  constexpr std::ptrdiff_t most_values = 400'000;  // of all images on the page
  const std::ptrdiff_t fitting =
      std::max<std::ptrdiff_t>(1, most_values / images.image_size().values());
  const std::ptrdiff_t most_shown = std::min<std::ptrdiff_t>(transformer ? 6 : 16, fitting);
  const std::ptrdiff_t most_wrong = std::max<std::ptrdiff_t>(1, most_shown * 3 / 4);
  ClassPredictions all = class_predictions(
      images, 256, [&](const Batch& batch) { return task.logits(batch.inputs).value(); });
  const TablePanel matrix = confusion_matrix(all, task.data().class_names());
  sort_errors_first(all);
  const auto right = std::ranges::find_if(all, &ClassPrediction::is_right);
  all.erase(all.begin() + std::min(most_wrong, right - all.begin()), right);
  all.resize(std::min(most_shown, std::ssize(all)));
  const std::string caption =
      "The most confident errors, and other images that the model was not trained on.";
  if (transformer) {
    ReadExamples read_images{.caption = caption +
                                        " Point at a patch to see its attention in each layer and "
                                        "head."};
    for (const ClassPrediction& one : all)
      read_images.examples.push_back(read(task, *transformer, images, one));
    return {read_images, matrix};
  }
  LabeledPictures pictures{.title = "Images and predictions", .caption = caption};
  std::vector<std::int64_t> examples;
  for (const ClassPrediction& one : all) {
    examples.push_back(one.example);
    pictures.labels.push_back(title_of(one, task.data().class_names()));
  }
  const auto [C, H, W] = images.image_size();
  pictures.images = images.batch(examples).inputs.reshaped({std::ssize(examples), C, H, W});
  return {pictures, matrix};
}

onnx::Models image_classification_graphs(ImageClassification& task) {
  const auto [C, H, W] = task.data().size();
  const auto& class_names = task.data().class_names();
  auto graph = std::make_shared<onnx::Graph>("model", "What images show.");
  const onnx::Value images = graph->input(onnx_images(task.data().size(), "from 0 (black) to 1"));
  const onnx::Value flat = onnx::reshape(images, {0, C * H * W});
  graph->output(
      {.name = "logits",
       .shape = {"batch", std::ssize(class_names)},
       .help = "of the classes; their softmax is the class's distribution"},
      std::visit([&](const auto& model) { return onnx::forward(model, flat); }, task.network()));
  graph->note("class_names", JsonValue(class_names).dump());
  return {graph};
}

}  // namespace tapestry
