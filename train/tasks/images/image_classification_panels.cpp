#include <algorithm>
#include <array>
#include <numeric>

#include "autograd/ops/softmax.hpp"
#include "layers/multi_head_attention.hpp"
#include "train/inspect/inspector.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/images/image_classification.hpp"

namespace tapestry {
namespace {

// What it looked at in one image: between all tokens.
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
  for (const auto& [path, weights] : recorder.entries)
    example.maps.push_back(
        {.path = path,
         .weights = weights.reshaped({weights.dim(1), weights.dim(2), weights.dim(3)}),
         .queries = labels,
         .keys = labels});
  return example;
}

// The first images that it mistakes, as far as there are three among the first, and others.
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

ReportPanels panels(ImageClassification& task, const Options&) {
  const ImageDataset* test = task.data().test();
  const ImageDataset& images = test ? *test : task.data().splits().validation;
  ReadExamples read_images;
  for (const std::int64_t index : telling(task, images))
    read_images.examples.push_back(read(task, images, index));
  return {read_images};
}

const RegisterInspector shown("image-classification", {}, &panels);

}  // namespace
}  // namespace tapestry
