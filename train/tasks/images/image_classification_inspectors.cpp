#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "autograd/ops/arithmetic.hpp"
#include "autograd/ops/reduce.hpp"
#include "autograd/ops/shaping.hpp"
#include "autograd/ops/softmax.hpp"
#include "data/json.hpp"
#include "train/inspect/onnx/models.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/tasks/inspectors.hpp"

namespace tapestry {
namespace {

const Key<std::int64_t> index_of_first = index_option("the validation image to look at");
const Key<std::int64_t> count = count_option(10);

// Returns softmax(logits)[chosen].
double probability(std::span<const float> logits, std::int32_t chosen) {
  const double chosen_logit = logits[chosen];
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - chosen_logit);
  return 1 / total;
}

// Returns "image 3: trousers 0.98  right" for each image from --index on.
Sample sample(ImageClassification& task, const Options& options) {
  const std::int64_t first = options[index_of_first];
  const Batch batch = task.data().validation(first, options[count]);
  const Array logits = task.model().forward(batch.inputs).value();
  const std::vector<std::int32_t> given = likeliest(logits);
  const auto right = batch.targets.values<std::int32_t>();
  const std::vector<std::string>& names = task.data().class_names();
  const std::int64_t V = logits.dim(1);
  std::string text;
  for (std::int64_t i = 0; i < std::ssize(given); ++i)
    text += fmt::format("image {}: {} {:.2f}  {}\n", first + i, names[given[i]],
                        probability(logits.values<float>().subspan(i * V, V), given[i]),
                        outcome(names[given[i]], names[right[i]]));
  return {.text = text};
}

// weights (H, T, T) -> (H, rows, columns), as the patches lie: the weights of the token that is
// read out, the class token, or the mean of all tokens' weights.
Array weights_of_patches(const VisionTransformer& model, const Tensor& weights) {
  const std::int64_t H = weights.dim(0), T = weights.dim(1), side = model.options.patch;
  const bool first = model.options.readout == Readout::class_token;
  const Tensor read_out = first ? slice(slice(weights, 1, 0, 1), 2, 1, T) : mean(weights, {1});
  return reshape(read_out, {H, model.options.height / side, model.options.width / side}).value();
}

// Returns what each head of each layer attends to in the image.
AttentionMaps attention(ImageClassification& task, const Options& options) {
  const Batch batch = task.data().validation(options[index_of_first], 1);
  AttentionRecorder recorder;
  task.model().forward(batch.inputs);
  const Tensor image =
      Tensor(Array::full({1, 1}, 1)) -
      reshape(batch.inputs, {task.data().height(), task.data().width()});  // 0 is white
  AttentionMaps maps = attention_maps(recorder, {});
  for (AttentionMap& map : maps) {
    map.weights = weights_of_patches(task.model(), map.weights);
    map.image = image.value();
  }
  return maps;
}

// Returns the attention between all tokens of one image.
ReadExample read(ImageClassification& task, const ImageDataset& images, std::int64_t index) {
  const VisionTransformer& model = task.model();
  const Batch batch = images.batch(std::array{index});
  AttentionRecorder recorder;
  const Array shares = softmax(model.forward(batch.inputs)).value();
  expect_finite(shares);
  const std::int32_t given = likeliest(shares).front();
  const std::int32_t right = batch.targets.values<std::int32_t>()[0];
  const std::vector<std::string>& names = task.data().class_names();
  const std::int64_t side = model.options.patch;
  ReadExample example{
      .title =
          fmt::format("image {}: {} {:.2f}, {}", index, names[given], shares.values<float>()[given],
                      given == right ? "right" : "wrong: it is " + names[right]),
      .image = batch.inputs.reshaped({model.options.height, model.options.width}),
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

// Returns up to three of the first misclassified images, and others.
std::vector<std::int64_t> telling(ImageClassification& task, const ImageDataset& images) {
  constexpr std::int64_t most_read = 256, most_wrong = 3, most_shown = 6;
  std::vector<std::int64_t> first(std::min(images.size(), most_read)), wrong, right;
  std::iota(first.begin(), first.end(), 0);
  const Batch batch = images.batch(first);
  const std::vector<std::int32_t> given = likeliest(task.model().forward(batch.inputs).value());
  for (const std::int64_t i : first)
    (given[i] == batch.targets.values<std::int32_t>()[i] ? right : wrong).push_back(i);
  wrong.resize(std::min<std::int64_t>(std::ssize(wrong), most_wrong));
  right.resize(std::min<std::int64_t>(std::ssize(right), most_shown - std::ssize(wrong)));
  wrong.insert(wrong.end(), right.begin(), right.end());
  return wrong;
}

}  // namespace

Inspector<Sample> image_classification_samples() { return {{index_of_first, count}, &sample}; }

Inspector<AttentionMaps> image_classification_attention() { return {{index_of_first}, &attention}; }

ReportPanels image_classification_panels(ImageClassification& task) {
  const ImageDataset* test = task.data().test();
  const ImageDataset& images = test ? *test : task.data().splits().validation;
  ReadExamples read_images;
  for (const std::int64_t index : telling(task, images))
    read_images.examples.push_back(read(task, images, index));
  return {read_images};
}

onnx::Models image_classification_graphs(ImageClassification& task) {
  const VisionTransformerOptions& options = task.model().options;
  auto graph = std::make_shared<onnx::Graph>("model", "What images show.");
  const onnx::Value images = graph->input({.name = "images",
                                           .shape = {"batch", options.height, options.width},
                                           .help = "grayscale from 0 (black) to 1 (white)"});
  const onnx::Value flat = onnx::reshape(images, {0, options.height * options.width});
  graph->output({.name = "logits",
                 .shape = {"batch", options.classes},
                 .help = "of the classes; their softmax is the class's distribution"},
                onnx::forward(task.model(), flat));
  graph->note("class_names", JsonValue(task.data().class_names()).dump());
  return {graph};
}

}  // namespace tapestry
