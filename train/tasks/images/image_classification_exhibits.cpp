#include <cmath>

#include "autograd/ops/softmax.hpp"
#include "layers/attention.hpp"
#include "train/tasks/classification.hpp"
#include "train/tasks/images/image_classification.hpp"
#include "train/view.hpp"

namespace tapestry {
namespace {

// What it looked at in one image: between all tokens.
ReadExample read(ImageClassification& task, const ImageDataset& images, std::int64_t index) {
  const VisionTransformer& model = task.model();
  const Batch batch = images.batch(std::array{index});
  AttentionRecorder recorder;
  const Array shares = softmax(model.forward(batch.inputs)).value();
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

Exhibits exhibits(ImageClassification& task, const Options&) {
  const ImageDataset* test = task.data().test();
  const ImageDataset& images = test ? *test : task.data().splits().validation;
  ReadExamples read_images;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(6, images.size()); ++i)
    read_images.examples.push_back(read(task, images, i));
  return {read_images};
}

const RegisterView shown("image-classification", {}, &exhibits);

}  // namespace
}  // namespace tapestry
